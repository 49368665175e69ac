"""Speed, measured side by side with plain NumPy loops of the same work: `performative bench`.

Every case is a function that returns rows of one table. What is compared is timed in turns within
one run, several times, and the fastest turn counts; both sides are shown to agree. What the first
call of a compiled program takes beyond that is a column of its own. Nobody imports this guest.
"""

from __future__ import annotations

import functools
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

Array = Any

AGREEMENT = 1e-9
"""Both sides of a comparison must give the same numbers up to this."""

TURNS, A_TURN, MOST = 5, 0.3, 10
"""Turns of a comparison; the seconds and the repetitions that make up one."""


# What a measurement is


class Spent(NamedTuple):
    """The fastest turn of some work, in seconds, and what the first call took beyond that."""

    wall: float
    cpu: float
    first: float


class Target(NamedTuple):
    """What a row should reach: `figure` is "ratio", "wall" or "cpu"."""

    figure: str
    sign: str
    limit: float

    def met(self, value: float) -> bool:
        return value >= self.limit if self.sign == "≥" else value <= self.limit


class Row(NamedTuple):
    """One line of the table; times are in `unit`, and `ratio` compares wall times."""

    case: str
    unit: str
    wall: float | None
    cpu: float | None = None
    loop: float | None = None
    ratio: float | None = None
    first: float | None = None  # seconds
    target: Target | None = None
    note: str = ""

    @property
    def met(self) -> bool | None:
        value = None if self.target is None else getattr(self, self.target.figure)
        return None if self.target is None or value is None else self.target.met(value)


def in_turns(
    *works: Callable[[], Callable[[], Any]], quick: bool = False, turns: int = TURNS
) -> list[Spent]:
    """Time several pieces of work in turns: each is `ready() -> go`, and only `go` is timed.

    What is short is done several times a turn: on a busy machine it takes many to see a good one.
    """
    seen: list[list[tuple[float, float]]] = [[] for _ in works]
    for turn in range(2 if quick else turns):
        for times, ready in zip(seen, works, strict=True):
            spent, count = 0.0, 0
            while count == 0 or (turn > 0 and not quick and spent < A_TURN and count < MOST):
                go = ready()
                wall, cpu = time.perf_counter(), time.process_time()
                go()
                times.append((time.perf_counter() - wall, time.process_time() - cpu))
                spent, count = spent + times[-1][0], count + 1
    return [_fastest(times) for times in seen]


def _fastest(times: list[tuple[float, float]]) -> Spent:
    wall, cpu = (min(column) for column in zip(*times[1:], strict=True))
    return Spent(wall, cpu, max(times[0][0] - wall, 0.0))


def now(work: Callable[[], Any]) -> Callable[[], Callable[[], Any]]:
    """Work that needs nothing to be made ready."""
    return lambda: work


def compared(
    case: str,
    spent: list[Spent],
    count: float,
    unit: str = "µs per lane-round",
    *,
    loop_count: float | None = None,
    target: Target | None = None,
    note: str = "",
) -> Row:
    """A row from the time of this library and, second, of the loop, for `count` pieces of work."""
    scale = {"µs": 1e6, "ms": 1e3, "s": 1.0}[unit.split()[0]]
    ours = spent[0]
    wall, cpu = ours.wall * scale / count, ours.cpu * scale / count
    loop = None
    if len(spent) > 1:
        loop = spent[1].wall * scale / (loop_count or count)
    ratio = None if loop is None else loop / wall
    return Row(case, unit, wall, cpu, loop, ratio, ours.first, target, note)


def agree(what: str, ours: Array, theirs: Array, within: float = AGREEMENT) -> None:
    """Refuse to compare the speed of two things that are not the same."""
    gap = float(np.max(np.abs(np.asarray(ours) - np.asarray(theirs))))
    if not gap <= within * (1.0 + float(np.max(np.abs(theirs)))):
        raise AssertionError(f"{what}: this library and the plain loop differ by {gap:.3g}")


# This library's side


class Game:
    """A learner in worlds of one structure, ready to be played: targets known, nothing compiled."""

    def __init__(
        self, worlds: list[Any], starts: np.ndarray, regret: bool = True, learner: Any = None
    ):
        from performative.learners import rrm

        self.learner = rrm() if learner is None else learner
        self.worlds, self.starts = worlds, starts  # starts: (run, world, parameter)
        self.targets = ("stable",) if regret else ()
        self.finders: dict[Any, Any] = {}
        self.records: list[Any] = []
        self.prepared: list[Any] = []  # the learner as each world has it

    def player(self) -> Any:
        """One at round 1; to be made in double precision."""
        from performative.simulation.engine import Player, problem_of
        from performative.simulation.run import Record

        runs, mode = len(self.starts), "regret" if self.targets else "all"
        learners = [self.learner.prepare(problem_of(world)) for world in self.worlds]
        self.prepared = learners
        self.records = [
            Record.of(world, learner, runs, runs, self.targets, mode)
            for world, learner in zip(self.worlds, learners, strict=True)
        ]
        return Player(
            self.worlds, learners, self.starts, 0, 0, self.records, self.targets,
            self.finders, remember=True,
        )  # fmt: skip

    def ready(self) -> Callable[[], None]:
        """What plays all rounds."""
        import jax

        with jax.enable_x64(True):
            player = self.player()

        def go() -> None:
            rounds = self.worlds[0].rounds
            with jax.enable_x64(True):
                for first in range(1, rounds + 1, player.chunk):
                    player.play(first, min(first + player.chunk - 1, rounds))

        return go

    def regret(self) -> np.ndarray:
        """(world, run, round), as last played."""
        return np.stack([record.regrets["stable"][:, :, 0] for record in self.records])

    def deployed(self) -> np.ndarray:
        """(world, run, round, parameter), as last played."""
        return np.stack([record.deployed[:, :, 0] for record in self.records])


