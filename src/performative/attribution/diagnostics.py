"""Tests of "nothing responds", and of what the estimates need: even arms, a steady linear response, no trace.

All from the cells alone. Where rows repeat units, quadratic forms are referred to a scaled F (Rao and
Scott's second-order correction) with the buckets' degrees of freedom.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from scipy import stats

from performative.attribution.cells import SPAN, Cells
from performative.attribution.estimate import (
    Linear,
    Uncertain,
    entries,
    jackknife,
    response,
    strength,
    strength_uncertain,
    uncertain,
)

SPLITS = np.array([k / 20 for k in range(21) if k not in (7, 9, 11, 13)])
"""The shares of an arm that are taken for intended."""


class Finding(NamedTuple):
    """A statistic, its degrees of freedom and its p-value; `excess` is statistic / expectation."""

    statistic: float
    freedom: float
    p: float
    excess: float


NOT_TESTED = Finding(np.nan, 0.0, np.nan, 1.0)


def quadratic(cells: Cells, whitened: Callable[[Cells], np.ndarray], freedom: float) -> Finding:
    """Of a vector with identity covariance under independent rows: its squared length."""
    if freedom < 1 or (cells.diagonal and not cells.clustered):
        return NOT_TESTED
    vector = whitened(cells)
    statistic = float(vector @ vector)
    if not cells.clustered:
        p = float(stats.chi2.sf(statistic, freedom))
        return Finding(statistic, freedom, p, statistic / freedom)
    found = jackknife(cells, whitened, vector)
    assert found.replicates is not None
    gram = found.replicates @ found.replicates.T
    trace, rank = float(np.trace(gram)), found.freedom
    square = max(float(np.sum(gram**2)) - trace**2 / rank, trace**2 / freedom)
    effective = min(trace**2 / square, freedom)
    return Finding(
        statistic,
        freedom,
        float(stats.f.sf(statistic / trace, effective, rank)),
        statistic / trace,
    )


def score(cells: Cells) -> Finding:
    """κ = 0: the features do not move the way the weights point."""
    found = strength_uncertain(cells)
    ratio = float(found.value[0] / found.error[0]) if found.error[0] > 0 else 0.0
    return Finding(ratio**2, 1.0, found.p_value(), ratio**2)


def omnibus(cells: Cells) -> Finding:
    """B = 0 in every direction that was tried: Σ n (B̂θ̃)′Σ⁻¹(B̂θ̃), on rank·q degrees of freedom."""
    whitening = cells.whitening
    sizes, directions = cells.eigen

    def moved(part: Cells) -> np.ndarray:
        return (whitening @ response(part) @ directions * np.sqrt(sizes)).ravel()

    return quadratic(cells, moved, float(cells.rank * len(whitening)))


def largest_entry(cells: Cells) -> Finding:
    """B = 0 entry by entry, Bonferroni: sees a single feature that the pooled tests overlook."""
    found = entries(cells)
    known = found.error > 0
    if not known.any():
        return NOT_TESTED
    ratio = float(np.max(np.abs(found.value[known]) / found.error[known]))
    p = min(1.0, float(known.sum()) * 2.0 * float(stats.t.sf(ratio, found.freedom)))
    return Finding(ratio**2, 1.0, p, ratio**2)


def no_response(cells: Cells, with_strength: bool = True) -> float:
    """The p-value of "nothing responds": min(1, 2 min) of the score and the omnibus test."""
    tests = [omnibus(cells).p, *([score(cells).p] if with_strength else [])]
    known = [p for p in tests if np.isfinite(p)]
    return min(1.0, len(known) * min(known)) if known else np.nan


def sign_flip(cells: Cells, draws: int = 999, seed: int = 0) -> Finding:
    """Exact where two equal arms a round had their labels assigned at random (six rounds or more).

    Without a response the contrast of a round is as likely as its opposite: |κ̂| against `draws`
    flips of the rounds' signs.
    """
    alone = cells.by_round(np.ones(cells.count.size))
    if cells.rounds < 6 or not np.all(alone == 2):
        return NOT_TESTED
    loading = strength(cells).loading[0]
    rounds = cells.by_round(np.einsum("ci,ci->c", loading, cells.within(cells.mean))[:, None])[:, 0]
    flips = np.random.default_rng(seed).choice([-1.0, 1.0], size=(draws, cells.rounds))
    larger = np.abs(flips @ rounds) >= abs(rounds.sum()) * (1 - 1e-12)
    return Finding(float(abs(rounds.sum())), 1.0, float((1 + larger.sum()) / (1 + draws)), np.nan)


def lack_of_fit(cells: Cells, structure: str = "full") -> Finding:
    """Q = Σ n ẽ′Σ⁻¹ẽ of what the response leaves of the contrasts.

    Rejects for a response that is not linear or changes from round to round, for carry-over and for
    dependent rows; `excess` is Q / df, by which variances are then inflated.
    """
    whitening = cells.whitening
    alone = cells.by_round(np.ones(cells.count.size))
    contrasts = float(cells.count.size - alone.size)
    fitted = {"full": cells.rank * len(whitening), "diagonal": cells.rank, "scalar": 1}[structure]

    def left(part: Cells) -> np.ndarray:
        rest = part.within(part.mean) - part.contrast @ response(part, structure).T
        return (np.sqrt(part.count)[:, None] * rest @ whitening.T).ravel()

    return quadratic(cells, _padded(cells, left), contrasts * len(whitening) - fitted)


def control(cells: Cells, immutable: np.ndarray) -> Finding:
    """Do the arms agree in what no model can influence? Per round, and arm against arm overall.

    The smaller p of the two, doubled: the first sees any round, the second a small steady imbalance.
    """
    if immutable.size == 0 or cells.count.size == cells.rounds:
        return NOT_TESTED
    part = cells.of(immutable)
    whitening = part.whitening
    alone = part.by_round(np.ones(part.count.size))
    freedom = float((part.count.size - alone.size) * len(whitening))

    def contrasts(here: Cells) -> np.ndarray:
        return (np.sqrt(here.count)[:, None] * here.within(here.mean) @ whitening.T).ravel()

    each = quadratic(part, _padded(part, contrasts), freedom)
    by_role = _with_theta(part, _roles(part))
    overall = omnibus(by_role)
    along = omnibus(_with_theta(part, cells.theta))
    tests = [test for test in (each, overall, along) if np.isfinite(test.p)]
    smallest = min(tests, key=lambda test: test.p)
    return smallest._replace(p=min(1.0, len(tests) * smallest.p))


def _with_theta(cells: Cells, theta: np.ndarray) -> Cells:
    return dataclasses.replace(cells, theta=theta, aligned=None)


def _roles(cells: Cells) -> np.ndarray:
    """Arms as indicator vectors; where every model is an arm of its own, older and newer model."""
    names = np.unique(cells.arm)
    if names.size <= 8:
        return (cells.arm[:, None] == names) * 1.0
    newest = np.zeros(cells.rounds)
    np.maximum.at(newest, cells.round, cells.model.astype(float))
    return (cells.model == newest[cells.round])[:, None] * 1.0


def sample_ratio(cells: Cells, split: dict[int, float] | None = None) -> Finding:
    """Do the arms' sizes fit the intended split? Per round, and overall, as in `control`.

    Where no split was given, the intended one is taken to be the nearest round figure: equal parts,
    or multiples of five per cent (of one per cent below five), but for those near a half or a third
    that nobody intends and that equal parts become when some rows of one arm are lost.
    """
    totals = cells.round_count[cells.round]
    alone = cells.by_round(np.ones(totals.size))
    if not (alone > 1).any():
        return NOT_TESTED
    if split is not None:
        wanted = np.array([split.get(int(arm), np.nan) for arm in cells.arm])
        wanted = wanted / cells.by_round(wanted[:, None])[cells.round, 0]
    else:
        wanted = _round_shares(cells)
    roles = _roles(cells)
    told = np.column_stack([wanted, wanted * totals, roles])  # goes with the cells, as their θ
    part = dataclasses.replace(cells, theta=told, aligned=None, diagonal=False)
    own = cells.by_round((wanted * totals)[:, None, None] * roles[:, :, None] * roles[:, None, :])
    mean = cells.by_round(wanted[:, None] * roles)
    spread = own.sum(axis=0) - np.einsum("t,ti,tj->ij", cells.round_count, mean, mean)
    sizes, directions = np.linalg.eigh(spread)
    kept = sizes > 1e-9 * max(sizes[-1], 1.0)
    whitening = (directions[:, kept] / np.sqrt(sizes[kept])).T

    def surplus(here: Cells) -> np.ndarray:
        return here.count - here.theta[:, 0] * here.round_count[here.round]

    def each(here: Cells) -> np.ndarray:
        return surplus(here) / np.sqrt(here.theta[:, 1])

    def steadily(here: Cells) -> np.ndarray:
        return whitening @ (here.theta[:, 2:].T @ surplus(here))

    tests = [
        quadratic(part, _padded(part, each), float(np.sum(alone - 1))),
        quadratic(part, steadily, float(kept.sum())),
    ]
    smallest = min(tests, key=lambda test: np.inf if np.isnan(test.p) else test.p)
    return smallest._replace(p=min(1.0, 2.0 * smallest.p))


def _round_shares(cells: Cells) -> np.ndarray:
    """The nearest round figures to the arms' shares, round by round."""
    share = cells.count / cells.round_count[cells.round]
    arms = cells.by_round(np.ones(share.size))[cells.round]
    steady = _steady_shares(cells)
    base = share if steady is None else steady
    nearest = np.abs(base[:, None] - SPLITS).argmin(axis=1)
    grid = np.where(base < 0.03, np.maximum(np.round(base, 2), 0.01), SPLITS[nearest])
    grid = np.where(np.abs(base - 1 / arms) <= np.abs(base - grid), 1 / arms, grid)
    near = np.where(base > 0.97, np.minimum(np.round(base, 2), 0.99), grid)
    whole = cells.by_round(near[:, None])[:, 0]
    return np.where(np.abs(whole[cells.round] - 1.0) < 1e-9, near, base)


