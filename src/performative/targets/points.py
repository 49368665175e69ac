"""Targets of all rounds of a world at once: the machinery that stable and optimal points share.

Rounds are independent problems: a few of them are solved from many starts, to see how many
solutions there are; then all of them, in blocks, from what was found. Every point comes with a
certificate, and with a status that says what is known about it.
"""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable
from importlib.metadata import version
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr

from performative._parallel import progress, threaded
from performative._precision import double
from performative.targets.solve import Memory, solve
from performative.world.rounds import Round
from performative.world.world import World

Array = Any

STATUSES = (
    "certified",  # unique, and within the certificate: proved from constants of the world
    "local",  # solved; the certificate is first-order, and there may be other solutions
    "not unique",  # other solutions were found, or a whole line of them
    "not a minimiser",  # the equation holds, but a better model is near or was found
    "unsolved",  # no solution was found; there may be none
)
SOLVED = 1e-9
STARTS, LOOKED_AT = 8, 12


class Kind(NamedTuple):
    """What makes a target: the equation F(θ) = 0, its derivative, and what is minimised."""

    name: str
    field: Callable[[Round, Array], Array]
    derivative: Callable[[Round, Array], Array]
    curvature: Callable[[Round, Array], Array]
    value: Callable[[Round, Array, Array], Array]  # at a model, given the solution
    modulus: Callable[[World], tuple[np.ndarray, str]]


class Found(NamedTuple):
    """The targets of some rounds."""

    points: np.ndarray  # (rounds, parameters)
    defect: np.ndarray
    certificate: np.ndarray
    status: np.ndarray  # index into STATUSES

    @staticmethod
    def join(parts: list[Found]) -> Found:
        return Found(*(np.concatenate(column) for column in zip(*parts, strict=True)))


class Finder:
    """Finds one kind of target in a world, any rounds at a time."""

    def __init__(self, world: World, kind: Kind, remember: bool = False):
        self.world, self.kind = world, kind
        self._known: dict[tuple[int, int], Found] | None = {} if remember else None
        modulus, trust = kind.modulus(world)
        self.modulus = modulus if trust == "rigorous" else np.full(world.rounds, -np.inf)
        self.block = min(256 if world.rounds <= 256 else 512, max(world.lanes, 8))
        self._prepare()

    def _prepare(self) -> None:
        """Solve a few rounds from many starts; keep each different solution as a start."""
        world, certain = self.world, bool(np.all(self.modulus > 0))
        middle = np.asarray(world.domain.center(world.parameters))
        looked = np.linspace(1, world.rounds, min(1 if certain else LOOKED_AT, world.rounds))
        looked = np.unique(looked.astype(int))
        if not certain:
            extremes = [np.argmin(world.alphas) + 1, np.argmax(world.alphas) + 1]
            looked = np.unique([*looked, *extremes])
        starts = middle[None]
        if not certain:
            rng = np.random.default_rng(0)
            more = world.domain.draw(rng, STARTS - 1, world.parameters)
            starts = np.concatenate([starts, more])
        blank = jax.tree.map(np.asarray, Memory.empty(world.parameters))
        points, defects, inverse, scale = self._run(_all_solutions, looked, starts, blank)
        good = defects * scale <= SOLVED * (1 + np.linalg.norm(points, axis=-1))
        self.starts = _different(points[good], middle)
        best = np.unravel_index(np.argmin(np.where(good, defects, np.inf)), defects.shape)
        self.memory = Memory(inverse[best], scale[best])

    def find(self, first: int, last: int) -> Found:
        """The targets of rounds `first` … `last`."""
        if self._known is not None and (first, last) in self._known:
            return self._known[first, last]
        rounds = np.arange(first, last + 1)
        blocks = [rounds[i : i + self.block] for i in range(0, len(rounds), self.block)]
        found = Found.join([self._block(block) for block in blocks])
        if self._known is not None:
            self._known[first, last] = found
        return found

    def _block(self, rounds: np.ndarray) -> Found:
        points, defect, status, inspected = self._run(
            _best_solution, rounds, self.starts, self.memory
        )
        modulus = self.modulus[rounds - 1].copy()
        local = np.full(len(rounds), np.inf)
        if inspected is not None:
            status, exact, local = _judge(status, inspected)
            modulus = np.fmax(modulus, exact)
        proved = (modulus > 0) & (status <= 1)
        certificate = np.where(proved, defect / np.where(proved, modulus, 1.0), local)
        status = np.where(proved, 0, status)
        certificate = np.where(status >= 2, np.inf, certificate)
        return Found(points, defect, certificate, status)

    def _run(self, function: Any, rounds: np.ndarray, starts: np.ndarray, memory: Memory) -> Any:
        size = 2 ** int(np.ceil(np.log2(len(rounds)))) if len(rounds) < self.block else self.block
        padded = np.concatenate([rounds, np.repeat(rounds[-1:], size - len(rounds))])
        moving, still = eqx.partition(self.world.at(padded), self.world.moving())
        certain = bool(np.all(self.modulus > 0))
        result = function(self.kind, certain, self.world.lanes, moving, still, starts, memory)
        return jax.tree.map(lambda leaf: np.asarray(leaf)[: len(rounds)], result)


