"""Is retraining stable where it was tried, and where does it lead?

Retraining once, locally, is θ ↦ θ + G(θ − …) with G = −H⁻¹J: J is how the deployed model moves the mean
gradient, H the mean Hessian (section 3 of the paper; for the squared loss G = (1−α_t)A). The log shows Gv
for every direction v that was tried, not only its part along v, and that decides: a loop can
oscillate, spiral out, or diverge in one direction alone while one pooled number looks safe.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from performative.attribution.cells import Cells
from performative.attribution.diagnostics import NOT_TESTED, Finding, quadratic
from performative.attribution.estimate import (
    Estimate,
    Linear,
    Uncertain,
    critical,
    jackknife,
    response,
    uncertain,
)

DRAWS = 400
KNOWN = 0.2
"""A direction counts as known if its response has a standard error below this."""

GLIMPSED = 3 * KNOWN
"""Up to here a direction may at least speak against a loop being stable."""

SMALL_LEAK = 0.05
"""A loop that diverges does so whatever a leak of this size adds to it."""

MOST = 0.5
"""A loop of whose next step more than this was not tried may diverge where nobody looked."""


class Loop(NamedTuple):
    """What is known of the loop along the directions that were tried."""

    verdict: str
    why: str
    known: int
    of: int
    directions: list[Estimate]
    leak: Finding
    inside: np.ndarray
    noise: np.ndarray

    @property
    def contraction(self) -> Estimate | None:
        """ρ̂, the spectral radius of R′ĜR, and the radii of loops that would show themselves so."""
        if not self.known:
            return None
        return _interval(self.inside, float(_radius(self.inside)), self.noise)


def examine(cells: Cells, inflation: float = 1.0, seed: int = 0) -> Loop:
    """The verdict on the loop, for cells of the retraining statistic (see `retraining`).

    Among the known directions R, ρ̂ is the spectral radius of R′ĜR. Noise inflates it, so that it is
    compared with what a loop exactly on the edge would show: ρ(R′ĜR/ρ̂ + noise).
    """
    total = cells.theta.shape[1]
    if cells.diagonal and not cells.clustered:
        why = "features' covariances are not in the summary: give a column of units, or fewer features"
        return _unknown(why, total)
    errors, replicates = _errors(cells, inflation)
    known = errors < KNOWN
    if not known.any():
        return _unknown("no direction was tried hard enough to know its response", total)

    def block(chosen: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        directions = cells.eigen[1][:, chosen]
        inside = directions.T @ response(cells) @ directions
        return inside, _noise(cells, chosen, replicates, inflation, seed)

    inside, noise = block(known)
    radius = float(_radius(inside))
    high = float(np.quantile(_radius(inside + noise), 0.975))
    below, above = _shown(inside, 1.0, noise)
    leak, leaking = _leak(cells, known)
    count = int(known.sum())
    diverges = radius > above
    if leak.p < 0.01 and not (diverges and leaking < SMALL_LEAK):
        verdict, why = "cannot tell", "the response leads out of the directions that were tried"
    elif diverges:
        verdict, why = "unstable", "an error grows from one retraining to the next"
    elif radius < below and high < 1.0:
        verdict, why = "stable", f"in the {count} of {total} directions tried"
        if _may_be_unstable(*block(errors < GLIMPSED)):
            verdict, why = "cannot tell", "a direction that was tried a little may be unstable"
        elif _leads_elsewhere(cells, known):
            verdict = "cannot tell"
            why = "retraining leads where nothing was tried, and an error may grow there"
    else:
        verdict, why = "cannot tell", "the interval of the contraction includes 1"
    along = _along(cells, cells.eigen[1][:, known], inflation)
    return Loop(verdict, why, count, total, along, leak, inside, noise)


def _may_be_unstable(inside: np.ndarray, noise: np.ndarray) -> bool:
    """Whether a loop on the edge could have shown itself as this one does."""
    return float(_radius(inside)) >= _shown(inside, 1.0, noise)[0]


def _unknown(why: str, total: int) -> Loop:
    nothing = np.zeros((0, 0))
    return Loop("cannot tell", why, 0, total, [], NOT_TESTED, nothing, nothing)


def _shown(inside: np.ndarray, wanted: float, noise: np.ndarray) -> tuple[float, float]:
    """Between what radii a loop like this one, of radius `wanted`, would show itself."""
    drawn = [
        np.quantile(
            _radius(wanted / max(float(_radius(like)), 1e-12) * like + noise), [0.025, 0.975]
        )
        for like in (inside, _without_noise(inside, noise))
    ]
    return float(min(drawn[0][0], drawn[1][0])), float(max(drawn[0][1], drawn[1][1]))


def _without_noise(inside: np.ndarray, noise: np.ndarray) -> np.ndarray:
    """The estimate with its columns drawn towards κ̂I, by what noise alone would explain.

    Noise spreads eigenvalues that are equal, and moves the largest outwards; a loop whose eigenvalues
    are spread already would show less of that, so that a loop like κI must be thought of, too.
    """
    variance = np.maximum(np.mean(np.sum(noise**2, axis=1), axis=0), 1e-300)
    pooled = np.average(np.diag(inside), weights=1.0 / variance) * np.eye(len(inside))
    apart = inside - pooled
    explained = 2.0 * variance / np.maximum(np.sum(apart**2, axis=0), 1e-300)
    return pooled + apart * np.sqrt(np.maximum(1.0 - explained, 0.0))


def _interval(inside: np.ndarray, radius: float, noise: np.ndarray) -> Estimate:
    """The radii of loops like this one that would show themselves as this one did.

    Noise moves eigenvalues outwards, and the more the closer together they are: quantiles of the
    radius of draws around the estimate would lie above the truth.
    """
    reach = float(np.quantile(np.linalg.norm(noise, 2, axis=(1, 2)), 0.975))
    grid = np.maximum(radius + 2.0 * reach * np.linspace(-1.0, 1.0, 7), 0.0)
    shown = np.array([_shown(inside, wanted, noise) for wanted in grid])
    shown = np.maximum.accumulate(shown, axis=0)
    low, high = (float(np.interp(radius, shown[:, which], grid)) for which in (1, 0))
    return Estimate(radius, min(low, radius), max(high, radius))


def _radius(matrices: np.ndarray) -> Any:
    return np.abs(np.linalg.eigvals(matrices)).max(axis=-1)


def _errors(cells: Cells, inflation: float) -> tuple[np.ndarray, np.ndarray | None]:
    """The standard error of the response to every tried direction, at worst over what it moves."""
    sizes, directions = cells.eigen
    if not cells.clustered:
        weights = (cells.gain @ directions) ** 2 / cells.count[:, None]
        spread = np.einsum("ck,cij->kij", weights, cells.covariance)
        return inflation * np.sqrt(np.linalg.eigvalsh(spread)[:, -1]), None
    found = jackknife(cells, lambda part: (response(part) @ directions).ravel(), np.zeros(1))
    assert found.replicates is not None
    replicates = found.replicates.reshape(len(found.replicates), -1, sizes.size)
    worst = [np.linalg.norm(replicates[:, :, i], 2) for i in range(sizes.size)]
    return inflation * np.array(worst), replicates


def _noise(
    cells: Cells, known: np.ndarray, replicates: np.ndarray | None, inflation: float, seed: int
) -> np.ndarray:
    """Draws of the estimation error of R′ĜR."""
    rng = np.random.default_rng(seed)
    directions = cells.eigen[1][:, known]
    size = directions.shape[1]
    if replicates is None:
        spread = directions.T @ cells.covariance @ directions / cells.count[:, None, None]
        values, vectors = np.linalg.eigh(spread)
        roots = vectors * np.sqrt(np.maximum(values, 0.0))[:, None, :]
        drawn = np.zeros((DRAWS, size, size))
        for root, gain in zip(roots, cells.gain @ directions, strict=True):
            drawn += (rng.normal(size=(DRAWS, size)) @ root.T)[:, :, None] * gain
        return inflation * drawn
    inside = np.einsum("ij,bik->bjk", directions, replicates[:, :, known])
    heavy = critical(len(replicates) - 1.0) / critical(np.inf)
    normal = rng.normal(size=(DRAWS, len(replicates)))
    return inflation * heavy * np.tensordot(normal, inside, axes=1)


def _along(cells: Cells, directions: np.ndarray, inflation: float) -> list[Estimate]:
    """Per tried direction v, v′Ĝv: its own contraction, with its sign."""

    def diagonal(part: Cells) -> Linear:
        value = np.einsum("ik,ij,jk->k", directions, response(part), directions)
        loading = np.einsum("ik,ck->kci", directions, part.gain @ directions)
        return Linear(value, loading)

    found = uncertain(cells, diagonal)
    return [found.estimate(inflation, k) for k in range(directions.shape[1])]


def _untried(tried: np.ndarray) -> np.ndarray:
    return np.linalg.svd(tried, full_matrices=True)[0][:, tried.shape[1] :]


def _leads_elsewhere(cells: Cells, known: np.ndarray) -> bool:
    """Whether most of the last round's step of retraining lies outside what was tried."""
    outside = _untried(cells.eigen[1][:, known])

    def step(part: Cells) -> np.ndarray:
        return (part.round_mean(part.mean) - part.round_mean(part.theta))[-1]

    whole = step(cells)
    if outside.shape[1] == 0 or not np.linalg.norm(whole @ outside) > MOST * np.linalg.norm(whole):
        return False
    whitening = cells.mapped(outside.T).whitening

    def leaving(part: Cells) -> np.ndarray:
        return np.sqrt(part.round_count[-1]) * whitening @ (step(part) @ outside)

    return quadratic(cells, leaving, float(len(whitening))).p < 0.01