@functools.cache
def _points(world: Any) -> np.ndarray:
    from performative import stable_points

    return stable_points(world).values


def found_anew(world: Any) -> Any:
    """The stable points as if nobody had asked for them before."""
    from performative import stable_points
    from performative.targets import points

    points.forget(world)
    return stable_points(world)


def starts_of(world: Any, runs: int, worlds: int, spread: float) -> np.ndarray:
    """Different starts for every run, the same in every world; the first is the centre."""
    drawn = np.random.default_rng(1).uniform(-spread, spread, size=(runs, world.parameters))
    drawn[0] = 0.0
    return np.repeat(drawn[:, None], worlds, axis=1)


# The other side: plain NumPy, one round at a time


class Plain(NamedTuple):
    """A location world in arrays: D(θ) = N(Aθ + m, Σ), P_t = N(m_t, Σ)."""

    matrix: np.ndarray
    mean: np.ndarray
    factor: np.ndarray
    means: np.ndarray
    alphas: np.ndarray

    @staticmethod
    def of(world: Any) -> Plain:
        every = world.at(slice(None))
        base, drifting = every.response.base, every.exogenous
        return Plain(every.response.matrix, base.mean, base.factor, drifting.mean, every.alpha)


def quadratic_loop(plain: Plain, start: np.ndarray, half_width: float) -> np.ndarray:
    """RRM: the mean of the mixture, clipped to the box; (round, parameter)."""
    matrix, mean = plain.matrix, plain.mean
    theta, deployed = start, np.empty_like(plain.means)
    for t, (alpha, drifting) in enumerate(zip(plain.alphas.tolist(), plain.means, strict=True)):
        deployed[t] = theta
        target = (1.0 - alpha) * (matrix @ theta + mean) + alpha * drifting
        theta = np.minimum(np.maximum(target, -half_width), half_width)
    return deployed


def quadratic_loop_with_regret(
    plain: Plain, start: np.ndarray, half_width: float, points: np.ndarray
) -> np.ndarray:
    """The same, and PR_t(θ_t) − PR_t(θ_t^PS) in every round; variances drop out of it."""
    matrix, mean = plain.matrix, plain.mean
    still = 1.0 - plain.alphas
    least = 0.5 * still * np.sum((points - points @ matrix.T - mean) ** 2, axis=1)
    least += 0.5 * plain.alphas * np.sum((points - plain.means) ** 2, axis=1)
    theta, risks = start, np.empty(len(still))
    for t, (alpha, drifting) in enumerate(zip(plain.alphas.tolist(), plain.means, strict=True)):
        responded = matrix @ theta + mean
        here, there = theta - responded, theta - drifting
        risks[t] = 0.5 * ((1.0 - alpha) * (here @ here) + alpha * (there @ there))
        target = (1.0 - alpha) * responded + alpha * drifting
        theta = np.minimum(np.maximum(target, -half_width), half_width)
    return risks - least


def greedy_loop(
    plain: Plain,
    start: np.ndarray,
    half_width: float,
    points: np.ndarray,
    steps: np.ndarray,
    noise: tuple[np.ndarray, np.ndarray],
) -> np.ndarray:
    """One row and one step a round, and the regret of every round; its noise is drawn beforehand."""
    matrix, mean, factor = plain.matrix, plain.mean, plain.factor
    normals, choices = noise
    still = 1.0 - plain.alphas
    least = 0.5 * still * np.sum((points - points @ matrix.T - mean) ** 2, axis=1)
    least += 0.5 * plain.alphas * np.sum((points - plain.means) ** 2, axis=1)
    theta, risks = start, np.empty(len(still))
    given = zip(
        plain.alphas.tolist(), plain.means, steps.tolist(), choices[:, 0].tolist(), strict=True
    )
    for t, (alpha, drifting, step, choice) in enumerate(given):
        responded = matrix @ theta + mean
        here, there = theta - responded, theta - drifting
        risks[t] = 0.5 * ((1.0 - alpha) * (here @ here) + alpha * (there @ there))
        row = (responded if choice < 1.0 - alpha else drifting) + factor @ normals[t, 0]
        theta = np.minimum(np.maximum(theta - step * (theta - row), -half_width), half_width)
    return risks - least


def lazy_loop(
    plain: Plain,
    start: np.ndarray,
    counts: np.ndarray,
    steps: np.ndarray,
    noise: tuple[np.ndarray, np.ndarray],
    l2: float = 1.0,
    radius: float = 1.0,
) -> np.ndarray:
    """Logistic loss, n(t) rows and steps before the next model; its noise is drawn beforehand."""
    normals, choices = noise
    theta, deployed = start, np.empty((len(counts), len(start)))
    for t, count in enumerate(counts.tolist()):
        deployed[t] = theta
        responded = plain.matrix @ theta + plain.mean
        for j in range(count):
            drifts = choices[t, j] >= 1.0 - plain.alphas[t]
            row = (plain.means[t] if drifts else responded) + plain.factor @ normals[t, j]
            pull = 1.0 / (1.0 + np.exp(row @ theta))
            theta = theta - steps[j] * (l2 * theta - pull * row)
            size = np.sqrt(theta @ theta)
            if size > radius:
                theta = theta * (radius / size)
    return deployed


def noise_of(run: int, rounds: int, rows: int, dimension: int) -> tuple[np.ndarray, np.ndarray]:
    """What the engine draws for a run: normals of all rows, and what chooses their component."""
    import jax
    import jax.numpy as jnp

    from performative.learners.feedback import arm_noise
    from performative.simulation import engine

    with jax.enable_x64(True):
        key = engine.run_key(0, jnp.asarray(run))

        def of_round(t: Array) -> Any:
            return arm_noise(engine.round_key(key, t), 1, rows, dimension)

        drawn = jax.lax.map(of_round, jnp.arange(1, rounds + 1))
        return np.asarray(drawn.normals)[:, 0], np.asarray(drawn.uniforms)[:, 0, :, 0]


