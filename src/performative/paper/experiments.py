"""The paper's experiments at the paper's sizes, as labelled data: section 6 and the appendix on them.

Each function measures one part: a learner's regret, the targets' movement, the bounds beside it.
Nothing is drawn or judged here; `figures` and `claims` do that from what is measured.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np
import xarray as xr

from performative import learners, theory, worlds
from performative.simulation.engine import simulate
from performative.simulation.sweep import sweep
from performative.targets.regret import path_length
from performative.targets.stable import stable_points
from performative.world.constants import Constants
from performative.world.world import World

DRIFTS = ("random", "stationary")
CREDIT_B = (0.0, 0.25, 0.5, 1.0, 2.0)
QUADRATIC_B = (0.0, 0.5, 0.75, 1.0, 1.5, 2.0)
"""The paper's schedules α_t = t^-b; 0 is α = 1 for ever."""

DIMENSIONS = (2, 10)
BOUNDED = ("RRM", "RGD")
KINDS = ("paper", "recursion", "second_order")
KEPT = 1000
"""Of the long curves, the first rounds and about so many horizons, evenly spaced in log T."""


class Sizes(NamedTuple):
    """Rounds of the experiments."""

    credit: int
    quadratic: int
    lazy: int


FULL, QUICK = Sizes(2000, 100_000, 1000), Sizes(200, 2000, 60)


class Settings(NamedTuple):
    """What can be chosen about a reproduction."""

    seed: int = 0
    runs: int = 10
    n0: int = 1
    quick: bool = False
    constants: str = "rigorous"
    random_start: bool = False  # θ_1 uniform in Θ rather than its centre

    @property
    def sizes(self) -> Sizes:
        return QUICK if self.quick else FULL

    def start(self, world: World) -> np.ndarray:
        """θ_1, the same for all worlds of one domain."""
        if not self.random_start:
            return np.asarray(world.domain.center(world.parameters))
        return world.domain.draw(np.random.default_rng(self.seed), 1, world.parameters)[0]


def kept_rounds(rounds: int) -> np.ndarray:
    """The rounds of a curve that are kept: all of them, or the first and log-spaced ones."""
    if rounds <= 2 * KEPT:
        return np.arange(1, rounds + 1)
    return np.unique(np.r_[1:101, np.geomspace(100, rounds, KEPT).round().astype(int)])


# Worlds


def credit_world(settings: Settings, drift: str, b: float, rounds: int) -> World:
    """The credit world of a seed: which 1,500 people, and the m_t."""
    return worlds.credit(drift, b, rounds, settings.seed, settings.seed % 100)


def quadratic_world(settings: Settings, drift: str, b: float, rounds: int, dimension: int) -> World:
    """The quadratic-Gaussian world of a seed: A, m and the m_t."""
    return worlds.quadratic(dimension, drift, b, rounds, settings.seed)


def _grid(make: Callable[[str, float], World], exponents: tuple[float, ...]) -> dict[str, World]:
    return {_name(drift, b): make(drift, b) for drift in DRIFTS for b in exponents}


def _name(drift: str, b: float) -> str:
    return f"{drift} {b:g}"


# Regret


def credit(settings: Settings) -> xr.Dataset:
    """Stability regret of the four learners in the credit world."""
    sizes = settings.sizes

    def world(drift: str, b: float, rounds: int = sizes.credit) -> World:
        return credit_world(settings, drift, b, rounds)

    long = _grid(world, CREDIT_B)
    short = _grid(lambda drift, b: world(drift, b, sizes.lazy), CREDIT_B)
    data = _regrets(settings, long, short, CREDIT_B)
    # What reduces to one number each, and needs every round.
    points = {name: stable_points(each, progress=False) for name, each in long.items()}
    data = data.merge(_movement(settings, long, points, CREDIT_B))
    from_stable = {name: points[name].values[0] for name in long if name.startswith("stationary")}
    still = {name: long[name] for name in from_stable}
    data["rgd_from_stable"] = (
        ("b", "round"),
        _swept(settings, still, {"RGD": learners.rgd()}, 1, from_stable)[:, 0, 0],
    )
    contraction = [_contraction(settings, long[name], points[name]) for name in long]
    data["contraction"] = (("drift", "b"), np.reshape(contraction, (len(DRIFTS), len(CREDIT_B))))
    data["moves_match"] = ((), _sensitivity_gap(world("random", 1.0)))
    return data.assign_attrs(_attrs(settings, "credit", world("random", 1.0)))


