"""What deployment did to the loss and to the outcome: the offline/online gap, and self-fulfilment.

Both compare arms of the same round and need no model of the response: the first is
PR(θ_k) − DPR(θ_k, θ_other) of section 2 of the paper, what retraining ignores; the second the effect of
the prediction itself.
"""

from __future__ import annotations

import dataclasses
from typing import NamedTuple

import numpy as np
import xarray as xr
from scipy import stats

from performative.attribution.cells import Cells
from performative.attribution.estimate import Estimate, Linear, Uncertain, uncertain


class Gap(NamedTuple):
    """Offline promise, online result, and what is missing between them; in units of the loss.

    `offline` is the loss of the newer model less that of the other on the *other's* data, `online` the
    same on the data that each brought about.
    """

    gap: Estimate
    offline: Estimate
    online: Estimate


def offline_online_gap(
    data: xr.Dataset,
    cells: Cells,
    reference: np.ndarray,
    widen: float = 1.0,
    symmetric: bool = False,
) -> Gap | None:
    """The gap of the newest model of each round, averaged over rows; None without losses.

    Of models first used in the same round the newest is the one trained through last, then the last in
    the table of models; with `symmetric` all of them count alike.
    """
    if "loss" not in data or cells.count.size == cells.rounds:
        return None
    part = _loss_cells(data, cells, reference, symmetric)
    if not np.any(part.theta[:, 1]):
        return None
    found = [
        uncertain(part, lambda here: _compared(here, *what)).estimate(widen)  # noqa: B023
        for what in ((1.0, 0.0), (0.0, 1.0), (1.0, -1.0))
    ]
    online, offline, gap = found
    return Gap(gap, offline, online)


def _loss_cells(data: xr.Dataset, cells: Cells, reference: np.ndarray, symmetric: bool) -> Cells:
    """Losses as statistics; θ holds the slot of the cell's own model, and whether it is the newest."""
    slots, deployed = data["slot_model"].values, data["deployed"].values
    own = np.argmax(slots == deployed[:, None], axis=1)
    first = {name: cells.round[deployed == name].min() for name in set(deployed.tolist())}
    later = {} if symmetric else _later(data)
    since = np.array([first[name] + later.get(name, 0.0) for name in deployed.tolist()])
    since[reference] = -1.0
    latest = np.full(cells.rounds, -1.0)
    np.maximum.at(latest, cells.round, since)
    several = cells.by_round(np.ones(deployed.size))[cells.round] > 1
    newest = (since == latest[cells.round]) & ~reference & several
    buckets = {"bucket_count": None, "bucket_sum": None}
    if cells.clustered and "bucket_loss" in data:
        buckets = {
            "bucket_count": cells.bucket_count,
            "bucket_sum": np.nan_to_num(data["bucket_loss"].values),
        }
    return dataclasses.replace(
        cells,
        mean=np.nan_to_num(data["loss"].values),
        covariance=np.nan_to_num(data["loss_covariance"].values),
        theta=np.stack([own, newest], axis=1).astype(float),
        aligned=None,
        diagonal=False,
        contrast_variance=None,
        **buckets,
    )


def _later(data: xr.Dataset) -> dict[str, float]:
    """Fractions of a round, more for models trained through later, or later in their table."""
    names = [str(name) for name in data["model"].values]
    through = data["trained_through"].values if "trained_through" in data.coords else names
    told = {name: str(text) for name, text in zip(names, through, strict=True)}
    numeric = all(text.replace(".", "", 1).isdigit() for text in told.values())
    when = {name: float(text) if numeric else text for name, text in told.items()}
    known = "trained_through" in data.coords and all(told.values())
    order = sorted(names, key=lambda name: when[name]) if known else names
    return {name: k / (len(names) + 1) for k, name in enumerate(order)}


def _compared(cells: Cells, online: float, offline: float) -> Linear:
    """online·(own − others' own) + offline·(on others' data: own model − theirs), newest cells."""
    own, newest = cells.theta[:, 0].astype(int), cells.theta[:, 1] > 0
    loading = np.zeros_like(cells.mean)
    weight = np.where(newest, cells.count, 0.0)
    weight = weight / weight.sum()
    for c in np.flatnonzero(newest):
        others = np.flatnonzero((cells.round == cells.round[c]) & (np.arange(own.size) != c))
        part = weight[c] * cells.count[others] / cells.count[others].sum()
        loading[c, own[c]] += online * weight[c]
        loading[others, own[others]] -= (online + offline) * part
        loading[others, own[c]] += offline * part
    return Linear(np.array([np.sum(loading * cells.mean)]), loading[None])


def outcome_response(data: xr.Dataset, widen: float = 1.0) -> Estimate | None:
    r"""τ, the effect of the prediction on the outcome given x.

    $\hat\tau=\sum(f_{dep}-\bar f)(y-\hat y(x))/\sum(f_{dep}-\bar f)^2$: positive if predictions fulfil
    themselves. None where the log has no outcome, no scores of all arms, or nothing differs.
    """
    if "tau_sums" not in data:
        return None
    rr, re, rree, rrre, rrrr = data["tau_sums"].values.sum(axis=0)
    if not rr > 0:
        return None
    tau = re / rr
    variance, freedom = (rree - 2 * tau * rrre + tau**2 * rrrr) / rr**2, np.inf
    if "bucket_tau" in data:
        left = data["tau_sums"].values.sum(axis=0)[:2] - data["bucket_tau"].values.sum(axis=0)
        replicates = left[:, 1] / left[:, 0]
        buckets = replicates.size
        variance = (buckets - 1) / buckets * np.sum((replicates - replicates.mean()) ** 2)
        freedom = buckets - 1.0
    found = Uncertain(np.array([tau]), np.array([[variance]]), freedom)
    return found.estimate(widen)


def selective_labels(data: xr.Dataset) -> float:
    """The p-value of "outcomes are missing equally often in all arms"; NaN if none is missing."""
    if "outcome_count" not in data:
        return np.nan
    rows, known = data["rows"].values.astype(float), data["outcome_count"].values.astype(float)
    rounds = data["round"].values
    statistic, freedom = 0.0, 0
    for t in np.unique(rounds):
        here = rounds == t
        rate = known[here].sum() / rows[here].sum()
        if here.sum() < 2 or rate in (0.0, 1.0):
            continue
        statistic += np.sum(
            (known[here] - rate * rows[here]) ** 2 / (rows[here] * rate * (1 - rate))
        )
        freedom += int(here.sum()) - 1
    return float(stats.chi2.sf(statistic, freedom)) if freedom else np.nan