class Recipe:
    """The authors' inner problem: 60 projected-gradient steps of 0.2 on 512 rows of D_t(θ′)."""

    ROWS, STEPS, STEP = 512, 60, 0.2

    def __init__(self, plain: Plain, l2: float = 1.0, radius: float = 1.0):
        rng = np.random.default_rng(0)
        self.plain, self.l2, self.radius = plain, l2, radius
        self.noise = rng.normal(size=(self.ROWS, len(plain.mean))) @ plain.factor.T
        self.uniforms = rng.random((self.ROWS, 1))

    def retrain(self, t: int, deployed: np.ndarray, theta: np.ndarray) -> np.ndarray:
        """θ_{t+1} from the rows that `deployed` brings about in round t (counted from 0)."""
        responded = self.plain.matrix @ deployed + self.plain.mean
        drifts = self.uniforms < self.plain.alphas[t]
        rows = self.noise + np.where(drifts, self.plain.means[t], responded)
        for _ in range(self.STEPS):
            pull = 1.0 / (1.0 + np.exp(rows @ theta))
            theta = theta - self.STEP * (self.l2 * theta - pull @ rows / self.ROWS)
            size = np.sqrt(theta @ theta)
            if size > self.radius:
                theta = theta * (self.radius / size)
        return theta

    def rrm(self, rounds: int) -> np.ndarray:
        theta = np.zeros(len(self.plain.mean))
        for t in range(rounds):
            theta = self.retrain(t, theta, theta)
        return theta

    def stable(self, rounds: int) -> np.ndarray:
        """Stable points by twenty retrainings a round."""
        theta = np.zeros(len(self.plain.mean))
        for t in range(rounds):
            for _ in range(20):
                theta = self.retrain(t, theta, theta)
        return theta


class PlainRows:
    """Logistic regression with an intercept on rows that the deployed model moves, by Newton."""

    def __init__(self, rows: np.ndarray, shift: np.ndarray, alphas: np.ndarray, l2: float):
        self.x = np.hstack([rows[:, :-1], np.ones((len(rows), 1))])
        self.y, self.alphas, self.l2 = rows[:, -1], alphas, l2
        self.shift = np.append(shift, 0.0)  # how far each column moves for its weight
        self.penalised = np.append(np.ones(rows.shape[1] - 1), 0.0)

    def retrain(self, t: int, deployed: np.ndarray, theta: np.ndarray) -> np.ndarray:
        """The minimiser on the data of round t (counted from 0), to rounding."""
        weights, moved = (1.0 - self.alphas[t], self.alphas[t]), self.shift * deployed
        for _ in range(30):
            slope = self.l2 * self.penalised * theta
            square = self.l2 * np.diag(self.penalised)
            for weight, offset in zip(weights, (moved, np.zeros_like(moved)), strict=True):
                x = self.x + offset
                pull = 1.0 / (1.0 + np.exp(self.y * (x @ theta)))
                slope = slope - weight * ((pull * self.y) @ x) / len(x)
                square = square + weight * (x * (pull * (1.0 - pull))[:, None]).T @ x / len(x)
            step = np.linalg.solve(square, slope)
            theta = theta - step
            if np.abs(step).max() < 1e-13:
                break
        return theta

    def risk(self, t: int, theta: np.ndarray) -> float:
        """PR_t(θ), t counted from 0."""
        total = 0.5 * self.l2 * np.sum(self.penalised * theta**2)
        weights, moved = (1.0 - self.alphas[t], self.alphas[t]), self.shift * theta
        for weight, offset in zip(weights, (moved, np.zeros_like(moved)), strict=True):
            margins = self.y * ((self.x + offset) @ theta)
            total += weight * np.mean(np.logaddexp(0.0, -margins))
        return total

    def rrm(self, rounds: int, points: np.ndarray) -> np.ndarray:
        theta, regret = np.zeros(self.x.shape[1]), np.empty(rounds)
        for t in range(rounds):
            regret[t] = self.risk(t, theta) - self.risk(t, points[t])
            theta = self.retrain(t, theta, theta)
        return regret

    def stable(self, rounds: int) -> np.ndarray:
        """Stable points: retrain until nothing moves."""
        theta, points = np.zeros(self.x.shape[1]), []
        for t in range(rounds):
            for _ in range(100):
                ahead = self.retrain(t, theta, theta)
                moved, theta = np.abs(ahead - theta).max(), ahead
                if moved < 1e-12:
                    break
            points.append(theta)
        return np.array(points)


# The worlds


def quadratic_worlds(rounds: int, count: int = 12) -> list[Any]:
    """Four schedules of α_t times three drifts; one world has the first of both."""
    import performative as pp

    made = [
        pp.drifts.iid_ball(0.25),
        pp.drifts.random_walk(0.25, step=0.05, radius=1.0),
        pp.drifts.seasonal(0.25, amplitude=0.5, period=200.0),
    ]
    pairs = [(b, drift) for drift in made for b in (1.0, 0.25, 0.5, 2.0)]
    return [
        pp.worlds.quadratic(dim=10, drift=drift, b=b, rounds=rounds) for b, drift in pairs[:count]
    ]


def credit_worlds(rounds: int, loss: Any = None) -> list[Any]:
    """The paper's ten: five schedules, and a P_t that is drawn every round or once."""
    import performative as pp
    from performative.world.drifts import in_unit_ball
    from performative.worlds import credit_data

    mean, cov = credit_data.moments(0)
    moving = in_unit_ball(np.random.default_rng(0), rounds, len(mean))
    fixed = np.broadcast_to(moving[0], moving.shape).copy()
    response = pp.responses.location(
        0.1 * np.diag(credit_data.MODIFIABLE.astype(float)), pp.Gaussian(mean, cov)
    )
    return [
        pp.World(
            response=response,
            drift=pp.drifts.recorded(pp.Gaussian(means, cov)),
            mixing=pp.mixing.polynomial(b),
            loss=pp.losses.logistic(l2=1.0) if loss is None else loss,
            domain=pp.domains.ball(1.0),
            rounds=rounds,
        )
        for means in (moving, fixed)
        for b in (1.0, 0.0, 0.25, 0.5, 2.0)
    ]