def quadratic(settings: Settings, dimension: int) -> xr.Dataset:
    """Stability regret of the four learners in the quadratic-Gaussian world."""
    sizes = settings.sizes

    def world(drift: str, b: float, rounds: int = sizes.quadratic) -> World:
        return quadratic_world(settings, drift, b, rounds, dimension)

    long = _grid(world, QUADRATIC_B)
    short = _grid(lambda drift, b: world(drift, b, sizes.lazy), QUADRATIC_B)
    data = _regrets(settings, long, short, QUADRATIC_B)
    points = {name: stable_points(each, progress=False) for name, each in long.items()}
    data = data.merge(_movement(settings, long, points, QUADRATIC_B))
    largest = [float(np.abs(each.values).max()) for each in points.values()]
    data["largest_coordinate"] = (
        ("drift", "b"),
        np.reshape(largest, (len(DRIFTS), len(QUADRATIC_B))),
    )
    data["closed_form_gap"] = ((), max(_closed_form_gap(long[n], points[n]) for n in long))
    return data.assign_attrs(_attrs(settings, f"quadratic, d = {dimension}", world("random", 1.0)))


def _regrets(
    settings: Settings,
    long: dict[str, World],
    short: dict[str, World],
    exponents: tuple[float, ...],
) -> xr.Dataset:
    """Cumulative regret of all learners: (drift, b, run, round), thinned."""
    rounds = next(iter(long.values())).rounds
    lazy_rounds = next(iter(short.values())).rounds
    kept, lazy_kept = kept_rounds(rounds), kept_rounds(lazy_rounds)

    def curves(values: np.ndarray, chosen: np.ndarray) -> np.ndarray:
        values = values[..., chosen - 1]
        return values.reshape(len(DRIFTS), len(exponents), *values.shape[1:])

    exact = _swept(settings, long, {"RRM": learners.rrm(), "RGD": learners.rgd()}, 1)
    negative = _share_negative(exact[:, :, 0])
    greedy = _swept(settings, long, {"greedy": learners.greedy_sgd()}, settings.runs)
    lazy = _swept(settings, short, {"lazy": learners.lazy_sgd(n0=settings.n0)}, settings.runs)
    shape = (len(DRIFTS), len(exponents))
    return xr.Dataset(
        {
            "rrm": (("drift", "b", "round"), curves(exact[:, 0, 0], kept)),
            "rgd": (("drift", "b", "round"), curves(exact[:, 1, 0], kept)),
            "greedy_sgd": (("drift", "b", "run", "round"), curves(greedy[:, 0], kept)),
            "lazy_sgd": (("drift", "b", "run", "lazy_round"), curves(lazy[:, 0], lazy_kept)),
            "share_negative": (
                ("learner", "drift", "b"),
                negative.T.reshape(len(BOUNDED), *shape),
            ),
        },
        coords={
            "drift": list(DRIFTS),
            "b": list(exponents),
            "run": np.arange(settings.runs),
            "round": kept,
            "lazy_round": lazy_kept,
            "learner": list(BOUNDED),
        },
    )


def _swept(
    settings: Settings,
    played: dict[str, World],
    rules: Mapping[str, Any],
    runs: int,
    starts: Mapping[str, np.ndarray] | None = None,
) -> np.ndarray:
    """Cumulative stability regret, (world, learner, run, round)."""
    starts = starts or {name: settings.start(world) for name, world in played.items()}
    table = sweep(played, rules, runs, settings.seed, start=starts, progress=False)
    return table.stable_regret.values


def _share_negative(cumulative: np.ndarray) -> np.ndarray:
    """How many rounds, of all, have a regret below zero by more than rounding."""
    each = np.diff(cumulative, axis=-1, prepend=0.0)
    return np.mean(each < -1e-12, axis=-1)


# Targets


def _movement(
    settings: Settings,
    played: dict[str, World],
    points: dict[str, xr.DataArray],
    exponents: tuple[float, ...],
) -> xr.Dataset:
    """Path length of the stable points, the first distance to them, and their certificates."""
    shape = (len(DRIFTS), len(exponents))
    kept = kept_rounds(next(iter(played.values())).rounds)
    paths = [path_length(points[name]).values[kept - 1] for name in played]
    first = [
        np.linalg.norm(settings.start(world) - points[name].values[0])
        for name, world in played.items()
    ]
    certificates = [points[name].attrs["certificate"] for name in played]
    return xr.Dataset(
        {
            "path_length": (("drift", "b", "round"), np.reshape(paths, (*shape, -1))),
            "first_distance": (("drift", "b"), np.reshape(first, shape)),
            "certificate": (("drift", "b"), np.reshape(certificates, shape)),
        }
    )