def _different(points: np.ndarray, fallback: np.ndarray) -> np.ndarray:
    """One representative of each solution, the first first."""
    kept: list[np.ndarray] = []
    for point in points.reshape(-1, fallback.shape[0]):
        if len(kept) == STARTS:
            break
        if all(
            np.linalg.norm(point - other) > 0.02 * (1 + np.linalg.norm(point)) for other in kept
        ):
            kept.append(point)
    return np.array(kept) if kept else fallback[None]


def _solve_from(kind: Kind, here: Round, start: Array, memory: Memory) -> Any:
    field = functools.partial(kind.field, here)
    derivative = functools.partial(kind.derivative, here)
    return solve(field, derivative, here.domain, start, memory)


@functools.partial(jax.jit, static_argnums=(0, 1, 2))
def _all_solutions(
    kind: Kind, certain: bool, lanes: int, moving: Any, still: Round, starts: Array, memory: Memory
) -> Any:
    def one(part: Any) -> Any:
        here = eqx.combine(part, still)
        found = jax.vmap(lambda start: _solve_from(kind, here, start, memory))(starts)
        return found.point, found.defect, found.memory.inverse, found.memory.scale

    return jax.lax.map(one, moving, batch_size=lanes)


@functools.partial(jax.jit, static_argnums=(0, 1, 2))
def _best_solution(
    kind: Kind, certain: bool, lanes: int, moving: Any, still: Round, starts: Array, memory: Memory
) -> Any:
    def one(part: Any) -> Any:
        here = eqx.combine(part, still)
        found = jax.vmap(lambda start: _solve_from(kind, here, start, memory))(starts)
        size = found.defect * found.memory.scale / (1 + jnp.linalg.norm(found.point, axis=-1))
        solved = size <= SOLVED
        if certain:
            return found.point[0], found.defect[0], jnp.where(solved[0], 1, 4), None
        value = jax.vmap(lambda point: kind.value(here, point, point))(found.point)
        chosen = jnp.argmin(jnp.where(solved, value, jnp.inf))
        point = found.point[chosen]
        apart = jnp.linalg.norm(found.point - point, axis=-1) / (1 + jnp.linalg.norm(point))
        others = (kind.name == "stable") & jnp.any(solved & (apart > 1e-6))
        status = jnp.where(solved[chosen], jnp.where(others, 2, 1), 4)
        return point, found.defect[chosen], status, _inspect(kind, here, point, starts)

    return jax.lax.map(one, moving, batch_size=lanes)


class Inspected(NamedTuple):
    """What the neighbourhood of a solution looks like."""

    equation: Array  # derivative of θ − Π(θ − sF(θ))
    gap: Array  # that difference itself
    curvature: Array  # of what is minimised, along the face of the domain
    derivative: Array  # of F, where it is the same everywhere; else not a number
    beaten: Array  # whether a model elsewhere does better