def labelled_rows(count: int = 30_000) -> tuple[np.ndarray, str]:
    """The credit rows (x, y) where the CSV is found, else rows of the same shape."""
    from performative.worlds import credit_data

    try:
        return credit_data.rows(signed=False)[:count], "the credit rows"
    except (FileNotFoundError, ValueError):
        rng = np.random.default_rng(0)
        x = rng.normal(size=(count, len(credit_data.FEATURES)))
        score = x @ rng.normal(size=x.shape[1]) * 0.3 + 1.2
        y = np.where(rng.random(count) < 1.0 / (1.0 + np.exp(-score)), 1.0, -1.0)
        return np.hstack([x, y[:, None]]), "synthetic rows of the shape of the credit rows"


def rows_world(rows: np.ndarray, rounds: int, loss: Any) -> Any:
    """Strategic people: the columns they can change follow the model; the others do not."""
    import performative as pp
    from performative.worlds.credit_data import MODIFIABLE

    people = pp.Empirical(rows)
    return pp.World(
        response=pp.responses.strategic(people, MODIFIABLE, strength=0.1),
        drift=pp.drifts.fixed(people),
        mixing=pp.mixing.polynomial(0.5),
        loss=loss,
        domain=pp.domains.ball(3.0),
        rounds=rounds,
    )


# The cases


def quadratic_1(quick: bool) -> list[Row]:
    return _quadratic("quadratic RRM, d = 10, 1 lane", 1, 1, 50.0, quick)


def quadratic_12(quick: bool) -> list[Row]:
    return _quadratic("quadratic RRM, d = 10, 12 lanes", 12, 1, 250.0, quick)


def quadratic_120(quick: bool) -> list[Row]:
    return _quadratic("quadratic RRM, d = 10, 120 lanes", 12, 10, 150.0, quick)


def _quadratic(case: str, count: int, runs: int, least: float, quick: bool) -> list[Row]:
    """The rounds alone (every model kept), and the rounds with their regret and nothing else kept.

    The stable points are given to both sides. The loop plays one run in up to three of the worlds;
    the other lanes cost the same.
    """
    rounds = 2_100 if quick else 20_000
    worlds = quadratic_worlds(rounds, count)
    starts = starts_of(worlds[0], runs, count, 4.0)
    looped = range(0, count, 4 if quick or count > 4 else 1)
    plain = {i: Plain.of(worlds[i]) for i in looped}
    points = {i: _points(worlds[i]) for i in looped}
    results: dict[int, np.ndarray] = {}

    def loop() -> None:
        for i in looped:
            results[i] = quadratic_loop(plain[i], starts[-1, i], 5.0)

    def loop_with_regret() -> None:
        for i in looped:
            results[i] = quadratic_loop_with_regret(plain[i], starts[-1, i], 5.0, points[i])

    rows = []
    target = Target("ratio", "≥", least)
    size, loop_size = rounds * count * runs, rounds * len(looped)
    for regret, slow in ((True, loop_with_regret), (False, loop)):
        if not regret and runs > 1:
            continue  # the target of many lanes is for regret only
        game = Game(worlds, starts, regret)
        spent = in_turns(game.ready, now(slow), quick=quick)
        kept = game.regret() if regret else game.deployed()
        for i in looped:
            agree(case, kept[i, -1], results[i])
        what = "rounds with regret" if regret else "rounds alone, models kept"
        rows.append(compared(f"{case}: {what}", spent, size, loop_count=loop_size, target=target))
    return [*rows, *_whole_quadratic(case, worlds, starts, size, quick)]


def _whole_quadratic(
    case: str, worlds: list[Any], starts: np.ndarray, size: int, quick: bool
) -> list[Row]:
    """What a user waits for: one whole call, with stable points and labels."""
    import performative as pp

    named = {str(i): world for i, world in enumerate(worlds)}

    def whole() -> None:
        if len(worlds) == 1:
            pp.simulate(worlds[0], pp.learners.rrm(), start=starts[:, 0], record="regret")
        else:
            runs = len(starts)
            pp.sweep(named, {"RRM": pp.learners.rrm()}, runs=runs, start=starts[:, 0])

    name = "pp.simulate" if len(worlds) == 1 else "pp.sweep"
    return [
        compared(
            f"{case}: whole {name}", in_turns(now(whole), quick=quick), size,
            note="stable points found, results labelled",
        )
    ]  # fmt: skip


def quadratic_greedy(quick: bool) -> list[Row]:
    """The loop plays the last run in three of the worlds, on the same noise, drawn beforehand."""
    import performative as pp

    rounds, runs = (2_100, 2) if quick else (20_000, 10)
    worlds = quadratic_worlds(rounds)
    starts = starts_of(worlds[0], runs, len(worlds), 4.0)
    looped = range(0, len(worlds), 4)
    noise = noise_of(runs - 1, rounds, 1, 10)
    game = Game(worlds, starts, learner=pp.learners.greedy_sgd())
    game.ready()
    steps = {i: game.prepared[i].step for i in looped}
    plain = {i: Plain.of(worlds[i]) for i in looped}
    results: dict[int, np.ndarray] = {}

    def loop() -> None:
        for i in looped:
            results[i] = greedy_loop(
                plain[i], starts[-1, i], 5.0, _points(worlds[i]), steps[i], noise
            )

    case = f"quadratic greedy SGD, d = 10, 12 worlds × {runs} runs: rounds with regret"
    spent = in_turns(game.ready, now(loop), quick=quick)
    for i in looped:
        agree(case, game.regret()[i, -1], results[i])
    size = rounds * len(worlds) * runs
    return [
        compared(case, spent, size, loop_count=rounds * len(looped),
                 target=Target("ratio", "≥", 50.0), note="loop: its noise drawn beforehand"),
    ]  # fmt: skip


