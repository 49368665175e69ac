"""From a log to its summary: a few queries of plain group-by, and the arithmetic around them.

First the survey of every cell; then second moments, centred in SQL on the means of the first; then,
where there are units, sums by bucket. Rows are never fetched. It knows no estimator.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import xarray as xr

from performative.attribution.engines import ROWS
from performative.attribution.layers import MOST_CROSS, Layers
from performative.attribution.log import INTERCEPT, Log
from performative.attribution.queries import (
    Moments,
    joined,
    label_expression,
    nested,
    parameter_columns,
    triangle,
    weighted,
)
from performative.attribution.summary import (
    BUCKETS,
    TAU_TERMS,
    attributes,
    fingerprint,
    with_models,
)
from performative.attribution.survey import Survey, check_rows, label, leave_out, survey


def aggregate(
    log: Log,
    *,
    loss: str | None,
    l2: float,
    signed: bool,
    reference: Mapping[str, float] | None = None,
    constants: Mapping[str, float] | None = None,
    **declared: Any,
) -> xr.Dataset:
    """The dataset of a `Summary`. `constants`: the only features to leave out, with their value."""
    cells = survey(log)
    check_rows(log, cells, loss, signed)
    declared["constants"] = leave_out(log, cells, constants)
    labelled = loss is not None and log.has("outcome") and not signed
    data = _feature_moments(log, cells, declared, loss, l2, signed, labelled)
    if log.models is not None:
        weights = {key: list(row.values()) for key, row in log.models.weights.items()}
        data = with_models(data, weights, log.models.parameters, log.models.columns)
        if data.sizes["feature"] > MOST_CROSS:
            data["contrast_variance"] = ("cell", _contrast_variance(log, data))
    for role in ("outcome", "score"):
        if log.has(role):
            _plain_moments(log, data, cells, role)
    work = Layers(log, data)
    if loss is not None and log.models is not None:
        work.add_slots()
        work.add_loss(reference)
        _loss_moments(work)
    if log.models is not None and log.has("outcome") and not signed:
        work.add_tau()
    if log.has("unit") or work.tau:
        _sums(work)
    if log.has("unit"):
        data.attrs["units"] = _count_units(log, data)
    kept = set(data["feature"].values.tolist())
    data.attrs["immutable"] = [name for name in data.attrs["immutable"] if name in kept]
    data.attrs["fingerprint"] = fingerprint(data)
    return data


def _feature_moments(
    log: Log,
    cells: Survey,
    declared: Mapping[str, Any],
    loss: str | None,
    l2: float,
    signed: bool,
    labelled: bool,
) -> xr.Dataset:
    keys = sorted(set(cells.key.tolist()))
    data = xr.Dataset(
        coords={
            "round": ("cell", np.searchsorted(keys, cells.key) + 1),
            "round_key": ("cell", cells.key),
            "round_label": ("cell", np.array([label(log, key) for key in cells.key], dtype=str)),
            "arm": ("cell", cells.arm.astype(str)),
            "deployed": ("cell", cells.model.astype(str)),
            "feature": np.array(log.features, dtype=str),
        },
        attrs=attributes(
            loss=loss,
            l2=l2,
            signed=signed,
            labelled=labelled,
            every=None if log.every is None else log.every.text,
            levels=log.levels,
            warnings=log.warnings,
            **declared,
        ),
    )
    size = len(log.features)
    centred = {f"z{j}": f"{column.name} - c{j}" for j, column in enumerate(log.sources)}
    source = nested(joined(data, {f"c{j}": cells.mean[:, j] for j in range(size)}), centred)
    names = list(centred)
    crossed = size <= MOST_CROSS
    cross = triangle(names) if crossed else [(name, name) for name in names]
    found = Moments(log, source, len(cells), names, cross)
    data["rows"] = ("cell", found.rows.astype(np.int64))
    data["count"] = ("cell", found.count)
    data["weight"] = ("cell", found.weight)
    data["mean"] = (("cell", "feature"), cells.mean + found.mean)
    covariance = found.covariance() if crossed else None
    if covariance is not None:
        data = data.assign_coords(feature2=data["feature"].values)
        data["covariance"] = (("cell", "feature", "feature2"), covariance)
        variance = np.diagonal(covariance, axis1=1, axis2=2).copy()
    else:
        variance = np.stack(found.scatter, axis=1)
    data["variance"] = (("cell", "feature"), variance)
    return data


def _contrast_variance(log: Log, data: xr.Dataset) -> np.ndarray:
    """Var of (θ_deployed − θ̄_t)ᵀx within each cell."""
    theta = data["theta"].sel(model=data["deployed"].values).values
    rounds, n = data["round"].values, data["count"].values[:, None]
    for t in np.unique(rounds):
        here = rounds == t
        theta[here] -= (n[here] * theta[here]).sum(axis=0) / n[here].sum()
    names = parameter_columns(log, data)
    means = dict(zip((s.name for s in log.sources), data["mean"].values.T, strict=True))
    constants = {f"d{j}": theta[:, j] for j in range(len(names))}
    constants |= {
        f"c{j}": means[x] if x in means else np.ones(len(theta)) for j, x in enumerate(names)
    }
    score = " + ".join(f"d{j} * ({x} - c{j})" for j, x in enumerate(names))
    source = nested(joined(data, constants), {"z0": score})
    return Moments(log, source, len(theta), ["z0"], [("z0", "z0")]).scatter[0]


def _plain_moments(log: Log, data: xr.Dataset, cells: Survey, role: str) -> None:
    """Mean and variance of the outcome or the score, which may be missing in some rows."""
    centre = np.nan_to_num(cells.more[f"t_x_{role}_mean"])
    value = label_expression(data) if role == "outcome" else f"t_{role}"
    source = nested(joined(data, {"c0": centre}), {"z0": f"({value}) - c0"})
    where = f"t_{role} IS NOT NULL"
    found = Moments(log, source, len(cells), ["z0"], [("z0", "z0")], where=where)
    data[f"{role}_count"] = ("cell", found.rows)
    data[f"{role}_mean"] = ("cell", centre + found.mean[:, 0])
    data[f"{role}_variance"] = ("cell", found.scatter[0])


def _loss_moments(work: Layers) -> None:
    """Gradient and Hessian at θ_ref and the losses of the round's models, of every cell."""
    log, data = work.log, work.data
    where = "t_outcome IS NOT NULL" if data.attrs["labelled"] else ""
    p, k = len(work.gradient), len(work.losses)
    found = Moments(
        log,
        work.source,
        len(data.cell),
        [*work.gradient, *work.losses],
        triangle(work.gradient) + triangle(work.losses),
        work.hessian,
        where,
    )
    # So that the covariance of a mean is covariance / count also where outcomes are missing.
    scale = (data["count"].values / found.count)[:, None, None]
    theta, l2 = data["theta"], data.attrs["l2"]
    names = data["parameter"].values
    held = np.where(names == INTERCEPT, 0.0, l2)
    data.coords["parameter2"] = ("parameter2", names)
    size = len(names)
    if p:
        gradient, covariance = found.mean[:, :p], found.covariance(0, p) * scale
        hessian = np.empty((len(data.cell), size, size))
        upper = np.triu_indices(size)
        hessian[:, upper[0], upper[1]] = hessian[:, upper[1], upper[0]] = found.means
    else:
        at = [data["feature"].values.tolist().index(name) for name in names]
        gradient = data["reference"].values - data["mean"].values[:, at]
        covariance = data["covariance"].values[:, at][:, :, at] if "covariance" in data else None
        hessian = np.broadcast_to(np.eye(size), (len(data.cell), size, size)).copy()
    square = ("cell", "parameter", "parameter2")
    data["gradient"] = (("cell", "parameter"), gradient + held * data["reference"].values)
    if covariance is not None:
        data["gradient_covariance"] = (square, covariance)
    data["hessian"] = (square, hessian + np.diag(held))
    penalty = {
        str(name): 0.5 * float(held @ row**2)
        for name, row in zip(theta["model"].values, theta.values, strict=True)
    }
    slots = data["slot_model"].values
    added = np.array([[penalty.get(str(name), np.nan) for name in row] for row in slots])
    absent = np.where(slots == "", np.nan, 0.0)
    data["loss"] = (("cell", "slot"), found.mean[:, p:] + added)
    both = absent[:, :, None] + absent[:, None, :]
    data["loss_covariance"] = (
        ("cell", "slot", "slot2"),
        found.covariance(p, p + k) * scale + both,
    )


