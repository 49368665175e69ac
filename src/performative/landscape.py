"""The landscape of one round: DPR_t(θ, θ′) along a line of models, judged and deployed.

Section 2 of the paper in one picture. On the diagonal θ = θ′ the landscape is PR_t; the curve of the
best answers, argmin over θ for each deployed θ′, crosses the diagonal at the stable points; the optimal
point is where the diagonal is lowest. `measure` gives the data, `pp.plots.landscape` draws them. In a
world of several parameters all of this is meant along the line.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import xarray as xr

from performative import __version__, _checks
from performative._precision import double
from performative.simulation.run import Run
from performative.targets.optimal import OPTIMAL
from performative.targets.points import Finder
from performative.targets.stable import STABLE
from performative.world.world import World

GOLDEN = (np.sqrt(5.0) - 1.0) / 2.0
SHARPENINGS = 48
"""Golden sections of one cell of the grid: 0.618^48 is 1e-10."""

CLOSE = 1e-6
"""Relative to the line's length: what counts as one place."""


def measure(
    world: World,
    t: int | None = None,
    *,
    run: Run | None = None,
    index: int = 0,
    direction: Any = None,
    through: Any = None,
    reach: tuple[float, float] | None = None,
    points: int = 121,
) -> xr.Dataset:
    r"""DPR_t(θ, θ′) for θ = c + u·v and θ′ = c + w·v, and what stands out on it.

    Args:
        world: any world.
        t: the round; the last one unless given.
        run: a run whose path is to be shown; its models are projected onto the line.
        index: which of its runs.
        direction: v; by default from the stable point of the round to its optimal point, and where
            those are one, along the run's first step or the first parameter.
        through: c; the stable point by default, and 0 in a world of one parameter.
        reach: the smallest and largest u and w; by default what holds the targets and the path, and in
            a world of one parameter the whole domain, where it is bounded.
        points: how many u and w.

    Returns:
        A Dataset: `decoupled_risk` (deployed, model), `risk` and `best_response` (deployed), both
        against the places u and w; `stable` and `optimal`, the places where the best answer meets the
        diagonal and where the diagonal is lowest; `path` (round), where a run was given; `origin` and
        `direction` (parameter), that turn places into models.

    >>> import performative as pp
    >>> seen = measure(pp.worlds.biased_coin(rounds=1), points=21)
    >>> seen.stable.values.round(6).tolist(), seen.optimal.values.round(6).tolist()
    ([0.142857], [0.25])
    """
    _checks.instance("world", world, World, "a pp.World")
    t = world.check_round(world.rounds if t is None else t)
    points = _checks.integer("points", points, low=5)
    models = None
    if run is not None:
        _checks.instance("run", run, Run, "a pp.Run, as pp.simulate returns")
        models = run.deployed.isel(run=_checks.integer("index", index, low=0)).mean("arm").values
        world.check_models("run", models)
    origin, along = _line(world, t, models, direction, through)
    path = None if models is None else (models - origin) @ along / (along @ along)
    low, high = _reach(world, t, origin, along, path, reach)
    places = np.linspace(low, high, points)

    def risk(judged: np.ndarray, deployed: np.ndarray) -> np.ndarray:
        judged, deployed = np.broadcast_arrays(judged, deployed)
        spots = (origin + part[..., None] * along for part in (judged, deployed))
        return world.decoupled_risk(t, *spots)

    def answer(deployed: np.ndarray) -> np.ndarray:
        return _lowest(
            lambda judged: risk(judged, deployed), risk(places, deployed[:, None]), places
        )

    sheet, best = risk(places, places[:, None]), answer(places)
    diagonal = np.diagonal(sheet).copy()
    data: dict[str, Any] = {
        "decoupled_risk": (("deployed", "model"), sheet),
        "risk": ("deployed", diagonal),
        "best_response": ("deployed", best),
        "stable": ("crossing", _crossings(risk, answer, places, sheet, best)),
        "optimal": ("bottom", _bottoms(lambda place: risk(place, place), places, diagonal)),
        "origin": ("parameter", origin),
        "direction": ("parameter", along),
    }
    if path is not None and run is not None:
        data["path"] = (("round",), path, {"learner": run.dataset.attrs["learner"]})
        data["round"] = run.deployed["round"].values
    attrs = {"world": world.description, "t": t, "rung": world.rung, "version": __version__}
    return xr.Dataset(data, {"deployed": places, "model": places}, attrs)


def _line(
    world: World, t: int, models: np.ndarray | None, direction: Any, through: Any
) -> tuple[np.ndarray, np.ndarray]:
    """A point of the line, and its direction."""
    p = world.parameters
    if p == 1 and direction is None and through is None:
        return np.zeros(1), np.ones(1)
    stable, optimal = _targets(world, t) if direction is None or through is None else (None, None)
    origin = stable if through is None else world.check_model("through", through)
    if direction is None:
        candidates = [optimal - stable]  # pyright: ignore[reportOptionalOperand]
        if models is not None and len(models) > 1:
            candidates.append(models[1] - models[0])
        long = [v for v in candidates if np.linalg.norm(v) > 1e-9]
        along = long[0] / np.linalg.norm(long[0]) if long else np.eye(p)[0]
    else:
        along = world.check_model("direction", direction)
        if not np.any(along):
            raise ValueError("direction must not be zero; got zeros.")
    return np.asarray(origin), along