def credit_lazy(quick: bool) -> list[Row]:
    """Ten worlds, n(t) = t; the loop plays one lane, on the same noise, drawn beforehand."""
    import performative as pp

    rounds, runs = (40, 2) if quick else (300, 10)
    worlds = credit_worlds(rounds)
    starts = starts_of(worlds[0], runs, len(worlds), 0.1)
    game = Game(worlds, starts, False, pp.learners.lazy_sgd())
    game.ready()
    learner, plain = game.prepared[0], Plain.of(worlds[0])
    noise = noise_of(runs - 1, rounds, rounds, worlds[0].dimension)
    results: dict[str, np.ndarray] = {}

    def loop() -> None:
        results["loop"] = lazy_loop(plain, starts[-1, 0], learner.rows, learner.step, noise)

    case = f"credit lazy SGD, 10 worlds × {runs} runs, n(t) = t: models kept"
    spent = in_turns(game.ready, now(loop), quick=quick)
    agree(case, game.deployed()[0, -1], results["loop"])
    samples = int(learner.rows.sum())
    return [
        compared(case, spent, samples * len(worlds) * runs, "µs per lane-sample",
                 loop_count=samples, target=Target("cpu", "≤", 0.15),
                 note="loop: its noise drawn beforehand"),
    ]  # fmt: skip


PAPER = """
import time
begun = time.perf_counter()
from performative.paper import experiments
settings = experiments.Settings(quick={quick})
parts = [experiments.credit(settings)]
parts += [experiments.quadratic(settings, dimension) for dimension in experiments.DIMENSIONS]
assert all(float(abs(part["rrm"]).max()) > 0 for part in parts)
print(time.perf_counter() - begun, time.process_time())
"""


def paper(quick: bool) -> list[Row]:
    """Every simulation of the paper in a fresh process: before and after its programs were kept."""
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        kept = {
            "JAX_COMPILATION_CACHE_DIR": folder,
            "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0.1",
        }
        for what, most in (("nothing compiled yet", 60.0), ("compiled programs kept", 30.0)):
            done = subprocess.run(
                [sys.executable, "-c", PAPER.format(quick=quick)],
                env={**os.environ, **kept}, capture_output=True, text=True, check=True,
            )  # fmt: skip
            wall, cpu = map(float, done.stdout.split())
            rows.append(
                Row(f"the paper's simulations, exact regret included: {what}", "s", wall, cpu,
                    target=Target("wall", "≤", most), note="four learners, three worlds, 10 runs")
            )  # fmt: skip
    return rows


def quadratic_points(quick: bool) -> list[Row]:
    """Stable points of one world; the loop solves (I − (1−α)A)θ = (1−α)m + αm_t a round."""

    rounds = 2_100 if quick else 20_000
    world = quadratic_worlds(rounds, 1)[0]
    plain, found = Plain.of(world), {}

    def loop() -> None:
        points, identity = np.empty_like(plain.means), np.eye(len(plain.mean))
        for t, (alpha, drifting) in enumerate(zip(plain.alphas.tolist(), plain.means, strict=True)):
            square = identity - (1.0 - alpha) * plain.matrix
            points[t] = np.linalg.solve(square, (1.0 - alpha) * plain.mean + alpha * drifting)
        found["loop"] = points

    def ours() -> None:
        found["ours"] = found_anew(world)

    spent = in_turns(now(ours), now(loop), quick=quick)
    agree("quadratic stable points", found["ours"].values, found["loop"])
    residual = f"largest residual {found['ours'].attrs['residual']:.1e}"
    return [
        compared("quadratic stable points, d = 10", spent, rounds, "µs per round", note=residual)
    ]


def credit_rrm(quick: bool) -> list[Row]:
    return _credit_rrm("credit RRM, 10 worlds", None, 10.0, quick)


def credit_custom(quick: bool) -> list[Row]:
    import performative as pp

    loss = pp.losses.margin(_users_link, l2=1.0)
    return _credit_rrm("credit RRM, 10 worlds, a user's margin loss", loss, 80.0, quick)


def _users_link(u: Array) -> Array:
    import jax.numpy as jnp

    return jnp.logaddexp(0.0, -u)


def _credit_rrm(case: str, loss: Any, most: float, quick: bool) -> list[Row]:
    """The loop is the authors' recipe, timed on some rounds of one world."""
    rounds, sample = (60, 5) if quick else (2_000, 40)
    worlds = credit_worlds(rounds, loss)
    starts = starts_of(worlds[0], 1, len(worlds), 0.1)
    recipe = Recipe(Plain.of(worlds[0]))
    rows = []
    for regret in (True, False):
        game = Game(worlds, starts, regret)
        spent = in_turns(game.ready, now(lambda: recipe.rrm(sample)), quick=quick)
        what = "rounds with regret" if regret else "rounds alone, models kept"
        rows.append(
            compared(
                f"{case}: {what}",
                spent,
                rounds * len(worlds),
                loop_count=sample,
                target=Target("cpu", "≤", most),
                note=f"loop: 512 rows, 60 steps, {sample} rounds, no regret",
            )
        )
    return rows


