"""Targets of all rounds of a world at once: the machinery that stable and optimal points share.

Rounds are independent problems: a few of them are solved from many starts, to see how many
solutions there are; then all of them, in blocks, from what was found. Every point comes with a
certificate, and with a status that says what is known about it.
"""

from __future__ import annotations

import functools
import threading
import warnings
import weakref
from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr

from performative import __version__
from performative._parallel import progress, threaded
from performative._precision import double
from performative.targets import closed_form
from performative.targets.solve import Memory, solve
from performative.world.rounds import Round
from performative.world.world import LANES, World

Array = Any

STATUSES = (
    "certified",  # unique, and within the certificate: proved from constants of the world
    "local",  # solved, no other solution was found; the certificate is first-order
    "not unique",  # other solutions were found, or a whole line of them
    "not a minimiser",  # the equation holds, but a better model is near or was found
    "unsolved",  # no solution was found; there may be none
)
SOLVED = 1e-9
STARTS, MANY_STARTS, LOOKED_AT = 12, 48, 8
THOROUGH = 2**15
BLOCK_NUMBERS = 2**20
"""Matrices of one block of problems hold at most about so many numbers."""


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
        self._known: dict[int, Found] | None = {} if remember else None  # whole pieces
        linear = closed_form.Linear.of(world, kind.derivative)
        if linear is not None:
            self.modulus = linear.modulus
        else:
            modulus, trust = kind.modulus(world)
            self.modulus = modulus if trust == "rigorous" else np.full(world.rounds, -np.inf)
        self.certain = bool(np.all(self.modulus > 0))
        self.linear = linear if self.certain else None
        # A block is filled up where few rounds are asked for: models that are long come in few.
        self.block = int(np.clip(BLOCK_NUMBERS // world.parameters**2, 4, max(world.lanes, 4)))
        self.piece = self.block if self.linear is None else closed_form.BLOCK
        self._lock, self._prepared = threading.Lock(), False

    def _prepare(self) -> None:
        """Solve a few rounds, from many starts if need be; keep each different solution as a start."""
        with self._lock:
            if not self._prepared:
                self._look()
                self._prepared = True

    def _look(self) -> None:
        world = self.world
        middle = np.asarray(world.domain.center(world.parameters))
        looked, starts = np.array([(1 + world.rounds) // 2]), middle[None]
        quick = world.lanes == LANES
        if not self.certain:
            extremes = [np.argmin(world.alphas) + 1, np.argmax(world.alphas) + 1]
            spaced = np.linspace(1, world.rounds, min(LOOKED_AT, world.rounds)).astype(int)
            looked = np.unique([*spaced, *extremes])
            starts = _spread(world, middle, MANY_STARTS if quick else STARTS)
        self.elsewhere = starts
        self.memory = jax.tree.map(np.asarray, Memory.empty(world.parameters))
        first = self._solve(looked[:1], middle[None])
        self._remember(first)
        found = self._solve(looked, starts)
        self._remember(found)
        solved = np.concatenate([first.point[first.solved], found.point[found.solved]])
        known = _different(solved, middle)
        if not self.certain and quick and world.rounds * STARTS <= THOROUGH:
            known = np.concatenate([_spread(world, middle, STARTS), known])
        self.starts = known

    def _remember(self, found: Solutions) -> None:
        """Keep the derivative at the best solution, for the problems to come."""
        defect = np.where(found.solved, found.defect, np.inf)
        best = np.unravel_index(np.argmin(defect), defect.shape)
        if found.solved[best]:
            self.memory = Memory(found.inverse[best], found.scale[best])

    def find(self, first: int, last: int) -> Found:
        """The targets of rounds `first` … `last`."""
        if self._known is None:
            return self._find(first, last)
        pieces = range((first - 1) // self.piece, (last - 1) // self.piece + 1)
        for k in pieces:
            if k not in self._known:
                end = min((k + 1) * self.piece, self.world.rounds)
                self._known[k] = self._find(k * self.piece + 1, end)
        begin = pieces[0] * self.piece + 1
        whole = Found.join([self._known[k] for k in pieces])
        return Found(*(column[first - begin : last + 1 - begin] for column in whole))

    def _find(self, first: int, last: int) -> Found:
        rounds, linear = np.arange(first, last + 1), self.linear
        return self._by_newton(rounds) if linear is None else self._in_closed_form(linear, rounds)

    def _in_closed_form(self, linear: closed_form.Linear, rounds: np.ndarray) -> Found:
        points, defect = closed_form.find(self.world, linear, self.kind.field, rounds)
        certificate = defect / self.modulus[rounds - 1] + _rounding(points)
        found = Found(points, defect, certificate, np.zeros(len(rounds), int))
        left = np.flatnonzero(~(defect <= 1e-12 * (1 + np.linalg.norm(points, axis=1))))
        if len(left):
            rest = self._by_newton(rounds[left])
            for column, values in zip(found, rest, strict=True):
                column[left] = values
        return found

    def _by_newton(self, rounds: np.ndarray) -> Found:
        self._prepare()
        blocks = [rounds[i : i + self.block] for i in range(0, len(rounds), self.block)]
        return Found.join([self._block(block) for block in blocks])

    def _block(self, rounds: np.ndarray) -> Found:
        found = self._solve(rounds, self.starts)
        fallback = found.value if self.kind.name == "optimal" else found.defect
        preferred = np.where(found.solved, found.value, np.inf)
        nothing = ~np.any(found.solved, axis=1)
        preferred = np.where(nothing[:, None], np.nan_to_num(fallback, nan=np.inf), preferred)
        chosen = np.argmin(preferred, axis=1)
        here = np.arange(len(rounds)), chosen
        points, defect = found.point[here], found.defect[here]
        status = np.where(found.solved[here], 1, 4)
        modulus, local = self.modulus[rounds - 1], np.full(len(rounds), np.inf)
        if not self.certain:
            rivals = found.solved
            if self.kind.name == "optimal":  # other solutions matter where they are as good
                best = found.value[here][:, None]
                rivals = rivals & (found.value <= best + 1e-12 * (1 + np.abs(best)))
            status = np.where((status == 1) & _several(found, rivals, points), 2, status)
            status, local = self._look_around(rounds, points, status)
        proved = (modulus > 0) & (status <= 1)
        certificate = np.where(proved, defect / np.where(proved, modulus, 1.0), local)
        certificate = np.where(status >= 2, np.inf, certificate + _rounding(points))
        return Found(points, defect, certificate, np.where(proved, 0, status))

    def _look_around(
        self, rounds: np.ndarray, points: np.ndarray, status: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Status and local certificate, from the neighbourhood of each solution."""
        moving, still = self._pieces(rounds)
        padded = _pad(points, self.block)
        seen = _inspected(self.kind, self.world.lanes, moving, still, padded, self.elsewhere)
        return _judge(status, jax.tree.map(lambda leaf: np.asarray(leaf)[: len(rounds)], seen))

    def _solve(self, rounds: np.ndarray, starts: np.ndarray) -> Solutions:
        """Every round from every start: (rounds, starts), solved in blocks of one size."""
        pairs = np.repeat(rounds, len(starts)), np.tile(starts, (len(rounds), 1))
        size = self.block
        parts = []
        for i in range(0, len(pairs[0]), size):
            some, begin = (part[i : i + size] for part in pairs)
            moving, still = self._pieces(some)
            lanes = self.world.lanes
            part = _solutions(self.kind, lanes, moving, still, _pad(begin, size), self.memory)
            parts.append([np.asarray(leaf)[: len(some)] for leaf in part])
        columns = [np.concatenate(column) for column in zip(*parts, strict=True)]
        shape = (len(rounds), len(starts))
        return Solutions(*(column.reshape(*shape, *column.shape[1:]) for column in columns))

    def _pieces(self, rounds: np.ndarray) -> tuple[Any, Round]:
        padded = _pad(rounds, self.block)
        return eqx.partition(self.world.at(padded), self.world.moving())


def _rounding(points: np.ndarray) -> np.ndarray:
    """What no certificate can go below."""
    return 4e-16 * (1 + np.linalg.norm(points, axis=1))


def _pad(values: np.ndarray, size: int) -> np.ndarray:
    return np.concatenate([values, np.repeat(values[-1:], size - len(values), axis=0)])


def _different(points: np.ndarray, fallback: np.ndarray) -> np.ndarray:
    """One representative of each solution, the first first."""
    kept: list[np.ndarray] = []
    for point in points:
        if len(kept) == STARTS:
            break
        if all(
            np.linalg.norm(point - other) > 0.02 * (1 + np.linalg.norm(point)) for other in kept
        ):
            kept.append(point)
    return np.array(kept) if kept else fallback[None]


def _spread(world: World, middle: np.ndarray, count: int) -> np.ndarray:
    """The centre, points inside, and points of the boundary (corners, where there are some)."""
    rng = np.random.default_rng(0)
    reach = world.domain.radius if np.isfinite(world.domain.radius) else 10.0
    if world.parameters == 1:
        ends = world.domain.project([[-100.0 * reach], [100.0 * reach]])
        ends = np.clip(ends, middle - 2.0 * reach, middle + 2.0 * reach)
        return np.concatenate([middle[None], np.linspace(ends[0], ends[1], count - 1)])
    inside = world.domain.draw(rng, count // 2 - 1, world.parameters)
    away = rng.normal(size=(count - count // 2, world.parameters))
    away *= 100.0 * reach / np.linalg.norm(away, axis=1, keepdims=True)
    return np.concatenate([middle[None], inside, world.domain.project(away)])


def _several(found: Solutions, rivals: np.ndarray, points: np.ndarray) -> np.ndarray:
    """The rounds in which different starts led to different solutions."""
    apart = np.linalg.norm(found.point - points[:, None], axis=-1)
    other = apart > 1e-6 * (1 + np.linalg.norm(points, axis=-1))[:, None]
    return np.any(rivals & other, axis=1)


class Solutions(NamedTuple):
    """What `solve` gave for some rounds from some starts."""

    point: Array
    defect: Array
    solved: Array
    value: Array  # of what is minimised
    inverse: Array
    scale: Array


@functools.partial(jax.jit, static_argnums=(0, 1))
def _solutions(
    kind: Kind, lanes: int, moving: Any, still: Round, starts: Array, memory: Memory
) -> Solutions:
    def one(pair: Any) -> Solutions:
        part, start = pair
        here = eqx.combine(part, still)
        field = functools.partial(kind.field, here)
        derivative = functools.partial(kind.derivative, here)
        point, defect, kept = solve(field, derivative, here.domain, start, memory)
        solved = defect * kept.scale <= SOLVED * (1 + jnp.linalg.norm(point))
        value = kind.value(here, point, point)
        return Solutions(point, defect, solved, value, kept.inverse, kept.scale)

    return jax.lax.map(one, (moving, starts), batch_size=lanes)


@functools.partial(jax.jit, static_argnums=(0, 1))
def _inspected(
    kind: Kind, lanes: int, moving: Any, still: Round, points: Array, elsewhere: Array
) -> Inspected:
    def one(pair: Any) -> Inspected:
        part, point = pair
        return _inspect(kind, eqx.combine(part, still), point, elsewhere)

    return jax.lax.map(one, (moving, points), batch_size=lanes)


class Inspected(NamedTuple):
    """What the neighbourhood of a solution looks like."""

    equation: Array  # derivative of θ − Π(θ − sF(θ))
    gap: Array  # that difference itself
    curvature: Array  # of what is minimised and of the boundary, along the face of the domain
    beaten: Array  # whether a model elsewhere does better


def _inspect(kind: Kind, here: Round, point: Array, elsewhere: Array) -> Inspected:
    square, curvature = kind.derivative(here, point), kind.curvature(here, point)
    scale = 1.0 / jnp.maximum(jnp.linalg.norm(square), 1e-12)
    forward = point - scale * kind.field(here, point)
    face = here.domain.projection_derivative(forward)
    identity = jnp.eye(point.shape[0])
    # A boundary that curves away adds to the curvature: on a ball, with multiplier ν, the face is
    # T/(1 + sν), T the tangents, and the sum is (T H T + νT)/(1 + sν)². Flat faces add nothing.
    along = face @ curvature @ face.T + (face - face @ face) / scale
    value = kind.value(here, point, point)
    rivals = jax.vmap(lambda model: kind.value(here, model, point))(elsewhere)
    return Inspected(
        equation=identity - face @ (identity - scale * square),
        gap=jnp.linalg.norm(point - here.domain.projection(forward)),
        curvature=along / (1e-12 + jnp.linalg.norm(curvature)),
        beaten=jnp.any(rivals < value - 1e-9 * (1 + jnp.abs(value))),
    )


def _judge(status: np.ndarray, seen: Inspected) -> tuple[np.ndarray, np.ndarray]:
    """Status and local certificate, for many rounds."""
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
    with np.errstate(divide="ignore", invalid="ignore"):
        local = np.where(seen.gap == 0.0, 0.0, seen.gap / smallest)
    return status, local


def find_all(world: World, kind: Kind, progress_shown: bool | None = None) -> xr.DataArray:
    """The targets of all rounds, labelled."""
    found = _find_all(world, kind, progress_shown)
    names = np.array(STATUSES)[found.status]
    flagged = np.flatnonzero(found.status >= 2) + 1
    points = xr.DataArray(
        found.points.copy(),  # whose owner may do with them what they like
        dims=("round", "parameter"),
        coords={
            "round": np.arange(1, world.rounds + 1),
            "residual": ("round", found.defect.copy()),
            "certificate": ("round", found.certificate.copy()),
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
            "version": __version__,
        },
    )
    warn_of_flags(kind.name, found.status)
    world.warn_of_coarse_nodes(np.arange(1, world.rounds + 1), found.points)
    return points


_FOUND: weakref.WeakKeyDictionary[World, dict[str, Found]] = weakref.WeakKeyDictionary()
"""The targets of worlds that are still there, by the kind's name: every bound asks again."""

MOST_KEPT = 2**22
"""Numbers; the targets of larger worlds are found again."""


def forget(world: World) -> None:
    """As if nobody had asked for the targets of this world."""
    _FOUND.pop(world, None)


@double
def _find_all(world: World, kind: Kind, progress_shown: bool | None) -> Found:
    if kind.name in _FOUND.get(world, {}):
        return _FOUND[world][kind.name]
    finder = Finder(world, kind)
    size = finder.piece
    edges = [(i + 1, min(i + size, world.rounds)) for i in range(0, world.rounds, size)]
    parts: list[Found] = []
    with progress(f"{kind.name} points", world.rounds, progress_shown) as advance:
        for part in threaded(lambda edge: finder.find(*edge), edges):
            parts.append(part)
            advance(len(part.status))
    found = Found.join(parts)
    if found.points.size <= MOST_KEPT:
        _FOUND.setdefault(world, {})[kind.name] = found
    return found


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
