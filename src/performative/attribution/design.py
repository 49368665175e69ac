"""Which experiment a log is, whether anyone meant it or not, and what that kind can say.

Only what ran at the same time on units split at random, or was varied in time by a coin, can tell a
model's doing from the world's; everything else is named for what it is.
"""

from __future__ import annotations

import dataclasses
import itertools
from typing import Any, NamedTuple

import numpy as np

from performative.attribution.cells import SPAN, Cells
from performative.attribution.summary import Summary

VERSION_SPAN = 1e-11
"""Versions are linked by counting rows: however unequal those, a link is a link."""


class Design(NamedTuple):
    """What kind of experiment a log is.

    `kind` is one of "holdout", "canary", "arms", "dither", "switchback", "schedule", "event" and
    "single"; `concurrent` says that rounds have several models side by side; `randomised` that the
    assignment, as declared, is random; `reference` marks the cells of a hold-out.
    """

    kind: str
    concurrent: bool
    randomised: bool
    described: str
    missing: str
    reference: np.ndarray


SENTENCES = {
    "holdout": "one model stayed fixed on part of the units while others changed beside it",
    "canary": "outgoing and new models ran side by side",
    "arms": "several models ran side by side",
    "dither": "one model at a time, each perturbed at random, the perturbation logged",
    "switchback": "two models took turns by the flip of a coin",
    "schedule": "two models took turns on a schedule",
    "event": "one model at a time, each held for several rounds",
    "single": "one model at a time, each new one trained on the data before it",
}

NOTHING = "one model at a time: every movement fits a response and a world of its own equally well"


def detect(summary: Summary) -> Design:
    """The design of a log, checked against the assignment that was declared."""
    data = summary.data
    rounds = data["round"].values
    deployed, arms = data["deployed"].values, data["arm"].values
    models_of = {int(t): set(deployed[rounds == t].tolist()) for t in np.unique(rounds)}
    concurrent = any(len(models) > 1 for models in models_of.values())
    assignment = data.attrs["assignment"]
    reference = np.zeros(rounds.size, dtype=bool)
    if concurrent:
        reference = _reference(summary, models_of)
        kind = "holdout" if reference.any() else _concurrent_kind(models_of, arms, deployed)
        randomised = assignment == "units"
        missing = "" if randomised else _not_units(assignment)
        return Design(kind, True, randomised, SENTENCES[kind], missing, reference)
    kind = _single_kind(summary, models_of)
    randomised = (kind == "dither" and assignment != "schedule") or (
        kind == "switchback" and assignment == "coin-flip"
    )
    missing = "" if randomised else NOTHING
    if kind == "schedule":
        missing = "the turns were not random: a world with their rhythm looks the same"
    return Design(kind, False, randomised, SENTENCES[kind], missing, reference)


def _not_units(assignment: str) -> str:
    if assignment == "none":
        return "nobody has declared that units were assigned to the arms at random"
    return (
        f"the assignment of units to arms was declared as {assignment!r}, which is not random units"
    )


def _reference(summary: Summary, models_of: dict[int, set[str]]) -> np.ndarray:
    """The cells of a hold-out: declared by its role, or one model against changing others."""
    data = summary.data
    deployed = data["deployed"].values
    if "role" in data.coords:
        roles = dict(zip(data["model"].values.tolist(), data["role"].values.tolist(), strict=True))
        declared = np.array([roles.get(name, "") in ("baseline", "holdout") for name in deployed])
        if declared.any() and not declared.all():
            return declared
    mixed = [models for models in models_of.values() if len(models) > 1]
    always = set.intersection(*mixed)
    others = set.union(*mixed) - always
    if len(always) == 1 and len(others) > 1 and len(mixed) > 2:
        return deployed == next(iter(always))
    return np.zeros(deployed.size, dtype=bool)


def _concurrent_kind(models_of: dict[int, set[str]], arms: np.ndarray, deployed: np.ndarray) -> str:
    ordered = [models_of[t] for t in sorted(models_of)]
    kept = [bool(a & b) for a, b in itertools.pairwise(ordered)]
    return "canary" if kept and np.mean(kept) > 0.5 else "arms"


def _single_kind(summary: Summary, models_of: dict[int, set[str]]) -> str:
    data = summary.data
    ordered = [next(iter(models_of[t])) for t in sorted(models_of)]
    if "perturbation_of" in data.coords and summary.has_weights:
        parents = dict(
            zip(data["model"].values.tolist(), data["perturbation_of"].values.tolist(), strict=True)
        )
        known = set(data["model"].values.tolist())
        if np.mean([parents.get(name, "") in known for name in ordered]) > 0.5:
            return "dither"
    changes = sum(a != b for a, b in itertools.pairwise(ordered))
    if len(set(ordered)) == 2 and changes > 1:
        return "switchback" if data.attrs["assignment"] == "coin-flip" else "schedule"
    return "event" if len(set(ordered)) <= 0.5 * len(ordered) else "single"


