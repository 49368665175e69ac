"""The next experiment: which arms, for how long, on how many rows, how sure, and at what cost.

Sizes come from the log's own variances. The promised power is simulated with the estimator that will
be used, and rounds are added until it holds.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import stats

from performative import _checks
from performative.attribution import estimate
from performative.attribution.cells import Cells

if TYPE_CHECKING:
    from performative.attribution.attribute import Report

QUESTIONS = ("canary", "directions")
STEP = 0.2
SIMULATIONS = 2000

MOST_ROUNDS = 5000
"""A longer experiment is no plan: models nearly alike, or an effect too small to be seen."""


@dataclasses.dataclass(frozen=True)
class Experiment:
    """An experiment that would settle what a log leaves open.

    Args:
        question: "canary", the outgoing next to the new model, for cause, share and stability; or
            "directions", pairs of models ± along orthogonal directions in turn, for all of the rest.
        arms: how many models side by side.
        share: of the units that see the first arm.
        length: L, the distance of the two arms' models; in within-round deviations for versions.
        rounds, rows: how many rounds, and rows in each.
        rows_per_arm: of the smaller arm, summed over rounds.
        effect: the response to be detected.
        power, simulated: as asked for, and as simulated.
        resolution: half the length of the interval that will result.
        cost: expected loss a row, None where the log does not tell; `cost_assumes` says how it was got.
        models: (round, arm, parameter), the weights to deploy; None for versions.
        parameters: their names.
    """

    question: str
    arms: int
    share: float
    length: float
    rounds: int
    rows: int
    rows_per_arm: int
    effect: float
    power: float
    simulated: float
    resolution: float
    cost: float | None
    cost_assumes: str
    models: np.ndarray | None
    parameters: list[str]

    def table(self) -> dict[str, list[Any]]:
        """The models to deploy by column: round, arm, model and weights; empty for versions."""
        if self.models is None:
            return {}
        columns: dict[str, list[Any]] = {"round": [], "arm": [], "model": []}
        columns |= {name: [] for name in self.parameters}
        for t, side_by_side in enumerate(self.models):
            for k, weights in enumerate(side_by_side):
                columns["round"].append(t + 1)
                columns["arm"].append("ab"[k])
                columns["model"].append(f"plan{t + 1}{'ab'[k]}")
                for name, weight in zip(self.parameters, weights, strict=True):
                    columns[name].append(float(weight))
        return columns

    def as_dict(self) -> dict[str, Any]:
        """Plain numbers and texts."""
        told = {f.name: getattr(self, f.name) for f in dataclasses.fields(self)}
        return told | {"models": self.table()}

    def __str__(self) -> str:
        times = "one round" if self.rounds == 1 else f"{self.rounds:,} rounds"
        if self.question == "canary":
            what = (
                f"keep the outgoing model on a random {100 * self.share:.0f} % of units beside the new "
                f"one, for {times}"
            )
        else:
            what = (
                f"2 arms, weights ± {self.length / 2:.2g} along {len(self.parameters)} orthogonal "
                f"directions, one a round, {times}"
            )
        of = " per unit of weight" if self.parameters else " deviations"
        word = "cost" if (self.cost or 0.0) >= 0 else "gain"
        cost = (
            ""
            if self.cost is None
            else f"; expected {word} about {abs(self.cost):.2g} loss per row"
        )
        return (
            f"{what}, {self.rows:,} rows a round. That detects a response of {self.effect:g}{of} with "
            f"power {self.simulated:.2f} and measures it to ± {self.resolution:.2g} (needs "
            f"{self.rows_per_arm:,} rows per arm in all){cost}."
        )


def rows_needed(
    variance: float, length: float, effect: float, power: float, share: float = 0.5
) -> float:
    r"""Rows of both arms together, σ²(z_{.975} + z_{power})² / (s(1−s) effect² L²).

    With equal arms that is $N = 2\sigma^2(z_{.975}+z_{power})^2/(\text{effect}^2L^2)$ an arm.

    >>> round(rows_needed(0.25, 0.4, 0.1, 0.8) / 2)
    2453
    """
    reach = stats.norm.ppf(0.975) + stats.norm.ppf(power)
    return float(variance * reach**2 / (share * (1 - share) * effect**2 * length**2))


def experiment(
    report: Report,
    *,
    power: float = 0.8,
    effect: float = 0.1,
    question: str | None = None,
    step: float = STEP,
    share: float = 0.5,
    rows: int | None = None,
    seed: int = 0,
) -> Experiment:
    """The smallest experiment that detects `effect` with the given power, from the log's variances.

    Args:
        report: of the log.
        power, effect: what is promised; `effect` is κ to be told from 0 (or from 1: the distance).
        question: "canary" or "directions"; what the log leaves open unless given.
        step: half the distance of the arms for "directions".
        share: of the units on the outgoing model, for "canary".
        rows: a round; as in the log unless given.
        seed: of the simulated check and of the directions.
    """
    power = _checks.number("power", power, low=0.05, high=0.999)
    effect = _checks.number("effect", effect, low=0.0, open_low=True)
    step = _checks.number("step", step, low=0.0, open_low=True)
    share = _checks.number("share", share, low=0.0, high=1.0, open_low=True, open_high=True)
    cells = report.cells
    if rows is None:
        rows = max(int(np.median(cells.round_count)), 2)
    rows = _checks.integer("rows", rows, low=2)
    if question is None:
        question = _open_question(report)
    _checks.choice("question", question, QUESTIONS)
    if not report.summary.has_weights:
        return _of_versions(report, power, effect, share, rows)
    statistics, parameters = report._both
    spread = _spread(report)[np.ix_(statistics, statistics)]
    current = _current(report)
    if question == "canary":
        pairs = _canary(report, current)
        cycle = 1
    else:
        pairs, share = _directions(current, parameters, step, seed), 0.5
        cycle = len(parameters)
    steps = (pairs[:, 0] - pairs[:, 1])[:, parameters]
    lengths = np.linalg.norm(steps, axis=1)
    if lengths.max() == 0:
        raise ValueError(
            "question 'canary' needs two different models in the log; they are all alike."
        )
    variances = np.einsum("ki,ij,kj->k", steps, spread, steps) / lengths**2
    if question == "directions":
        variances = np.full(cycle, np.diag(spread).max())
    total = rows_needed(float(variances.mean()), float(lengths.mean()), effect, power, share)
    rounds = cycle * max(1, int(np.ceil(total / rows - 1e-9)))
    if rounds > MOST_ROUNDS:
        other = "a larger step" if question == "directions" else "question 'directions'"
        raise ValueError(
            f"effect must be large enough to be seen in {MOST_ROUNDS:,} rounds; {effect:g} needs "
            f"{rounds:,} of {rows:,} rows, with models that are {lengths.mean():.2g} apart. Ask for a "
            f"larger effect, more rows a round, or {other}."
        )
    simulated, resolution = 0.0, np.inf
    for _ in range(60):
        sides = pairs[np.arange(rounds) % cycle]
        simulated, resolution = _simulate(
            sides[:, :, parameters], spread, rows, share, effect, question, seed
        )
        if simulated >= power - 0.01:
            break
        rounds += max(cycle, cycle * int(0.05 * rounds / cycle))
    cost, assumes = _cost(report, pairs[:, 0] - pairs[:, 1], question, share)
    return Experiment(
        question, 2, share, float(lengths.mean()), rounds, rows,
        int(np.ceil(rows * rounds * min(share, 1 - share))), effect, power, simulated, resolution,
        cost, assumes, pairs[np.arange(rounds) % cycle], report.parameters,
    )  # fmt: skip


def _open_question(report: Report) -> str:
    loop = report.loop
    full = report.design.concurrent and report.cells.rank == len(report.parameters)
    full = full and (loop is None or loop.known == loop.of)
    told = report.verdict["cause"] != "cannot tell"
    return "directions" if told and report.summary.has_weights and not full else "canary"


def _spread(report: Report) -> np.ndarray:
    """The covariance of rows, enlarged where rows repeat units."""
    return report.cells.pooled * max(report.repetition, 1.0) ** 2


def _current(report: Report) -> np.ndarray:
    """The newest model of the last round."""
    cells = report.cells
    last = np.flatnonzero((cells.round == cells.rounds - 1) & ~report.design.reference)
    if last.size == 0:
        last = np.flatnonzero(cells.round == cells.rounds - 1)
    return cells.theta[last[np.argmax(cells.model[last])]]


def _canary(report: Report, current: np.ndarray) -> np.ndarray:
    """The outgoing and the new model: the last two that differ."""
    cells = report.cells
    order = np.argsort(cells.model[::-1], kind="stable")[::-1]
    earlier = cells.theta[::-1][order]
    others = earlier[
        np.linalg.norm(earlier - current, axis=1) > 1e-12 * (1 + np.abs(current).max())
    ]
    return np.stack([others[0] if len(others) else current, current])[None]


def _directions(current: np.ndarray, parameters: np.ndarray, step: float, seed: int) -> np.ndarray:
    """θ ± step along the columns of a random orthogonal matrix, (direction, arm, parameter)."""
    normal = np.random.default_rng(seed).normal(size=(len(parameters), len(parameters)))
    orthogonal, triangle = np.linalg.qr(normal)
    orthogonal = orthogonal * np.sign(np.diag(triangle))
    pairs = np.repeat(current[None, None], 2, axis=1).repeat(len(parameters), axis=0)
    pairs[:, 0, parameters] += step * orthogonal.T
    pairs[:, 1, parameters] -= step * orthogonal.T
    return pairs


def _simulate(
    sides: np.ndarray, spread: np.ndarray, rows: int, share: float, effect: float,
    question: str, seed: int,
) -> tuple[float, float]:  # fmt: skip
    """How often the estimator detects the effect in logs of this plan, and its half-width.

    For "directions" it is an entry of the response, the noisiest, that must be detected.
    """
    rng = np.random.default_rng(seed)
    rounds, _, dim = sides.shape
    count = np.tile([rows * share, rows * (1 - share)], rounds)
    theta = sides.reshape(-1, dim)
    worst = int(np.argmax(np.diag(spread)))
    matrix = effect * np.eye(dim)
    if question == "directions":
        matrix = np.zeros((dim, dim))
        matrix[worst] = effect
    world = np.repeat(rng.normal(size=(rounds, dim)), 2, axis=0)
    cells = Cells(
        round=np.repeat(np.arange(rounds), 2),
        count=count,
        mean=theta @ matrix.T + world,
        covariance=np.broadcast_to(spread, (len(theta), dim, dim)),
        theta=theta,
        arm=np.tile([0, 1], rounds),
        model=np.arange(len(theta)),
    )
    if question == "directions":
        linear = estimate.along(cells, np.eye(dim)[worst], np.eye(dim)[0])
    else:
        linear = estimate.strength(cells)
    error = float(estimate.sampling_covariance(cells, linear.loading)[0, 0] ** 0.5)
    root = np.linalg.cholesky(spread + 1e-14 * np.trace(spread) * np.eye(dim))
    part = (linear.loading[0] / np.sqrt(count)[:, None]) @ root
    flat = part[np.abs(part).sum(axis=1) > 0].ravel()
    found = linear.value[0] + np.concatenate(
        [rng.normal(size=(SIMULATIONS // 20, flat.size)) @ flat for _ in range(20)]
    )
    critical = estimate.critical(np.inf)
    return float(np.mean(np.abs(found) > critical * error)), critical * error


def _cost(
    report: Report, steps: np.ndarray, question: str, share: float
) -> tuple[float | None, str]:
    """Expected loss a row of the arms, to second order."""
    found = report.retraining
    if found is None:
        from performative.attribution.design import retraining_of

        found = retraining_of(report.summary, report.cells)
    if found is None:
        return None, "the log has no gradients of a loss"
    hessian = found.hessian
    names = [report.parameters.index(name) for name in found.parameters]
    known = report.design.concurrent and found.cells.rank == len(names)
    curvature = hessian
    assumes = f"second order in the step, {found.described}"
    if known:
        moved = estimate.response(found.cells)
        turned = hessian @ moved
        curvature = hessian - turned - turned.T + moved.T @ hessian @ moved
        assumes += ", the response as measured"
    else:
        assumes += ", no response (it is not known yet)"
    steps = steps[:, names]
    size = float(np.mean(np.einsum("ki,ij,kj->k", steps, curvature, steps)))
    if question == "directions":
        return size / 8.0, assumes
    gap = report.gap
    if gap is not None:
        assumes = "the newer model's gain over the other, as measured online, forgone on the share"
        return float(-gap.online.value) * share, assumes
    return 0.5 * size * share, assumes + ", the new model at its optimum"


def _of_versions(
    report: Report, power: float, effect: float, share: float, rows: int
) -> Experiment:
    """For versions without weights: a shift of `effect` within-round deviations in any one feature."""
    total = rows_needed(max(report.repetition, 1.0) ** 2, 1.0, effect, power, share)
    rounds = max(1, int(np.ceil(total / rows)))
    error = np.sqrt(1.0 / (share * (1 - share) * rounds * rows)) * max(report.repetition, 1.0)
    drawn = effect + error * np.random.default_rng(0).normal(size=SIMULATIONS)
    critical = estimate.critical(np.inf)
    simulated = float(np.mean(np.abs(drawn) > critical * error))
    return Experiment(
        "canary", 2, share, 1.0, rounds, rows, int(np.ceil(rows * rounds * min(share, 1 - share))),
        effect, power, simulated, float(critical * error), None, "the weights are not known", None, [],
    )  # fmt: skip