def credit_points(quick: bool) -> list[Row]:
    """One world; the loop is the authors' 20 × 60 iterations, timed on some rounds."""

    rounds, sample = (60, 1) if quick else (2_000, 3)
    world, found = credit_worlds(rounds)[0], {}
    recipe = Recipe(Plain.of(world))

    def ours() -> None:
        found["ours"] = found_anew(world)

    spent = in_turns(now(ours), now(lambda: recipe.stable(sample)), quick=quick)
    loop = spent[1].wall * 1e3 * rounds / sample
    wall, cpu, residual = spent[0].wall * 1e3, spent[0].cpu * 1e3, found["ours"].attrs["residual"]
    return [
        Row(
            f"credit stable points, {rounds} rounds", "ms", wall, cpu, loop, loop / wall,
            spent[0].first, Target("wall", "≤", 50.0),
            f"loop: 20 × 60 steps on 512 rows, extrapolated from {sample} rounds",
        ),
        Row(
            "credit stable points: largest certified residual", "1", residual,
            target=Target("wall", "≤", 1e-12), note=f"status: {_statuses(found['ours'])}",
        ),
    ]  # fmt: skip


def _statuses(points: Any) -> str:
    names, counts = np.unique(points.status.values, return_counts=True)
    return ", ".join(f"{name} {count}" for name, count in zip(names, counts, strict=True))


def users_world(quick: bool) -> list[Row]:
    """30,000 labelled rows, an intercept, a strategic response: all of it a user's own."""
    import performative as pp
    from performative.worlds.credit_data import MODIFIABLE

    rounds, sample = (4, 1) if quick else (100, 3)
    rows, source = labelled_rows(2_000 if quick else 30_000)
    loss = pp.losses.logistic(l2=0.1, labelled=True, intercept=True)
    world = rows_world(rows, rounds, loss)
    plain = PlainRows(rows, 0.1 * MODIFIABLE, world.alphas, 0.1)
    found: dict[str, Any] = {}

    def ours() -> None:
        found["ours"] = found_anew(world)

    def loop() -> None:
        found["loop"] = plain.stable(sample)

    spent = in_turns(now(ours), now(loop), quick=quick, turns=3)
    agree("stable points of rows", found["ours"].values[:sample], found["loop"])
    case, note = f"{len(rows)} rows, intercept, strategic", f"{source}; loop: {sample} rounds"
    residual = f"{_statuses(found['ours'])}, residual {found['ours'].attrs['residual']:.1e}"
    table = [
        compared(
            f"{case}: stable points", spent, rounds, "ms per round", loop_count=sample,
            note=f"{note}; {residual}",
        )
    ]  # fmt: skip
    game = Game([world], starts_of(world, 1, 1, 0.1))

    def loop_rrm() -> None:
        found["regret"] = plain.rrm(sample, found["ours"].values)

    spent = in_turns(game.ready, now(loop_rrm), quick=quick, turns=3)
    agree("regret on rows", game.regret()[0, 0, :sample], found["regret"])
    table.append(
        compared(
            f"{case}: RRM with regret",
            spent,
            rounds,
            "ms per lane-round",
            loop_count=sample,
            note=f"{note}, by Newton",
        )
    )
    return table


def users_loss(row: Array, theta: Array) -> Array:
    """The squared error of a predicted probability: five lines of a user's own."""
    import jax.numpy as jnp

    x, y = row[:-1], row[-1]
    score = x @ theta[:-1] + theta[-1]
    chance = 1.0 / (1.0 + jnp.exp(-score))
    return (chance - (y > 0)) ** 2 + 0.05 * jnp.sum(theta**2)


def custom_loss(quick: bool) -> list[Row]:
    """A user's function of one row and a model, on the same 30,000 rows."""
    import performative as pp

    rounds = 2 if quick else 20
    rows, source = labelled_rows(500 if quick else 30_000)
    loss = pp.losses.custom(users_loss, parameters=rows.shape[1], labelled=True)
    world = rows_world(rows, rounds, loss)
    found: dict[str, Any] = {}

    def ours() -> None:
        found["ours"] = found_anew(world)

    game = Game([world], starts_of(world, 1, 1, 0.1))
    points = in_turns(now(ours), quick=quick, turns=3)
    played = in_turns(game.ready, quick=quick, turns=3)
    case = f"{len(rows)} rows, a user's loss of a row"
    note = f"{source}; {_statuses(found['ours'])}, residual {found['ours'].attrs['residual']:.1e}"
    return [
        compared(f"{case}: stable points", points, rounds, "ms per round", note=note),
        compared(f"{case}: RRM with regret", played, rounds, "ms per lane-round"),
    ]


def wide(quick: bool) -> list[Row]:
    """d = 50: normal data with a full covariance, logistic loss."""
    import performative as pp

    rounds, sample = (20, 2) if quick else (1_000, 5)
    rng = np.random.default_rng(0)
    root = rng.normal(size=(50, 50)) / 10.0
    cov = root @ root.T + 0.1 * np.eye(50)
    mean = rng.normal(size=50) / 10.0
    world = pp.World(
        response=pp.responses.location(0.1, pp.Gaussian(mean, cov)),
        drift=pp.drifts.iid_ball(cov),
        mixing=pp.mixing.polynomial(0.5),
        loss=pp.losses.logistic(l2=0.5),
        domain=pp.domains.ball(2.0),
        rounds=rounds,
    )
    recipe, found = Recipe(Plain.of(world), 0.5, 2.0), {}

    def ours() -> None:
        found["ours"] = found_anew(world)

    points = in_turns(now(ours), now(lambda: recipe.stable(sample)), quick=quick)
    game = Game([world], starts_of(world, 1, 1, 0.01))
    played = in_turns(game.ready, now(lambda: recipe.rrm(20 * sample)), quick=quick)
    note = f"{_statuses(found['ours'])}, residual {found['ours'].attrs['residual']:.1e}"
    return [
        compared("logistic, d = 50: stable points", points, rounds, "µs per round",
                 loop_count=sample, note=f"loop: 20 × 60 steps on 512 rows; {note}"),
        compared("logistic, d = 50: RRM with regret", played, rounds, loop_count=20 * sample,
                 note="loop: 60 steps on 512 rows, no regret"),
    ]  # fmt: skip