def _steady_shares(cells: Cells) -> np.ndarray | None:
    """Every arm's share over all rounds, where the same arms ran in all of them."""
    arms = np.unique(cells.arm)
    if cells.count.size != arms.size * cells.rounds:
        return None
    total = np.array([cells.count[cells.arm == arm].sum() for arm in arms])
    return (total / total.sum())[np.searchsorted(arms, cells.arm)]


def carry_over(cells: Cells) -> Uncertain | None:
    """κ of the model, of the arm's previous model, and their sum, the long-run κ.

    None where the log cannot tell them apart: arms must keep their units from round to round.
    """
    part = _lagged(cells)
    return None if part is None else _beside(part)


def steadiness(cells: Cells) -> Uncertain | None:
    """κ, its change as the logarithm of the round grows by one, and their sum.

    Lack of fit spreads its power over every contrast; a response that fades or grows from the first
    round to the last shows itself in this one figure. None where the log cannot tell them apart.
    """
    if cells.aligned is None or not cells.rank:
        return None
    clock = np.log1p(np.arange(cells.rounds))
    later = cells.theta * (clock - clock.mean())[cells.round, None]
    both = np.concatenate([cells.theta, later], axis=1)
    return _beside(dataclasses.replace(cells, theta=both))


def _beside(part: Cells) -> Uncertain | None:
    """`_now_and_before`, where the second half of θ is not explained by the first."""
    weighted = part.contrast * np.sqrt(part.count)[:, None]
    half = weighted.shape[1] // 2
    second = weighted[:, half:]
    left = second - _explained(weighted[:, :half], second)
    known = np.sum(left**2) > 1e-3 * np.sum(second**2) > 0
    return uncertain(part, _now_and_before) if known else None


