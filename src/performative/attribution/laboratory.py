"""From log to laboratory: the user's own world, fitted, for learners to be tried in.

Its data of round t are N(B̂θ + ŵ_t, Σ̂): what the log identifies, and no more. The mixture's α and
base mean enter only where the user knows them.
"""

from __future__ import annotations

import dataclasses
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np
import xarray as xr

from performative import _checks
from performative.attribution import estimate
from performative.attribution.attribute import NotIdentified
from performative.attribution.cells import Cells

if TYPE_CHECKING:
    from performative.attribution.attribute import Report


def moving_location(
    matrix: np.ndarray, bases: np.ndarray, spread: np.ndarray, loss: Any, domain: Any
) -> Any:
    """A `pp.World` with D_t(θ) = N(Bθ + w_t, Σ)."""
    import performative as pp

    numbers = (np.array(part, dtype=np.float64) for part in (matrix, bases, spread))
    given = _moving()(None, False, len(spread), matrix.shape[1], *numbers)
    return pp.World(map=given, loss=loss, domain=domain, rounds=len(bases))


@cache
def _moving() -> Any:
    """The map θ ↦ N(Bθ + w_t, Σ), its numbers as leaves, so that all such worlds share a program."""
    import jax.numpy as jnp

    import performative as pp
    from performative.world.maps import Map

    class Moving(Map):
        matrix: Any
        bases: Any
        spread: Any

        def at(self, t: Any, theta: Any) -> Any:
            base = jnp.asarray(self.bases)[t - 1]
            return pp.Gaussian(jnp.asarray(self.matrix) @ theta + base, jnp.asarray(self.spread))

    return Moving


def world(report: Report, *, radius: float | None = None, seed: int | None = None) -> Any:
    """The world of a log: D_t(θ) = N(B̂θ + ŵ_t, Σ̂) for its rounds.

    Args:
        report: of the log; all directions must have been tried.
        radius: of the ball of models; twice the largest deployed one unless given.
        seed: draws the cells' means anew from their sampling distribution, and B̂ and ŵ_t with them,
            to see what of a result is the log's uncertainty.
    """
    return _made(report, *fitted(report, seed=seed), radius)


def fitted(report: Report, *, seed: int | None = None) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """B̂, ŵ_t (round, feature) and Σ̂; drawn from their sampling distribution if `seed` is given."""
    statistics, parameters = _identified(report)
    part = report.cells.of(statistics)
    if seed is not None:
        part = dataclasses.replace(part, mean=part.mean + report.widening * _errors(part, seed))
    matrix = estimate.response(part)[:, parameters]
    bases = part.round_mean(part.mean) - part.round_mean(part.theta)[:, parameters] @ matrix.T
    return matrix, bases, 0.5 * (part.pooled + part.pooled.T)


def _errors(cells: Cells, seed: int) -> np.ndarray:
    """One draw of the sampling errors of the cells' means, (cell, q)."""
    rng = np.random.default_rng(seed)
    if cells.clustered:
        found = estimate.jackknife(cells, lambda part: _means(part, cells), np.zeros(1))
        assert found.replicates is not None
        return (rng.normal(size=len(found.replicates)) @ found.replicates).reshape(cells.mean.shape)
    values, vectors = np.linalg.eigh(cells.covariance / cells.count[:, None, None])
    scaled = np.sqrt(np.maximum(values, 0.0)) * rng.normal(size=cells.mean.shape)
    return np.einsum("cij,cj->ci", vectors, scaled)


def _means(part: Cells, cells: Cells) -> np.ndarray:
    """The means of all cells; of one that lost all its rows with a bucket, as it was."""
    if part.count.size == cells.count.size:
        return part.mean.ravel()
    known = {(t, arm): mean for t, arm, mean in zip(part.round, part.arm, part.mean, strict=True)}
    places = zip(cells.round, cells.arm, cells.mean, strict=True)
    return np.concatenate([known.get((t, arm), mean) for t, arm, mean in places])


def _made(
    report: Report,
    matrix: np.ndarray,
    bases: np.ndarray,
    spread: np.ndarray,
    radius: float | None,
) -> Any:
    import performative as pp

    attrs = report.summary.data.attrs
    l2 = float(attrs["l2"])
    loss = pp.losses.logistic(l2=l2) if attrs["loss"] == "logistic" else pp.losses.squared(l2=l2)
    largest = float(np.linalg.norm(report.cells.theta[:, report._both[1]], axis=1).max())
    radius = 2.0 * max(largest, 0.5) if radius is None else radius
    return moving_location(matrix, bases, spread, loss, pp.domains.ball(radius))