def peak_memory() -> float:
    """The most bytes that this process has held at a time.

    Linux hands `ru_maxrss` on from the process that started this one, so it is not asked there.
    """
    try:
        with open("/proc/self/status", encoding="ascii") as file:
            said = next(line for line in file if line.startswith("VmHWM:"))
        return 1024.0 * float(said.split()[1])
    except (OSError, StopIteration):
        import resource

        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return float(peak) * (1 if sys.platform == "darwin" else 1024)


MEMORY = """
import sys, time
# As after a plain install: xarray and pandas load these wherever they are, and they are large.
sys.modules["dask"] = sys.modules["pyarrow"] = None
import numpy as np
import performative as pp
from performative.bench import peak_memory
rounds = int(sys.argv[1])
world = pp.worlds.quadratic(dim=10, rounds=rounds)
start = np.random.default_rng(1).uniform(-4, 4, size=(10, 10))
begun = time.perf_counter()
run = pp.simulate(world, pp.learners.rrm(), start=start, runs=10, record="regret")
spent, peak = time.perf_counter() - begun, peak_memory()
total = run.regret("stable").isel(round=-1).values
assert np.isfinite(total).all() and len(set(total)) == 10
print(peak, spent, time.process_time())
"""


def memory(quick: bool) -> list[Row]:
    """The peak of a fresh process that plays a million rounds ten times, from different starts."""
    rounds = 5_000 if quick else 1_000_000
    done = subprocess.run(
        [sys.executable, "-c", MEMORY, str(rounds)], capture_output=True, text=True, check=True
    )
    peak, wall, cpu = map(float, done.stdout.split())
    case = f"{rounds:,} rounds × 10 runs, d = 10, regret only"
    return [
        Row(
            f"{case}: peak memory",
            "MB",
            peak / 1e6,
            target=Target("wall", "≤", 600.0),
            note="a plain install; xarray and pandas load dask and pyarrow where those are installed",
        ),
        Row(f"{case}: pp.simulate", "s", wall, note=f"compiling included; process {cpu:.1f} CPU s"),
    ]


def attribution(quick: bool) -> list[Row]:
    """The aggregates of deployment logs, up to 100 million rows."""
    from performative.attribution.bench import attribution

    return attribution(quick)


def start_up(quick: bool) -> list[Row]:
    """Fresh processes, the interpreter's own start included; the fastest of five."""
    command = Path(sys.executable).parent / "performative"
    wanted = [
        ("import performative", [sys.executable, "-c", "import performative"], 0.1),
        ("performative --help", [str(command), "--help"], 0.2),
    ]
    table = []
    for case, words, most in wanted:
        if not Path(words[0]).exists():
            table.append(Row(case, "s", None, note="the command is not installed here"))
            continue
        times = []
        for _ in range(1 if quick else 5):
            begun = time.perf_counter()
            done = subprocess.run(words, capture_output=True)
            times.append(time.perf_counter() - begun)
            if done.returncode:
                break
        else:
            table.append(Row(case, "s", min(times), target=Target("wall", "≤", most)))
            continue
        table.append(Row(case, "s", None, note=f"failed: {_last_line(done.stderr)}"))
    return table


def _last_line(text: bytes) -> str:
    lines = text.decode(errors="replace").strip().splitlines()
    return lines[-1] if lines else "no message"


def gpu_quadratic(quick: bool) -> list[Row]:
    """One compiled program of few rounds on many lanes; what it returns stays on the device."""
    from performative.learners import rgd, rrm

    sizes = [256] if quick else [10_000, 100_000, 1_000_000]
    targets = {1_000_000: Target("ratio", "≥", 4e9)}
    world = quadratic_worlds(64, 1)[0]
    kinds = [("RGD", rgd(), False), ("RGD", rgd(), True), ("RRM", rrm(), True)]
    return [
        _on_device(
            f"quadratic {name}, d = 10", Game([world], starts_of(world, n, 1, 4.0), regret, learner),
            targets.get(n) if name == "RGD" else None, quick,
        )
        for name, learner, regret in kinds
        for n in sizes
    ]  # fmt: skip


def gpu_credit(quick: bool) -> list[Row]:
    sizes = [64] if quick else [10_000, 100_000]
    world = credit_worlds(32)[0]
    target = Target("ratio", "≥", 2e7)
    return [
        _on_device("credit RRM", Game([world], starts_of(world, n, 1, 0.1)), target, quick)
        for n in sizes
    ]


def _on_device(case: str, game: Game, target: Target | None, quick: bool) -> Row:
    """Lane-rounds a second, in the column of ratios; regret is at the given targets."""
    import jax

    runner = _program(game)
    spent = in_turns(now(lambda: jax.block_until_ready(runner())), quick=quick)
    lanes, rounds = len(game.starts), game.worlds[0].rounds
    count, what = lanes * rounds, "with regret" if game.targets else "alone"
    return Row(
        f"{case}, {lanes:,} lanes × {rounds} rounds {what}", "ns per lane-round",
        spent[0].wall * 1e9 / count, None, None, count / spent[0].wall, spent[0].first, target,
        f"{count / spent[0].wall:.3g} lane-rounds/s on {jax.default_backend()}",
    )  # fmt: skip


def _program(game: Game) -> Callable[[], Any]:
    """The engine's compiled chunk for one world and many runs, its arguments on the device."""
    import jax
    import jax.numpy as jnp

    from performative.simulation import engine

    world, starts = game.worlds[0], game.starts
    with jax.enable_x64(True):
        player = Game([world], starts[:1], bool(game.targets), game.learner).player()
        settings = player.settings._replace(keep_deployed=False)
        rounds = np.arange(1, world.rounds + 1)
        moving, moving_axes = player.stack.rounds(1, world.rounds, world.rounds)
        axes = (player._learner_axes, moving_axes, player.stack.still_axes)
        still, learner = player.stack.still, player.learner
        problem = engine.problem_of(world)
        init = functools.partial(game.learner.prepare(problem).init, problem)
        lanes = engine.Lane(jax.vmap(jax.vmap(init))(starts), starts)
        targets = [_points(world)[:, None] for _ in game.targets]
        on_device = jax.device_put((learner, moving, still, targets))
        keys = jax.vmap(functools.partial(engine.run_key, 0))(jnp.arange(len(starts)))
        lanes = jax.device_put(lanes)

    def go() -> Any:
        with jax.enable_x64(True):
            return engine._play(settings, axes, *on_device, keys, rounds, lanes)

    return go