def _explained(regressors: np.ndarray, values: np.ndarray) -> np.ndarray:
    basis, sizes, _ = np.linalg.svd(regressors, full_matrices=False)
    basis = basis[:, sizes**2 > SPAN * max(sizes[0] ** 2, 1e-300)]
    return basis @ (basis.T @ values)


def _now_and_before(cells: Cells) -> Linear:
    """κ now, κ before, and their sum; θ holds the model and the previous one, side by side.

    The previous model counts with what the present one does not explain, whatever its response: a
    response that is no multiple of the identity must not pass for carry-over. (Or, in place of the
    previous model, any other that `_beside` is asked about.)
    """
    assert cells.aligned is not None
    statistics, parameters = cells.aligned
    half = cells.theta.shape[1] // 2
    root = np.sqrt(cells.count)[:, None]
    now, before = cells.contrast[:, :half], cells.contrast[:, half:][:, parameters]
    left = before - _explained(root * now, root * before) / root
    now = now[:, parameters]
    size = np.sum(cells.count[:, None] * now**2)
    overlap = np.sum(cells.count[:, None] * now * before) / size
    second = cells.count[:, None] * left / np.sum(cells.count[:, None] * left**2)
    first = cells.count[:, None] * now / size - overlap * second
    loading = np.zeros((3, *cells.mean.shape))
    loading[:, :, statistics] = np.stack([first, second, first + second])
    return Linear(np.einsum("kci,ci->k", loading, cells.mean), loading)


def _lagged(cells: Cells) -> Cells | None:
    """The rounds all of whose arms ran in the round before too, θ followed by their models then."""
    if cells.aligned is None:
        return None
    pairs = list(zip(cells.round.tolist(), cells.arm.tolist(), strict=True))
    place = {pair: i for i, pair in enumerate(pairs)}
    before = np.array([place.get((t - 1, arm), -1) for t, arm in pairs])
    whole = cells.by_round((before < 0)[:, None] * 1.0)[cells.round, 0] == 0
    if not whole.any():
        return None
    both = np.concatenate([cells.theta, cells.theta[before]], axis=1)
    part = dataclasses.replace(cells, theta=both).where(whole)
    several = part.by_round(np.ones(part.count.size))[part.round] > 1
    return part if several.any() and part.rank else None


def _padded(cells: Cells, function: Callable[[Cells], np.ndarray]) -> Callable[[Cells], np.ndarray]:
    """The function, for cells of which a bucket left some empty too: those count as nothing new."""
    size = function(cells).size

    def padded(part: Cells) -> np.ndarray:
        found = function(part)
        return found if found.size == size else np.concatenate([found, np.zeros(size - found.size)])

    return padded


def repetition(cells: Cells, found: Uncertain) -> float:
    """How much longer the intervals are than if every row were a unit of its own."""
    plain = strength_uncertain(dataclasses.replace(cells, bucket_count=None, bucket_sum=None))
    return float(found.error[0] / plain.error[0]) if plain.error[0] > 0 else 1.0