def _identified(report: Report) -> tuple[np.ndarray, np.ndarray]:
    """Features and weights that belong together, if the log identifies the response of all."""
    if not report.summary.has_weights:
        raise NotIdentified("world needs the models' weights; this log has versions only.")
    if report.objection:
        raise NotIdentified(f"world is not identified: {report.objection}.")
    attrs = report.summary.data.attrs
    if attrs["labelled"] or (attrs["loss"] == "logistic" and not attrs["signed"]):
        raise NotIdentified(
            "world needs a loss of the features alone, squared or signed logistic; "
            "this log's loss has an outcome of its own."
        )
    cells = report.cells
    statistics, parameters = report._both
    missing = np.ones(len(report.parameters))
    missing[parameters] = 0.0
    directions = cells.eigen[1]
    left = np.eye(len(missing)) - directions @ directions.T
    names = [
        report.parameters[k]
        for k in np.argsort(-np.diag(left))
        if left[k, k] > report.cutoffs.outside**2 and not missing[k]
    ]
    if names:
        shown = ", ".join(names[:5]) + (", …" if len(names) > 5 else "")
        raise NotIdentified(
            f"world needs arms that differ in all {len(missing)} directions of the weights; "
            f"{len(missing) - cells.rank} were never tried, in combinations of: {shown}."
        )
    return statistics, parameters


def optimal_point(report: Report) -> xr.DataArray:
    r"""θ^PO of the last round for the squared loss: $(c_1K'K+\alpha I)^{-1}(w-B'm)$, c₁ = 1−α.

    Means identify B = c₁A and w = c₁m + αm_t only; α and the base mean m must be given to
    `attribute`, for the same log has other optimal points with others.
    """
    if report.alpha is None or report.base is None:
        raise NotIdentified(
            "optimal_point needs alpha= and base=, the world's part of the mixture and the mean of the "
            "responding part: no log of means tells them."
        )
    if report.summary.data.attrs["loss"] not in (None, "squared"):
        raise NotIdentified("optimal_point is known for the squared loss only.")
    statistics, parameters = _identified(report)
    base = _checks.numbers("base", report.base, ndim=1)
    if base.shape != (statistics.size,):
        raise ValueError(f"base must have {statistics.size} features; got {base.size}.")
    part = report.cells.of(statistics)
    matrix = estimate.response(part)[:, parameters]
    here = part.round_mean(part.mean)[-1] - matrix @ part.round_mean(part.theta)[-1][parameters]
    responding, l2 = 1.0 - report.alpha, float(report.summary.data.attrs["l2"])
    gap = np.eye(len(base)) - matrix / responding
    curvature = responding * gap.T @ gap + (report.alpha + l2) * np.eye(len(base))
    point = np.linalg.solve(curvature, here - matrix.T @ base)
    return xr.DataArray(
        point, dims="parameter", coords={"parameter": [report.parameters[k] for k in parameters]}
    )


def _half_newton(report: Report) -> float:
    found = report.retraining
    if found is None:
        raise NotIdentified(
            "try_learners needs learners=: the log has no Hessian to take a step by."
        )
    return 0.5 / float(np.linalg.eigvalsh(found.hessian)[-1])


def try_learners(
    report: Report,
    learners: dict[str, Any] | None = None,
    *,
    draws: int = 20,
    radius: float | None = None,
) -> xr.Dataset:
    """What every learner would do next in the log's own world, and what it would have cost.

    Args:
        report: of the log.
        learners: by name, from `pp.learners`; repeated risk minimisation, and repeated gradient
            descent by half a Newton step (which, unlike the theorem's, there is for any response),
            unless given.
        draws: worlds drawn from the log's uncertainty, besides the estimated one.
        radius: see `world`.

    Returns:
        By (learner, draw), draw 0 the estimated world: `next`, the model it would deploy after the
        one deployed now, in the world of the last round; `regret` against the stable points, had it
        run from round 1 to the last. `next_low` and `next_high` (learner, parameter) are 95 %
        intervals from the draws. Attributes: `deployed`, the model deployed now.
    """
    import performative as pp

    draws = _checks.integer("draws", draws, low=0)
    if learners is None:
        learners = {"RRM": pp.learners.rrm(), "RGD": pp.learners.rgd(_half_newton(report))}
    fits = [fitted(report, seed=seed) for seed in (None, *range(draws))]
    parameters = report._both[1]
    first = report.cells.theta[0][parameters]
    now = report.deployed_now()[parameters]
    regret = np.zeros((len(learners), len(fits)))
    following = np.zeros((*regret.shape, first.size))
    for k, (matrix, bases, spread) in enumerate(fits):
        whole = _made(report, matrix, bases, spread, radius)
        last = _made(report, matrix, np.repeat(bases[-1:], 2, axis=0), spread, radius)
        for i, learner in enumerate(learners.values()):
            run = pp.simulate(whole, learner, start=whole.domain.project(first))
            regret[i, k] = float(run.regret("stable")[0, -1])
            step = pp.simulate(last, learner, start=last.domain.project(now), record="all")
            following[i, k] = step.deployed.values[0, -1].mean(axis=0)
    low, high = np.quantile(following[:, 1:] if draws else following, [0.025, 0.975], axis=1)
    data = xr.Dataset(
        {
            "regret": (("learner", "draw"), regret),
            "next": (("learner", "draw", "parameter"), following),
            "next_low": (("learner", "parameter"), low),
            "next_high": (("learner", "parameter"), high),
        },
        {
            "learner": list(learners),
            "draw": np.arange(len(fits)),
            "parameter": [report.parameters[k] for k in parameters],
        },
    )
    data.attrs["deployed"] = tuple(now.tolist())
    return data