def _inspect(kind: Kind, here: Round, point: Array, elsewhere: Array) -> Inspected:
    square, curvature = kind.derivative(here, point), kind.curvature(here, point)
    scale = 1.0 / jnp.maximum(jnp.linalg.norm(square), 1e-12)
    forward = point - scale * kind.field(here, point)
    face = here.domain.projection_derivative(forward)
    identity = jnp.eye(point.shape[0])
    value = kind.value(here, point, point)
    rivals = jax.vmap(lambda model: kind.value(here, model, point))(elsewhere)
    return Inspected(
        equation=identity - face @ (identity - scale * square),
        gap=jnp.linalg.norm(point - here.domain.projection(forward)),
        curvature=face @ curvature @ face.T / (1e-12 + jnp.linalg.norm(curvature)),
        derivative=square if here.is_quadratic else jnp.nan * square,
        beaten=jnp.any(rivals < value - 1e-9 * (1 + jnp.abs(value))),
    )


def _judge(status: np.ndarray, seen: Inspected) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Status, an exact modulus where there is one, and the local certificate, for many rounds."""
    finite = np.isfinite(seen.equation).all(axis=(1, 2)) & np.isfinite(seen.curvature).all(
        axis=(1, 2)
    )
    equation = np.where(finite[:, None, None], seen.equation, 0.0)
    smallest = np.linalg.svd(equation, compute_uv=False)[:, -1]
    curvature = np.where(finite[:, None, None], seen.curvature, 0.0)
    lowest = np.linalg.eigvalsh(0.5 * (curvature + np.swapaxes(curvature, 1, 2)))[:, 0]
    good = status == 1
    status = np.where(good & (smallest < 1e-8), 2, status)
    status = np.where(good & ((lowest < -1e-8) | seen.beaten), 3, status)
    status = np.where(finite, status, 4)
    known = np.isfinite(seen.derivative).all(axis=(1, 2))
    derivative = np.where(known[:, None, None], seen.derivative, 0.0)
    modulus = np.linalg.eigvalsh(0.5 * (derivative + np.swapaxes(derivative, 1, 2)))[:, 0]
    with np.errstate(divide="ignore", invalid="ignore"):
        local = np.where(seen.gap == 0.0, 0.0, seen.gap / smallest)
    return status, np.where(known, modulus, -np.inf), local


def find_all(world: World, kind: Kind, progress_shown: bool | None = None) -> xr.DataArray:
    """The targets of all rounds, labelled."""
    found = _find_all(world, kind, progress_shown)
    names = np.array(STATUSES)[found.status]
    flagged = np.flatnonzero(found.status >= 2) + 1
    points = xr.DataArray(
        found.points,
        dims=("round", "parameter"),
        coords={
            "round": np.arange(1, world.rounds + 1),
            "residual": ("round", found.defect),
            "certificate": ("round", found.certificate),
            "status": ("round", names),
        },
        name=f"{kind.name}_point",
        attrs={
            "target": kind.name,
            "certificate": float(np.max(found.certificate)),
            "residual": float(np.max(found.defect)),
            "rung": world.rung,
            "flagged": flagged,
            "world": world.description,
            "version": version("performative"),
        },
    )
    warn_of_flags(kind.name, found.status)
    return points


@double
def _find_all(world: World, kind: Kind, progress_shown: bool | None) -> Found:
    finder = Finder(world, kind)
    size = max(finder.block, 1)
    edges = [(i + 1, min(i + size, world.rounds)) for i in range(0, world.rounds, size)]
    parts: list[Found] = []
    with progress(f"{kind.name} points", world.rounds, progress_shown) as advance:
        for part in threaded(lambda edge: finder.find(*edge), edges):
            parts.append(part)
            advance(len(part.status))
    return Found.join(parts)


def warn_of_flags(name: str, status: np.ndarray) -> None:
    """One warning that counts the rounds whose target is not what its name says."""
    counts = [(STATUSES[code], int(np.sum(status == code))) for code in (2, 3, 4)]
    said = ", ".join(f"{word!r} in {count}" for word, count in counts if count)
    if said:
        warnings.warn(
            f"The {name} points of {len(status)} rounds were found to be {said}; "
            "see the coordinate `status`.",
            stacklevel=4,
        )