def _contraction(settings: Settings, world: World, points: xr.DataArray) -> float:
    """The largest, over rounds, of what RRM's error shrinks by, as a multiple of Lemma 3.1's γ_t."""
    run = simulate(
        world, learners.rrm(), settings.start(world), against=(), record="all", progress=False
    )
    path, stable = run.deployed.values[0, :, 0], points.values
    before = np.linalg.norm(path[:-1] - stable[:-1], axis=1)
    after = np.linalg.norm(path[1:] - stable[:-1], axis=1)
    allowed = Constants(world).contraction[:-1] * before
    # Both sides are known to rounding alone: nothing is asked of distances of that size.
    return float(np.max((after - 1e-13) / np.maximum(allowed, 1e-12)))


def _sensitivity_gap(world: World, pairs: int = 64) -> float:
    """By how much W1(D(θ), D(θ′)) and ‖A(θ − θ′)‖ differ, at most, over random pairs.

    Rows on common noise bound W1 from above, the distance of their means from below.
    """
    from performative.world.distributions import wasserstein

    rng = np.random.default_rng(0)
    matrix = np.asarray(world.response.matrix)  # pyright: ignore[reportOptionalMemberAccess,reportAttributeAccessIssue]
    worst = 0.0
    for here, there in world.domain.draw(rng, 2 * pairs, world.parameters).reshape(pairs, 2, -1):
        moved = float(np.linalg.norm(matrix @ (here - there)))
        data = [world.distribution(world.rounds, model).components[0] for model in (here, there)]
        worst = max(worst, abs(wasserstein(*data).value - moved))
    return worst


def _closed_form_gap(world: World, points: xr.DataArray) -> float:
    """How far the stable points are from (I − (1−α)A)⁻¹((1−α)m + αm_t), at most."""
    response: Any = world.response
    shown = kept_rounds(world.rounds)
    identity = np.eye(world.parameters)
    means = world.at(shown).exogenous.mean  # pyright: ignore[reportOptionalMemberAccess]
    part = (1.0 - world.alphas[shown - 1])[:, None]
    right = part * response.base.mean + (1.0 - part) * np.broadcast_to(
        means, (len(shown), world.parameters)
    )
    left = identity - part[..., None] * np.asarray(response.matrix)
    expected = np.linalg.solve(left, right[..., None])[..., 0]
    return float(np.abs(points.sel(round=shown).values - expected).max())


# Bounds


def bounds(settings: Settings, where: str) -> xr.Dataset:
    """Theorems 3.2 and 4.1 beside the regret they bound, at every horizon.

    Args:
        settings: of the reproduction.
        where: "credit" or "quadratic" (d = 10).
    """
    drifts: tuple[str, ...] = DRIFTS
    exponents: tuple[float, ...] = CREDIT_B
    rounds = settings.sizes.credit
    if where == "quadratic":
        rounds = settings.sizes.quadratic
        played = _grid(lambda d, b: quadratic_world(settings, d, b, rounds, 10), QUADRATIC_B)
    else:
        played = _grid(lambda d, b: credit_world(settings, d, b, rounds), CREDIT_B)
    rules = {"RRM": learners.rrm(), "RGD": learners.rgd()}
    # All worlds, as where regret alone is measured: the same compiled program.
    measured = dict(zip(played, _swept(settings, played, rules, 1)[:, :, 0], strict=True))
    if where == "quadratic":
        drifts, exponents = ("random",), (0.5, 1.0)
    kept = kept_rounds(rounds)
    shape = (len(BOUNDED), len(drifts), len(exponents))
    regret = np.empty((*shape, len(kept)))
    bound = np.empty((len(KINDS), *shape, len(kept)))
    tightest = np.empty((len(KINDS), *shape))
    contraction = 0.0
    for j, drift in enumerate(drifts):
        for k, b in enumerate(exponents):
            world = played[_name(drift, b)]
            start = settings.start(world)
            contraction = max(contraction, float(np.max(Constants(world).contraction)))
            for i, rule in enumerate(rules.values()):
                true = measured[_name(drift, b)][i]
                regret[i, j, k] = true[kept - 1]
                for h, kind in enumerate(KINDS):
                    above = _bound(settings, world, rule, start, kind)
                    bound[h, i, j, k] = above[kept - 1]
                    # Rounding of a long sum; both sides may be zero.
                    slack = 1e-12 * (1.0 + np.abs(true))
                    tightest[h, i, j, k] = np.min((above + slack) / np.maximum(true, slack))
    return xr.Dataset(
        {
            "regret": (("learner", "drift", "b", "round"), regret),
            "bound": (("kind", "learner", "drift", "b", "round"), bound),
            "tightest": (("kind", "learner", "drift", "b"), tightest),
        },
        coords={
            "learner": list(BOUNDED),
            "drift": list(drifts),
            "b": list(exponents),
            "kind": list(KINDS),
            "round": kept,
        },
        attrs={
            **_attrs(settings, f"bounds, {where}", next(iter(played.values()))),
            "contraction": contraction,
        },
    )