def _leak(cells: Cells, known: np.ndarray) -> tuple[Finding, float]:
    """(I − RR′)ĜR = 0: the response stays within the tried directions; and how large that is."""
    sizes, tried = cells.eigen[0][known], cells.eigen[1][:, known]
    outside = _untried(tried)
    if outside.shape[1] == 0:
        return NOT_TESTED, 0.0
    part = cells.mapped(outside.T)
    whitening = part.whitening

    def leaving(here: Cells) -> np.ndarray:
        return (whitening @ response(here) @ tried * np.sqrt(sizes)).ravel()

    size = float(np.linalg.norm(response(part) @ tried, 2))
    return quadratic(part, leaving, float(len(whitening) * sizes.size)), size


def pooled_contraction(cells: Cells, hessian: np.ndarray) -> Linear:
    r"""$\hat\kappa_H=-\sum n\tilde\theta'\tilde g/\sum n\tilde\theta'H\tilde\theta$, one figure.

    `cells` are those of the retraining statistic −H⁻¹g.
    """
    weighted = cells.contrast * cells.count[:, None] @ hessian
    loading = (weighted / np.sum(weighted * cells.contrast))[None]
    return Linear(np.einsum("kci,ci->k", loading, cells.mean), loading)


def operator_norm(cells: Cells, inflation: float = 1.0, seed: int = 0) -> Estimate:
    """‖B̂‖ with |‖B̂‖ − ‖B‖| ≤ ‖noise‖ (Weyl), the noise simulated."""
    norm = float(np.linalg.norm(response(cells), 2))
    rng = np.random.default_rng(seed)
    if cells.clustered:
        found = jackknife(cells, lambda part: response(part).ravel(), np.zeros(1))
        assert found.replicates is not None
        shaped = found.replicates.reshape(len(found.replicates), *response(cells).shape)
        normal = rng.normal(size=(DRAWS, len(shaped)))
        noise = critical(found.freedom) / critical(np.inf) * np.tensordot(normal, shaped, axes=1)
    else:
        values, vectors = np.linalg.eigh(cells.pooled)
        root = vectors * np.sqrt(np.maximum(values, 0.0))
        normal = rng.normal(size=(DRAWS, cells.mean.shape[1], cells.rank))
        noise = (root @ normal) / np.sqrt(cells.eigen[0])
    reach = inflation * float(np.quantile(np.linalg.norm(noise, 2, axis=(1, 2)), 0.95))
    return Estimate(norm, max(0.0, norm - reach), norm + reach)