# Cells


def cells_of(summary: Summary) -> Cells:
    """The features of a log's cells; without weights, θ is the indicator of the version."""
    data = summary.data
    covariance, diagonal = _covariance(summary)
    names = _model_order(summary)
    model = np.array([names.index(name) for name in data["deployed"].values.tolist()])
    theta, aligned = np.eye(len(names))[model], None
    if summary.has_weights:
        theta = summary.deployed_theta()
        aligned = _aligned(summary)
    return Cells(
        round=np.unique(data["round"].values, return_inverse=True)[1],
        count=data["count"].values.astype(float),
        mean=data["mean"].values,
        covariance=covariance,
        theta=theta,
        arm=np.unique(data["arm"].values, return_inverse=True)[1],
        model=model,
        reference=detect(summary).reference,
        aligned=aligned,
        diagonal=diagonal,
        contrast_variance=data["contrast_variance"].values if "contrast_variance" in data else None,
        span=SPAN if summary.has_weights else VERSION_SPAN,
        **_buckets(data, "bucket_sum", "bucket_count"),
    )


def _covariance(summary: Summary) -> tuple[np.ndarray, bool]:
    data = summary.data
    if "covariance" in data:
        return data["covariance"].values, False
    variance = data["variance"].values
    return variance[:, :, None] * np.eye(variance.shape[1]), True


def _buckets(data: Any, total: str, count: str) -> dict[str, np.ndarray]:
    if total not in data:
        return {}
    return {"bucket_count": data[count].values.astype(float), "bucket_sum": data[total].values}


def _model_order(summary: Summary) -> list[str]:
    """The deployed models in the order of first use."""
    data = summary.data
    order = np.argsort(data["round"].values, kind="stable")
    return list(dict.fromkeys(data["deployed"].values[order].tolist()))


def _aligned(summary: Summary) -> tuple[np.ndarray, np.ndarray]:
    """Features and parameters of the same name."""
    features = summary.features
    parameters = [str(name) for name in summary.data["parameter"].values]
    pairs = [(features.index(name), k) for k, name in enumerate(parameters) if name in features]
    return np.array([i for i, _ in pairs], dtype=int), np.array([k for _, k in pairs], dtype=int)


class Retraining(NamedTuple):
    """Cells of where a cell's data would lead when retrained on, and for which loss that is."""

    cells: Cells
    hessian: np.ndarray
    described: str
    parameters: list[str]


def retraining_of(summary: Summary, cells: Cells) -> Retraining | None:
    """The retraining statistic θ_ref − H⁻¹∇ℓ(z, θ_ref): its mean is where the data would lead.

    For the squared loss ½|z − θ|² that is z/(1 + λ) itself, also where no loss was declared. None
    where the log has no weights, or no gradients that its loss needs.
    """
    data = summary.data
    if not summary.has_weights:
        return None
    names = [str(name) for name in data["parameter"].values]
    loss, l2 = data.attrs["loss"], float(data.attrs["l2"])
    if "gradient" in data and "hessian" in data:
        hessian = np.average(data["hessian"].values, axis=0, weights=data["count"].values)
        if np.linalg.cond(hessian) > 1e12:
            return None
        inverse, reference = np.linalg.inv(hessian), data["reference"].values
        spread = data["gradient_covariance"].values if "gradient_covariance" in data else None
        buckets = _buckets(data, "bucket_gradient", "bucket_count")
        if spread is None and not buckets:
            return None
        gradients = _with(cells, data["gradient"].values, spread, buckets)
        mapped = gradients.mapped(-inverse, reference)
        return Retraining(mapped, hessian, f"{loss} loss", names)
    if loss not in (None, "squared") or data.attrs["labelled"]:
        return None
    assert cells.aligned is not None
    statistics, parameters = cells.aligned
    if parameters.size == 0:
        return None
    part = _restrict(cells.of(statistics), parameters)
    scale = 1.0 / (1.0 + l2)
    described = "squared loss" if loss else "squared loss (none was declared)"
    return Retraining(
        part.mapped(scale * np.eye(parameters.size)),
        (1.0 + l2) * np.eye(parameters.size),
        described,
        [names[k] for k in parameters],
    )


def _restrict(cells: Cells, parameters: np.ndarray) -> Cells:
    return dataclasses.replace(cells, theta=cells.theta[:, parameters])


def _with(
    cells: Cells, mean: np.ndarray, covariance: np.ndarray | None, buckets: dict[str, np.ndarray]
) -> Cells:
    if covariance is None:
        covariance = np.zeros((*mean.shape, mean.shape[1]))
    fields: dict[str, Any] = {"bucket_count": None, "bucket_sum": None} | buckets
    return dataclasses.replace(
        cells,
        mean=mean,
        covariance=covariance,
        aligned=None,
        diagonal=False,
        contrast_variance=None,
        **fields,
    )