def _bound(
    settings: Settings, world: World, learner: Any, start: np.ndarray, kind: str
) -> np.ndarray:
    """The theorem's own form can have the paper's kind of constants; what is sharper needs true ones."""
    surrogate = settings.constants == "surrogate" and kind == "paper"
    constants = theory.surrogates(world) if surrogate else None
    return theory.bound(world, learner, start, kind=kind, constants=constants).values


# Trajectories

SHOWN = 200
"""Rounds of a trajectory that are drawn."""


def trajectories(settings: Settings) -> xr.Dataset:
    """Where the four learners went in two dimensions, α_t = 1/t, and how far from the target."""
    sizes = settings.sizes
    rules = {
        "RRM": learners.rrm(),
        "RGD": learners.rgd(),
        "greedy SGD": learners.greedy_sgd(),
        "lazy SGD": learners.lazy_sgd(n0=settings.n0),
    }
    shown = min(SHOWN, sizes.lazy)
    data: dict[str, Any] = {}
    path, target, closer = [], [], []
    long, short = (
        quadratic_world(settings, "random", 1.0, rounds, 2)
        for rounds in (sizes.quadratic, sizes.lazy)
    )
    for name, rule in rules.items():
        world = short if name == "lazy SGD" else long
        run = simulate(
            world, rule, settings.start(world), seed=settings.seed, record="all", progress=False
        )
        deployed, stable = run.deployed.values[0, :, 0], run.dataset["stable_point"].values
        distance = np.linalg.norm(deployed - stable, axis=1)
        data[_key(name)] = ("lazy_round" if name == "lazy SGD" else "round", distance)
        path.append(deployed[:shown])
        target.append(stable[:shown])
        behind = np.linalg.norm(deployed[1:shown] - stable[: shown - 1], axis=1)
        closer.append(np.mean(behind < distance[1:shown]))
    data["deployed"] = (("learner", "step", "parameter"), path)
    data["stable"] = (("learner", "step", "parameter"), target)
    data["share_lagging"] = ("learner", closer)
    return xr.Dataset(
        data,
        coords={
            "learner": list(rules),
            "step": np.arange(1, shown + 1),
            "round": np.arange(1, sizes.quadratic + 1),
            "lazy_round": np.arange(1, sizes.lazy + 1),
        },
        attrs=_attrs(settings, "trajectories, d = 2", long),
    )


def moving_average(values: np.ndarray, window: int = 50) -> np.ndarray:
    """The mean of the last `window` values, of fewer at the beginning.

    >>> moving_average(np.array([1.0, 3.0, 5.0]), window=2).tolist()
    [1.0, 2.0, 4.0]
    """
    total = np.concatenate([[0.0], np.cumsum(values)])
    end = np.arange(1, len(values) + 1)
    begin = np.maximum(end - window, 0)
    return (total[end] - total[begin]) / (end - begin)


def _key(name: str) -> str:
    return name.lower().replace(" ", "_")


def _attrs(settings: Settings, part: str, world: World) -> dict[str, Any]:
    return {
        "part": part,
        "world": world.description,
        "rung": world.rung,
        "seed": settings.seed,
        "runs": settings.runs,
        "n0": settings.n0,
        "constants": settings.constants,
    }