@double
def _targets(world: World, t: int) -> tuple[np.ndarray, np.ndarray]:
    return tuple(Finder(world, kind).find(t, t).points[0] for kind in (STABLE, OPTIMAL))


def _reach(
    world: World, t: int, origin: np.ndarray, along: np.ndarray, path: Any, reach: Any
) -> tuple[float, float]:
    """Both ends of the line, inside the domain."""
    ends = _chord(world, origin, along)
    if reach is not None:
        low, high = (_checks.number("reach", end) for end in reach)
        if not low < high:
            raise ValueError(f"reach must be in increasing order; got {tuple(reach)}.")
        return max(low, ends[0]), min(high, ends[1])
    if world.parameters == 1 and np.all(np.isfinite(ends)):
        return ends
    targets = (np.array(_targets(world, t)) - origin) @ along / (along @ along)
    wanted = [float(place) for place in (*targets, *([] if path is None else path))]
    spread = max(max(wanted) - min(wanted), 1e-3)
    return max(min(wanted) - spread, ends[0]), min(max(wanted) + spread, ends[1])


def _chord(world: World, origin: np.ndarray, along: np.ndarray) -> tuple[float, float]:
    """Where the line leaves the domain, on both sides."""
    ends = []
    if not world.domain.contains(origin):
        raise ValueError("through must lie in the domain; got a model outside.")
    for sign in (-1.0, 1.0):
        inside, outside = 0.0, 1.0
        while outside < 1e6 and world.domain.contains(origin + sign * outside * along):
            inside, outside = outside, 2.0 * outside
        if outside >= 1e6:
            ends.append(sign * np.inf)
            continue
        for _ in range(60):
            middle = 0.5 * (inside + outside)
            away = not world.domain.contains(origin + sign * middle * along, tolerance=1e-13)
            inside, outside = (inside, middle) if away else (middle, outside)
        end = world.domain.project(origin + sign * outside * along)
        ends.append(float((end - origin) @ along / (along @ along)))
    return ends[0], ends[1]


def _lowest(
    function: Callable[[np.ndarray], np.ndarray], on_grid: np.ndarray, places: np.ndarray
) -> np.ndarray:
    """The lowest place of each row of `on_grid`, sharpened by golden sections around the grid's."""
    where = np.argmin(on_grid, axis=1)
    low, high = places[np.maximum(where - 1, 0)], places[np.minimum(where + 1, len(places) - 1)]
    inner, outer = high - GOLDEN * (high - low), low + GOLDEN * (high - low)
    at_inner, at_outer = function(inner), function(outer)
    for _ in range(SHARPENINGS):
        left = at_inner < at_outer
        low, high = np.where(left, low, inner), np.where(left, outer, high)
        fresh = np.where(left, high - GOLDEN * (high - low), low + GOLDEN * (high - low))
        value = function(fresh)
        inner, at_inner, outer, at_outer = (
            np.where(left, fresh, outer),
            np.where(left, value, at_outer),
            np.where(left, inner, fresh),
            np.where(left, at_inner, value),
        )
    middle = 0.5 * (low + high)
    return np.where(function(middle) < np.min(on_grid, axis=1), middle, places[where])


def _crossings(
    risk: Callable[[np.ndarray, np.ndarray], np.ndarray],
    answer: Callable[[np.ndarray], np.ndarray],
    places: np.ndarray,
    sheet: np.ndarray,
    best: np.ndarray,
) -> np.ndarray:
    """Where the best answer meets the diagonal.

    Where it jumps over, the place is stable if every answer is as good there, and else none is.
    """

    def stable(spots: np.ndarray) -> np.ndarray:
        return risk(spots, spots) - risk(answer(spots), spots) <= 1e-10 * np.ptp(sheet)

    gap = best - places
    on_it = np.abs(gap) < CLOSE * (places[-1] - places[0])
    found = list(places[on_it])
    steps = np.flatnonzero(~on_it[:-1] & ~on_it[1:] & (gap[:-1] * gap[1:] < 0))
    low, high = places[steps], places[steps + 1]
    rising = gap[steps] < 0
    for _ in range(40 if len(steps) else 0):
        middle = 0.5 * (low + high)
        below = (answer(middle) - middle < 0) == rising
        low, high = np.where(below, middle, low), np.where(below, high, middle)
    if len(steps):
        middle = 0.5 * (low + high)
        found += list(middle[stable(middle)])
    unsure = np.flatnonzero(~on_it)  # a place of the grid itself, where the answer jumps
    found += [place for place in places[unsure[stable(places[unsure])]] if not _near(place, found)]
    return np.sort(found)


def _near(place: float, others: list[float]) -> bool:
    return any(abs(place - other) < 1e-5 * (1 + abs(place)) for other in others)


def _bottoms(
    function: Callable[[np.ndarray], np.ndarray], places: np.ndarray, diagonal: np.ndarray
) -> np.ndarray:
    """The lowest places of the diagonal: one, or several that are equally low."""
    padded = np.concatenate([[np.inf], diagonal, [np.inf]])
    local = np.flatnonzero((padded[1:-1] <= padded[:-2]) & (padded[1:-1] <= padded[2:]))
    sharp = []
    for i in local:
        part = places[max(i - 1, 0) : i + 2]
        sharp.append(_lowest(function, function(part)[None], part)[0])
    values = function(np.array(sharp))
    scale = max(float(np.ptp(diagonal)), 1e-300)
    return np.array(sharp)[values <= values.min() + 1e-9 * scale]