def _sums(work: Layers) -> None:
    """Sums by bucket of units, for the jackknife, and the sums of the outcome response."""
    log, data = work.log, work.data
    one, two = weighted(log), weighted(log, 2)
    units = log.has("unit")
    constants = dict(work.constants)
    if units:
        constants |= {f"c{j}": data["mean"].values[:, j] for j in range(len(log.sources))}
    source = nested(joined(data, constants), *work.layers)
    listed = {"n": f"SUM({one}1)"}
    if units:
        listed |= {f"x_{j}": f"SUM({one}({x.name} - c{j}))" for j, x in enumerate(log.sources)}
        listed |= {f"g_{j}": f"SUM({one}{g})" for j, g in enumerate(work.gradient)}
        listed |= {f"l_{j}": f"SUM({one}{loss})" for j, loss in enumerate(work.losses)}
        if log.has("outcome"):
            listed["y"] = f"SUM({one}({label_expression(data)}))"
            listed["m"] = f"SUM(CASE WHEN t_outcome IS NOT NULL THEN {one}1 ELSE 0 END)"
    powers = (one, one, two, two, two)
    listed |= {
        f"t_{k}": f"SUM({power}({term}))"
        for k, (power, term) in enumerate(zip(powers, work.tau, strict=bool(work.tau)))
    }
    bucket = "t_bucket" if units else "0"
    text = ", ".join(f"{expression} AS {name}" for name, expression in listed.items())
    found = log.engine.query(
        f"SELECT k_cell, part, {text} FROM (SELECT *, {bucket} AS part FROM {source}) AS parts "
        "GROUP BY k_cell, part",
        {"k_cell": "whole", "part": "whole", **dict.fromkeys(listed, "number")},
    )
    cells = len(data.cell)

    def spread(stem: str, count: int = 1) -> np.ndarray:
        values = np.zeros((cells, BUCKETS, count))
        columns = [stem] if stem in found else [f"{stem}_{j}" for j in range(count)]
        for j, name in enumerate(columns):
            values[found["k_cell"], found["part"], j] = np.nan_to_num(found[name])
        return values

    if work.tau:
        sums = spread("t", len(TAU_TERMS))
        data.coords["term"] = ("term", np.array(TAU_TERMS))
        data["tau_sums"] = (("cell", "term"), sums.sum(axis=1))
        if units:
            data["bucket_tau"] = (("cell", "bucket", "term2"), sums[..., :2])
    if not units:
        return
    count = spread("n")[..., 0]
    data["bucket_count"] = (("cell", "bucket"), count)
    data["bucket_sum"] = (("cell", "bucket", "feature"), spread("x", len(log.sources)))
    part = count
    if log.has("outcome"):
        part = spread("m")[..., 0]
        data["bucket_outcome_count"] = (("cell", "bucket"), part)
        about = part * np.nan_to_num(data["outcome_mean"].values)[:, None]
        data["bucket_outcome_sum"] = (("cell", "bucket"), spread("y")[..., 0] - about)
    if not work.losses:
        return
    part = part if data.attrs["labelled"] else count
    scale = (data["weight"].values / part.sum(axis=1))[:, None, None]
    l2 = np.where(data["parameter"].values == INTERCEPT, 0.0, data.attrs["l2"])
    bare = data["gradient"].values - l2 * data["reference"].values
    if work.gradient:
        sums = spread("g", len(work.gradient)) - part[..., None] * bare[:, None, :]
        data["bucket_gradient"] = (("cell", "bucket", "parameter"), sums * scale)
    else:
        at = [data["feature"].values.tolist().index(name) for name in data["parameter"].values]
        data["bucket_gradient"] = (
            ("cell", "bucket", "parameter"), -data["bucket_sum"].values[..., at],
        )  # fmt: skip
    sums = spread("l", len(work.losses))
    sums = sums - part[..., None] * (sums.sum(axis=1) / part.sum(axis=1)[:, None])[:, None, :]
    absent = np.where(data["slot_model"].values == "", np.nan, 0.0)[:, None, :]
    data["bucket_loss"] = (("cell", "bucket", "slot"), sums * scale + absent)


def _count_units(log: Log, data: xr.Dataset) -> int:
    """How many units there are: counted, or from one bucket of many."""
    few = float(data["rows"].sum()) <= 1e7
    where = "" if few else " WHERE t_bucket = 0"
    text = f"SELECT COUNT(DISTINCT t_unit) AS n FROM {ROWS}{where}"
    found = int(log.engine.query(text, {"n": "whole"})["n"][0])
    return found if few else found * BUCKETS