CASES: dict[str, Callable[[bool], list[Row]]] = {
    "quadratic-1": quadratic_1,
    "quadratic-12": quadratic_12,
    "quadratic-120": quadratic_120,
    "quadratic-greedy": quadratic_greedy,
    "quadratic-points": quadratic_points,
    "credit-rrm": credit_rrm,
    "credit-custom": credit_custom,
    "credit-lazy": credit_lazy,
    "credit-points": credit_points,
    "paper": paper,
    "rows": users_world,
    "rows-custom": custom_loss,
    "wide": wide,
    "memory": memory,
    "attribution": attribution,
    "start": start_up,
    "gpu-quadratic": gpu_quadratic,
    "gpu-credit": gpu_credit,
}


# The table


def main(cases: list[str] | None = None, out: Path | None = None, quick: bool = False) -> list[Row]:
    """Run cases, print the table, and keep it.

    Args:
        cases: names from `CASES`; all that suit this machine unless given.
        out: a folder for `<machine>.json` and `<machine>.md`.
        quick: small sizes, to see that everything works; the figures mean nothing.
    """
    import jax

    from performative import _checks

    on_gpu = jax.default_backend() != "cpu"
    if not cases:
        cases = [name for name in CASES if name.startswith("gpu") == on_gpu]
    cases = [_checks.choice("cases", name, CASES) for name in cases]
    machine = {**_machine(), "quick": quick, "date": time.strftime("%Y-%m-%d")}
    rows: list[Row] = []
    for name in cases:
        print(f"{name} …", file=sys.stderr, flush=True)
        rows += CASES[name](quick)
        if out is not None:
            _keep(Path(out), machine, rows)
    _show(machine, rows)
    return rows


def _machine() -> dict[str, Any]:
    import jax

    from performative._parallel import cores

    device = jax.devices()[0]
    name = device.device_kind if device.platform != "cpu" else _processor()
    return {
        "name": name,
        "platform": device.platform,
        "cores": cores(),
        "load": round(os.getloadavg()[0], 2) if hasattr(os, "getloadavg") else None,
        "python": platform.python_version(),
        "jax": jax.__version__,
        "numpy": np.__version__,
    }


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()


HEADINGS = ("case", "unit", "wall", "CPU", "NumPy loop", "ratio", "first call", "target", "met")


def _cells(row: Row) -> tuple[str, ...]:
    target = ""
    if row.target is not None:
        figure = {"wall": "", "cpu": "CPU ", "ratio": ""}[row.target.figure]
        times = " ×" if row.target.figure == "ratio" and row.loop is not None else ""
        target = f"{figure}{row.target.sign} {row.target.limit:g}{times}"
    met = {None: "", True: "yes", False: "NO"}[row.met]
    ratio = "" if row.ratio is None else f"{row.ratio:.3g}" + (" ×" if row.loop else "/s")
    first = "" if row.first is None else f"+{row.first:.1f} s"
    numbers = tuple(_number(value) for value in (row.wall, row.cpu, row.loop))
    return (row.case, row.unit, *numbers, ratio, first, target, met)


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.3g}" if value < 1000 else f"{value:,.0f}"


def _about(machine: dict[str, Any]) -> str:
    load = "" if machine["load"] is None else f", load {machine['load']} at the start"
    load += " (busy)" if (machine["load"] or 0.0) > 0.25 * machine["cores"] else ""
    return (
        f"{machine['name']}, {machine['cores']} cores{load}; Python {machine['python']}, "
        f"JAX {machine['jax']}, NumPy {machine['numpy']}; {machine['date']}"
        + ("; QUICK: the figures mean nothing" if machine["quick"] else "")
    )


def _show(machine: dict[str, Any], rows: Iterable[Row]) -> None:
    try:
        from rich.console import Console
        from rich.table import Table
    except ModuleNotFoundError:
        print(_markdown(machine, rows))
        return
    table = Table(title=_about(machine), title_justify="left")
    for heading in HEADINGS:
        table.add_column(heading, justify="left" if heading in ("case", "unit") else "right")
    for row in rows:
        style = {None: "", True: "green", False: "red"}[row.met]
        table.add_row(*_cells(row)[:-1], f"[{style}]{_cells(row)[-1]}[/]" if style else "")
    Console(width=None if sys.stdout.isatty() else 160).print(table)


def _markdown(machine: dict[str, Any], rows: Iterable[Row]) -> str:
    lines = ["| " + " | ".join((*HEADINGS, "note")) + " |"]
    lines.append("| --- | --- |" + " ---: |" * (len(HEADINGS) - 3) + " --- | --- |")
    lines += ["| " + " | ".join((*_cells(row), row.note)) + " |" for row in rows]
    return _about(machine) + "\n\n" + "\n".join(lines) + "\n"


def _keep(folder: Path, machine: dict[str, Any], rows: list[Row]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    words = f"{machine['name']} {machine['cores']} cores" * (machine["platform"] == "cpu")
    stem = "-".join("".join(c if c.isalnum() else " " for c in words or machine["name"]).split())
    table = [
        {**row._asdict(), "target": row.target and row.target._asdict(), "met": row.met}
        for row in rows
    ]
    text = json.dumps({"machine": machine, "rows": table}, indent=1, ensure_ascii=False)
    (folder / f"{stem.lower()}.json").write_text(text + "\n", encoding="utf-8")
    (folder / f"{stem.lower()}.md").write_text(_markdown(machine, rows), encoding="utf-8")
