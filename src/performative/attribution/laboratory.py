"""From log to laboratory: the user's own world, fitted, for learners to be tried in.

Its data of round t are N(B̂θ + ŵ_t, Σ̂): what the log identifies, and no more. The mixture's α and
base mean enter only where the user knows them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import xarray as xr

from performative import _checks
from performative.attribution import estimate
from performative.attribution.attribute import NotIdentified

if TYPE_CHECKING:
    from performative.attribution.attribute import Report


def moving_location(
    matrix: np.ndarray, bases: np.ndarray, spread: np.ndarray, loss: Any, domain: Any
) -> Any:
    """A `pp.World` with D_t(θ) = N(Bθ + w_t, Σ)."""
    import jax.numpy as jnp

    import performative as pp

    def distribution(t: Any, theta: Any) -> Any:
        return pp.Gaussian(jnp.asarray(matrix) @ theta + jnp.asarray(bases)[t - 1], spread)

    dimension = len(spread)
    given = pp.maps.custom(
        distribution=distribution, dimension=dimension, parameters=matrix.shape[1]
    )
    return pp.World(map=given, loss=loss, domain=domain, rounds=len(bases))


def world(report: Report, *, radius: float | None = None, seed: int | None = None) -> Any:
    """The world of a log: D_t(θ) = N(B̂θ + ŵ_t, Σ̂) for its rounds.

    Args:
        report: of the log; all directions must have been tried.
        radius: of the ball of models; twice the largest deployed one unless given.
        seed: draws B̂ from its sampling distribution instead of taking the estimate, to see what of a
            result is the log's uncertainty.
    """
    import performative as pp

    statistics, parameters = _identified(report)
    part = report.cells.of(statistics)
    theta = part.theta[:, parameters]
    matrix = estimate.response(part)[:, parameters]
    if seed is not None:
        matrix = matrix + _error(report, statistics, parameters, seed)
    bases = part.round_mean(part.mean) - part.round_mean(theta) @ matrix.T
    attrs = report.summary.data.attrs
    l2 = float(attrs["l2"])
    loss = pp.losses.logistic(l2=l2) if attrs["loss"] == "logistic" else pp.losses.squared(l2=l2)
    largest = float(np.linalg.norm(theta, axis=1).max())
    radius = 2.0 * max(largest, 0.5) if radius is None else radius
    return moving_location(
        matrix, bases, 0.5 * (part.pooled + part.pooled.T), loss, pp.domains.ball(radius)
    )


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


def _error(report: Report, statistics: np.ndarray, parameters: np.ndarray, seed: int) -> np.ndarray:
    """One draw of the error of B̂."""
    cells, rng = report.cells.of(statistics), np.random.default_rng(seed)
    if cells.clustered:
        found = estimate.jackknife(
            cells, lambda part: estimate.response(part)[:, parameters].ravel(), np.zeros(1)
        )
        assert found.replicates is not None
        drawn = rng.normal(size=len(found.replicates)) @ found.replicates
        return report.widening * drawn.reshape(len(statistics), len(parameters))
    sizes, directions = cells.eigen
    values, vectors = np.linalg.eigh(cells.pooled)
    normal = rng.normal(size=(len(statistics), sizes.size))
    root = vectors * np.sqrt(np.maximum(values, 0.0))
    return report.widening * ((root @ normal / np.sqrt(sizes)) @ directions.T)[:, parameters]


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


def try_learners(
    report: Report, learners: dict[str, Any], *, draws: int = 5, radius: float | None = None
) -> xr.Dataset:
    """What every learner would have cost in the log's own world, from round 1 on.

    Args:
        report: of the log.
        learners: by name, from `pp.learners`.
        draws: worlds drawn from the uncertainty of the response, besides the estimated one.
        radius: see `world`.

    Returns:
        `regret` against the stable points at the last round, and the model it would deploy `next`, by
        (learner, draw); draw 0 is the estimated world.
    """
    import performative as pp

    draws = _checks.integer("draws", draws, low=0)
    worlds = [world(report, radius=radius)]
    worlds += [world(report, radius=radius, seed=k) for k in range(draws)]
    start = report.cells.theta[0][report._both[1]]
    regret = np.zeros((len(learners), len(worlds)))
    following = np.zeros((*regret.shape, start.size))
    for i, learner in enumerate(learners.values()):
        for k, here in enumerate(worlds):
            run = pp.simulate(here, learner, start=here.domain.project(start), record="all")
            regret[i, k] = float(run.regret("stable")[0, -1])
            following[i, k] = run.deployed.values[0, -1].mean(axis=0)
    names = [report.parameters[k] for k in report._both[1]]
    return xr.Dataset(
        {
            "regret": (("learner", "draw"), regret),
            "next": (("learner", "draw", "parameter"), following),
        },
        {"learner": list(learners), "draw": np.arange(len(worlds)), "parameter": names},
    )