class StablePoint(NamedTuple):
    """θ^PS of the last round, the distance to it, and how much of the way lies outside what was tried."""

    point: np.ndarray
    error: np.ndarray
    covariance: np.ndarray
    distance: Estimate
    step: np.ndarray
    outside: float


def stable_point(cells: Cells, deployed: np.ndarray, inflation: float = 1.0) -> StablePoint:
    r"""$\theta^{PS}-\theta=K r$ with r = retrain(θ's data) − θ and $K=(I-\hat G)^{-1}$, in the last round.

    `cells` are those of the retraining statistic, whose mean is where the cell's data would lead.
    """
    last = cells.rounds - 1

    def point(part: Cells) -> Linear:
        matrix = response(part)
        model = part.round_mean(part.theta)[last]
        step = part.round_mean(part.mean)[last] - model
        inverse = np.linalg.inv(np.eye(len(model)) - matrix)
        onward = inverse @ step
        here = (part.round == last) * part.count / part.round_count[last]
        weights = here + part.gain @ onward
        return Linear(model + onward, np.einsum("ij,c->icj", inverse, weights))

    found: Uncertain = uncertain(cells, point)
    covariance = found.covariance * inflation**2
    way = found.value - deployed
    distance = float(np.linalg.norm(way))
    unit = way / distance if distance > 0 else way
    reach = critical(found.freedom) * float(np.sqrt(max(unit @ covariance @ unit, 0.0)))
    onward = found.value - cells.round_mean(cells.theta)[last]
    return StablePoint(
        found.value,
        np.sqrt(np.maximum(np.diag(covariance), 0.0)),
        covariance,
        Estimate(distance, max(0.0, distance - reach), distance + reach),
        way,
        float(cells.outside(onward[None])[0]),
    )
