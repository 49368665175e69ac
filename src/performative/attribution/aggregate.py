"""From a log to its summary: a few queries of plain group-by, and the arithmetic around them.

First a survey of every cell (counts, what is not finite, means); then second moments, centred in SQL
on those means, because sums of squares of uncentred columns lose all digits at a mean of 1e6;
then, where there are units, sums by bucket. Rows are never fetched. It knows no estimator.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import xarray as xr

from performative import _checks
from performative.attribution.engines import ROWS
from performative.attribution.log import INTERCEPT, Log, _listed
from performative.attribution.summary import (
    BUCKETS,
    TAU_TERMS,
    attributes,
    fingerprint,
    with_models,
)

LEAST_ROWS = 30
"""Cells with fewer rows are left out."""

MOST_CELLS = 20_000
MOST_CROSS = 50
"""Most features whose covariances are computed; above it, variances only."""

FINITE = "1.7976931348623157e308"
Array = Any


class Cells:
    """The cells of a log, from its survey: who, how many rows, and the mean of every feature."""

    def __init__(self, found: Mapping[str, np.ndarray], features: int):
        order = np.lexsort((found["t_model"], found["t_arm"], found["t_round"]))
        self.key, self.arm, self.model, self.rows = (
            found[name][order] for name in ("t_round", "t_arm", "t_model", "n")
        )
        self.bad, self.mean, self.low, self.high = (
            np.stack([found[f"{what}_{j}"][order] for j in range(features)], axis=1)
            for what in ("bad", "mean", "low", "high")
        )
        self.more = {name: found[name][order] for name in found if name.startswith("t_x_")}

    def keep(self, mask: np.ndarray) -> None:
        for name in ("key", "arm", "model", "rows", "bad", "mean", "low", "high"):
            setattr(self, name, getattr(self, name)[mask])
        self.more = {name: values[mask] for name, values in self.more.items()}

    def __len__(self) -> int:
        return len(self.key)


def aggregate(
    log: Log,
    *,
    loss: str | None,
    l2: float,
    signed: bool,
    reference: Mapping[str, float] | None = None,
    fixed: bool = False,
    **declared: Any,
) -> xr.Dataset:
    """The dataset of a `Summary`. `fixed`: keep features that do not vary here."""
    cells = _survey(log)
    _check_rows(log, cells, loss, signed)
    _drop(log, cells, fixed)
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


# Survey


def _survey(log: Log) -> Cells:
    """Counts, means and what is not finite, of every cell."""
    listed, schema = [], {"t_round": "whole", "t_arm": "text", "t_model": "text", "n": "whole"}
    for j in range(len(log.features)):
        good = f"ABS(x{j}) <= {FINITE}"
        listed += [
            f"SUM(CASE WHEN {good} THEN 0 ELSE 1 END) AS bad_{j}",
            f"AVG(CASE WHEN {good} THEN x{j} END) AS mean_{j}",
            f"MIN(CASE WHEN {good} THEN x{j} END) AS low_{j}",
            f"MAX(CASE WHEN {good} THEN x{j} END) AS high_{j}",
        ]
        schema |= {f"{what}_{j}": "number" for what in ("bad", "mean", "low", "high")}
    for name, text in _extra_survey(log).items():
        listed.append(f"{text} AS t_x_{name}")
        schema[f"t_x_{name}"] = "number"
    found = log.engine.query(
        f"SELECT t_round, t_arm, t_model, COUNT(*) AS n, {', '.join(listed)} FROM {ROWS} "
        f"GROUP BY t_round, t_arm, t_model LIMIT {MOST_CELLS + 1}",
        schema,
    )
    if len(found["n"]) > MOST_CELLS:
        raise ValueError(
            f"the log must have at most {MOST_CELLS:,} different pairs of round and model; "
            f"{log.roles['round']!r} and {log.roles['model']!r} give more. Bin the rounds (every), "
            "or name the right columns (round, model)."
        )
    if not len(found["n"]):
        raise ValueError("the log must have rows; it has none.")
    for role in ("round", "arm", "model"):
        values = found[f"t_{role}"]
        missing = (
            values == np.iinfo(np.int64).min
            if role == "round"
            else np.array([value is None for value in values])
        )
        if missing.any():
            count = int(found["n"][missing].sum())
            wanted = "a whole number or a time" if role == "round" else "a name"
            raise ValueError(
                f"the {role} column {log.roles.get(role, log.roles['model'])!r} must have "
                f"{wanted} in every row; {count:,} rows have none. Drop them or fill them in."
            )
        if role != "round":
            found[f"t_{role}"] = values.astype(str)
    return Cells(found, len(log.features))


def _extra_survey(log: Log) -> dict[str, str]:
    """What else to count in each cell."""
    listed = {}
    if log.has("weight"):
        good = f"t_weight > 0 AND t_weight <= {FINITE}"
        listed["bad_weight"] = f"SUM(CASE WHEN {good} THEN 0 ELSE 1 END)"
    if log.has("unit"):
        listed["no_unit"] = "SUM(CASE WHEN t_unit IS NULL THEN 1 ELSE 0 END)"
    for role in ("outcome", "score"):
        if log.has(role):
            y = f"t_{role}"
            good = f"ABS({y}) <= {FINITE}"
            listed[f"{role}_mean"] = f"AVG(CASE WHEN {good} THEN {y} END)"
            listed[f"{role}_infinite"] = f"SUM(CASE WHEN ABS({y}) > {FINITE} THEN 1 ELSE 0 END)"
    if log.has("outcome"):
        for name, value in {"zero": "0", "minus": "-1"}.items():
            listed[name] = f"SUM(CASE WHEN t_outcome = {value} THEN 1 ELSE 0 END)"
        listed["strange"] = "SUM(CASE WHEN t_outcome NOT IN (0, 1, -1) THEN 1 ELSE 0 END)"
    return listed


def _check_rows(log: Log, cells: Cells, loss: str | None, signed: bool) -> None:
    """Refuse what is not a number, and cells that are two."""
    for j, name in enumerate(log.features):
        if cells.bad[:, j].any():
            count = int(cells.bad[:, j].sum())
            first = _label(log, cells.key[cells.bad[:, j] > 0].min())
            raise ValueError(
                f"the feature {name!r} must be a finite number in every row; {count:,} rows have "
                f"none (missing, NaN or infinite), first in round {first}. Drop those rows, fill "
                "them in, or leave the column out with features."
            )
    for name, sentence in {
        "bad_weight": "the weight column {0!r} must be a positive number in every row",
        "no_unit": "the unit column {0!r} must name a unit in every row",
        "outcome_infinite": "the outcome column {0!r} must be finite or missing",
        "score_infinite": "the score column {0!r} must be finite or missing",
    }.items():
        count = int(cells.more.get(f"t_x_{name}", np.zeros(1)).sum())
        if count:
            role = next(role for role in ("weight", "unit", "outcome", "score") if role in name)
            raise ValueError(f"{sentence.format(log.roles[role])}; {count:,} rows have none.")
    if log.has("outcome") and (loss == "logistic" or signed):
        _check_labels(log, cells)
    if "arm" in log.roles:
        pairs = list(zip(cells.key.tolist(), cells.arm.tolist(), strict=True))
        for key, arm in pairs:
            if pairs.count((key, arm)) > 1:
                both = cells.model[(cells.key == key) & (cells.arm == arm)]
                raise ValueError(
                    f"an arm must have one model a round; in round {_label(log, key)} the arm "
                    f"{arm!r} has {_listed(both)}. Split the arm, or make rounds shorter (every)."
                )
    if log.models is not None:
        unknown = sorted(set(cells.model.tolist()) - set(log.models.weights))
        if unknown:
            raise ValueError(
                f"models must have a row for every model of the log; {_listed(unknown)} "
                f"{'is' if len(unknown) == 1 else 'are'} missing (it has "
                f"{_listed(log.models.weights, 6)})."
                + _checks.did_you_mean(unknown[0], log.models.weights)
            )


def _check_labels(log: Log, cells: Cells) -> None:
    counts = {name: int(cells.more[f"t_x_{name}"].sum()) for name in ("strange", "zero", "minus")}
    if counts["strange"] or (counts["zero"] and counts["minus"]):
        what = (
            f"{counts['strange']:,} rows have another value"
            if counts["strange"]
            else "it has 0 and -1"
        )
        raise ValueError(
            f"the outcome column {log.roles['outcome']!r} must be 0 or 1, or -1 or 1, for the "
            f"logistic loss; {what}. Recode it, or declare the squared loss."
        )


def _drop(log: Log, cells: Cells, fixed: bool) -> None:
    """Leave out small cells and constant features, and say so."""
    small = cells.rows < LEAST_ROWS
    if small.any():
        if small.all():
            raise ValueError(
                f"the log must have cells (rows of one round and model) of at least {LEAST_ROWS} "
                f"rows; the largest has {cells.rows.max()}. Make rounds longer (every)."
            )
        first = np.flatnonzero(small)[0]
        log.warnings.append(
            f"{small.sum()} of {len(cells)} cells have fewer than {LEAST_ROWS} rows and were left "
            f"out ({cells.rows[small].sum():,} rows; the first: round "
            f"{_label(log, cells.key[first])}, model {cells.model[first]})."
        )
        cells.keep(~small)
    constant = (cells.low.min(axis=0) == cells.high.max(axis=0)) & (not fixed)
    if constant.all():
        raise ValueError(
            f"the log must have a feature that varies; all are constant ({_listed(log.features)})."
        )
    if constant.any():
        names = [name for name, gone in zip(log.features, constant, strict=True) if gone]
        log.warnings.append(
            f"{_listed(names)} {'is' if len(names) == 1 else 'are'} constant and "
            f"{'was' if len(names) == 1 else 'were'} left out."
        )
        log.features = [name for name in log.features if name not in names]
        log.sources = [s for s, gone in zip(log.sources, constant, strict=True) if not gone]
        for name in ("bad", "mean", "low", "high"):
            setattr(cells, name, getattr(cells, name)[:, ~constant])
        for row in log.models.weights.values() if log.models else ():
            for name in names:
                row.pop(name, None)


def _label(log: Log, key: Any) -> str:
    return str(key) if log.every is None else log.every.label(int(key))


# Queries


def _number(value: float) -> str:
    return f"({float(value):.17e})"  # an exponent makes it a double everywhere


def _text(value: str) -> str:
    return "'" + value.replace("'", "''") + "'"


def _joined(data: xr.Dataset, constants: Mapping[str, np.ndarray]) -> str:
    """The rows of the cells of `data`, with `cell`, and constants of each cell as columns."""
    names = list(constants)
    table = np.stack(list(constants.values()), axis=1) if names else np.empty((len(data.cell), 0))
    lines = []
    keys, arms = data["round_key"].values, data["arm"].values
    for cell, (key, arm, row) in enumerate(zip(keys, arms, table, strict=True)):
        first = (lambda text: f"CAST({text} AS DOUBLE)") if cell == 0 else str
        values = [str(int(key)), _text(str(arm)), str(cell), *(first(_number(v)) for v in row)]
        lines.append(f"({', '.join(values)})")
    columns = ", ".join(["k_round", "k_arm", "k_cell", *names])
    return (
        f"{ROWS} AS r JOIN (VALUES {', '.join(lines)}) AS k({columns}) "
        "ON r.t_round = k.k_round AND r.t_arm = k.k_arm"
    )


def _nested(source: str, *layers: Mapping[str, str]) -> str:
    """SELECTs within each other: every layer may use the names of the one before."""
    text = source
    for depth, layer in enumerate(layers):
        new = ", ".join(f"{expression} AS {name}" for name, expression in layer.items())
        text = f"(SELECT *{', ' + new if new else ''} FROM {text}) AS q{depth}"
    return text


def _weighted(log: Log, power: int = 1) -> str:
    return "t_weight * " * power if log.has("weight") else ""


class Moments:
    """Weighted moments of some columns within every cell; NaN where a cell has no row."""

    def __init__(
        self,
        log: Log,
        source: str,
        cells: int,
        names: Sequence[str],
        cross: Sequence[tuple[str, str]],
        means: Sequence[str] = (),
        where: str = "",
    ):
        one, two = _weighted(log), _weighted(log, 2)
        heavy = log.has("weight")
        listed = {"n": "COUNT(*)"}
        listed |= {f"s_{j}": f"SUM({one}{name})" for j, name in enumerate((*names, *means))}
        place = {name: j for j, name in enumerate(names)}
        pairs = [(place[a], place[b]) for a, b in cross]
        for (a, b), (i, j) in zip(cross, pairs, strict=True):
            listed[f"p_{i}_{j}"] = f"SUM({two}{a} * {b})"
        if heavy:
            listed |= {"w1": f"SUM({one}1)", "w2": f"SUM({two}1)"}
            listed |= {f"q_{j}": f"SUM({two}{name})" for j, name in enumerate(names)}
        text = ", ".join(f"{expression} AS {name}" for name, expression in listed.items())
        condition = f" WHERE {where}" if where else ""
        found = log.engine.query(
            f"SELECT k_cell, {text} FROM {source}{condition} GROUP BY k_cell",
            {"k_cell": "whole", **dict.fromkeys(listed, "number")},
        )
        at = found["k_cell"]

        def spread(name: str) -> np.ndarray:
            values = np.full(cells, np.nan)
            values[at] = found[name]
            return values

        self.rows = np.nan_to_num(spread("n"))
        self.weight = spread("w1") if heavy else np.where(self.rows > 0, self.rows, np.nan)
        squares = spread("w2") if heavy else self.weight
        self.count = self.weight**2 / squares
        every = np.stack([spread(f"s_{j}") for j in range(len(names) + len(means))], axis=1)
        every = every / self.weight[:, None]
        self.mean, self.means = every[:, : len(names)], every[:, len(names) :]
        self.pairs = pairs
        first = np.stack([spread(f"q_{j}") for j in range(len(names))], axis=1) if heavy else None
        first = self.mean * self.weight[:, None] if first is None else first
        scale = self.count**2 / (self.count - 1.0) / self.weight**2
        scatter = [
            spread(f"p_{i}_{j}")
            - self.mean[:, i] * first[:, j]
            - first[:, i] * self.mean[:, j]
            + squares * self.mean[:, i] * self.mean[:, j]
            for i, j in pairs
        ]
        self.scatter = [part * scale for part in scatter]

    def covariance(self, start: int = 0, stop: int | None = None) -> np.ndarray:
        """(cell, name, name) of the names from `start` to `stop`."""
        size = (self.mean.shape[1] if stop is None else stop) - start
        full = np.full((len(self.rows), size, size), np.nan)
        for (i, j), values in zip(self.pairs, self.scatter, strict=True):
            if start <= i < start + size and start <= j < start + size:
                full[:, i - start, j - start] = full[:, j - start, i - start] = values
        return full


def _triangle(names: Sequence[str]) -> list[tuple[str, str]]:
    return [(a, b) for k, a in enumerate(names) for b in names[k:]]


# Blocks of the summary


def _feature_moments(
    log: Log,
    cells: Cells,
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
            "round_label": ("cell", np.array([_label(log, key) for key in cells.key], dtype=str)),
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
    source = _nested(_joined(data, {f"c{j}": cells.mean[:, j] for j in range(size)}), centred)
    names = list(centred)
    crossed = size <= MOST_CROSS
    cross = _triangle(names) if crossed else [(name, name) for name in names]
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


def _parameters(log: Log, data: xr.Dataset) -> list[str]:
    """The expression of each parameter's feature: a column, or 1 for the intercept."""
    columns = {name: source.name for name, source in zip(log.features, log.sources, strict=True)}
    return [columns.get(str(name), "1e0") for name in data["parameter"].values]


def _contrast_variance(log: Log, data: xr.Dataset) -> np.ndarray:
    """Var of (θ_deployed − θ̄_t)ᵀx within each cell."""
    theta = data["theta"].sel(model=data["deployed"].values).values
    rounds, n = data["round"].values, data["count"].values[:, None]
    for t in np.unique(rounds):
        here = rounds == t
        theta[here] -= (n[here] * theta[here]).sum(axis=0) / n[here].sum()
    names = _parameters(log, data)
    means = dict(zip((s.name for s in log.sources), data["mean"].values.T, strict=True))
    constants = {f"d{j}": theta[:, j] for j in range(len(names))}
    constants |= {
        f"c{j}": means[x] if x in means else np.ones(len(theta)) for j, x in enumerate(names)
    }
    score = " + ".join(f"d{j} * ({x} - c{j})" for j, x in enumerate(names))
    source = _nested(_joined(data, constants), {"z0": score})
    return Moments(log, source, len(theta), ["z0"], [("z0", "z0")]).scatter[0]


def _label_expression(data: xr.Dataset) -> str:
    """The outcome; as 0 and 1 for the logistic loss."""
    if data.attrs["loss"] != "logistic":
        return "t_outcome"
    return "CASE WHEN t_outcome > 0 THEN 1e0 WHEN t_outcome <= 0 THEN 0e0 END"


def _plain_moments(log: Log, data: xr.Dataset, cells: Cells, role: str) -> None:
    """Mean and variance of the outcome or the score, which may be missing in some rows."""
    centre = np.nan_to_num(cells.more[f"t_x_{role}_mean"])
    value = _label_expression(data) if role == "outcome" else f"t_{role}"
    source = _nested(_joined(data, {"c0": centre}), {"z0": f"({value}) - c0"})
    where = f"t_{role} IS NOT NULL"
    found = Moments(log, source, len(cells), ["z0"], [("z0", "z0")], where=where)
    data[f"{role}_count"] = ("cell", found.rows)
    data[f"{role}_mean"] = ("cell", centre + found.mean[:, 0])
    data[f"{role}_variance"] = ("cell", found.scatter[0])


class Layers:
    """Columns to compute for every row, layer upon layer, with the constants of its cell."""

    def __init__(self, log: Log, data: xr.Dataset):
        self.log, self.data = log, data
        self.constants: dict[str, np.ndarray] = {}
        self.layers: list[dict[str, str]] = []
        self.gradient: list[str] = []
        self.hessian: list[str] = []
        self.losses: list[str] = []
        self.tau: list[str] = []
        self.slots = 0

    @property
    def source(self) -> str:
        return _nested(_joined(self.data, self.constants), *self.layers)

    @property
    def columns(self) -> list[str]:
        return _parameters(self.log, self.data)

    def add_slots(self) -> None:
        """u0, u1, …: what every model of the round says of the row."""
        if self.slots:
            return
        data = self.data
        rounds, models = data["round"].values, data["deployed"].values
        self.slots = int(np.bincount(rounds).max())
        names = np.full((len(rounds), self.slots), "", dtype=models.dtype)
        for t in np.unique(rounds):
            here = rounds == t
            names[here, : here.sum()] = models[here]
        known = dict(zip(data["model"].values.tolist(), data["theta"].values, strict=True))
        blank = np.zeros(data.sizes["parameter"])
        weights = np.array([[known.get(str(name), blank) for name in row] for row in names])
        data["slot_model"] = (("cell", "slot"), names)
        columns = self.columns
        for k in range(self.slots):
            for i in range(len(columns)):
                self.constants[f"v{k}_{i}"] = weights[:, k, i]
        self.layers.append(
            {
                f"u{k}": " + ".join(f"v{k}_{i} * {x}" for i, x in enumerate(columns))
                for k in range(self.slots)
            }
        )

    def add_loss(self, reference: Mapping[str, float] | None) -> None:
        """g0, g1, …: the gradient at θ_ref; l0, l1, …: the losses of the round's models."""
        data = self.data
        attrs = data.attrs
        names = data["parameter"].values.tolist()
        if reference is None:
            deployed = sorted(set(data["deployed"].values.tolist()))
            centre = data["theta"].sel(model=deployed).values.mean(axis=0)
        else:
            centre = np.array([reference[name] for name in names])
        data["reference"] = ("parameter", centre)
        columns = self.columns
        score = " + ".join(f"{_number(w)} * {x}" for w, x in zip(centre, columns, strict=True))
        slots = range(self.slots)
        self.losses = [f"l{k}" for k in slots]
        if attrs["loss"] == "squared" and not attrs["labelled"]:
            self.layers.append(
                {
                    f"l{k}": "0.5e0 * ("
                    + " + ".join(
                        f"({x} - v{k}_{i}) * ({x} - v{k}_{i})" for i, x in enumerate(columns)
                    )
                    + ")"
                    for k in slots
                }
            )
            return
        if attrs["loss"] == "squared":
            self.layers.append(
                {"pull": f"({score}) - t_outcome", "bend": "1e0"}
                | {f"l{k}": f"0.5e0 * (t_outcome - u{k}) * (t_outcome - u{k})" for k in slots}
            )
        else:
            sign = (
                "(CASE WHEN t_outcome > 0 THEN 1e0 WHEN t_outcome <= 0 THEN -1e0 END)"
                if attrs["labelled"]
                else "1e0"
            )
            self.layers.append({"side": sign, "margin": f"{sign} * ({score})"})
            self.layers.append(
                # Not GREATEST(-side u, 0), which is a number where the outcome is missing.
                {"miss": _sigmoid("-margin")}
                | {
                    f"l{k}": f"0.5e0 * (ABS(u{k}) - side * u{k}) + LN(1e0 + {_exp(f'-ABS(u{k})')})"
                    for k in slots
                }
            )
            self.layers.append({"pull": "-side * miss", "bend": "miss * (1e0 - miss)"})
        self.gradient = [f"g{i}" for i in range(len(columns))]
        self.layers.append({f"g{i}": f"pull * {x}" for i, x in enumerate(columns)})
        self.hessian = [f"bend * {a} * {b}" for a, b in _triangle(columns)]

    def add_tau(self) -> None:
        """Products of r = f_deployed − f̄ and e = y − ŷ(x), where two models or more met."""
        data, log = self.data, self.log
        rounds = data["round"].values
        shared = np.bincount(rounds)[rounds] > 1
        if not shared.any() or data.sizes["feature"] > MOST_CROSS:
            return
        self.add_slots()
        names = [source.name for source in log.sources]
        slopes, starts = _least_squares(log, data)
        for j in range(len(names)):
            self.constants[f"b{j}"] = slopes[:, j]
        self.constants["start"] = starts
        share, own = np.zeros((2, len(rounds), self.slots))
        for t in np.unique(rounds):
            here = np.flatnonzero(rounds == t)
            weight = data["weight"].values[here]
            share[here, : len(here)] = weight / weight.sum()
            own[here, np.arange(len(here))] = 1.0
        for k in range(self.slots):
            self.constants[f"o{k}"] = own[:, k] - share[:, k]
        logistic = data.attrs["loss"] == "logistic"
        said = [_sigmoid(f"u{k}") if logistic else f"u{k}" for k in range(self.slots)]
        fitted = " + ".join(f"b{j} * {x}" for j, x in enumerate(names))
        self.layers.append(
            {
                "r": " + ".join(f"o{k} * {f}" for k, f in enumerate(said)),
                "e": f"({_label_expression(data)}) - (start + {fitted})",
            }
        )
        # A row whose outcome is missing has no e; its r must not count either.
        self.tau = [
            "r * r + 0 * e",
            "r * e",
            "r * r * e * e",
            "r * r * r * e",
            "r * r * r * r + 0 * e",
        ]


def _exp(text: str) -> str:
    """e to the power, kept from what some engines call an overflow or an underflow."""
    return f"EXP(GREATEST(LEAST({text}, 700e0), -700e0))"


def _sigmoid(text: str) -> str:
    return f"(1e0 / (1e0 + {_exp(f'-({text})')}))"


def _least_squares(log: Log, data: xr.Dataset) -> tuple[np.ndarray, np.ndarray]:
    """ŷ of every round: slopes and intercept, of the outcome on all features, over all arms."""
    names = [source.name for source in log.sources]
    constants = {f"c{j}": data["mean"].values[:, j] for j in range(len(names))}
    constants["cy"] = np.nan_to_num(data["outcome_mean"].values)
    layer = {f"z{j}": f"{x} - c{j}" for j, x in enumerate(names)}
    layer["zy"] = f"({_label_expression(data)}) - cy"
    listed = list(layer)
    found = Moments(
        log,
        _nested(_joined(data, constants), layer),
        len(data.cell),
        listed,
        _triangle(listed),
        where="t_outcome IS NOT NULL",
    )
    centre = np.stack(list(constants.values()), axis=1) + np.nan_to_num(found.mean)
    weight = np.nan_to_num(found.weight)
    inner = np.nan_to_num(found.covariance() * ((found.count - 1) / found.count)[:, None, None])
    rounds, size = data["round"].values, len(names)
    slopes, starts = np.zeros((len(rounds), size)), np.zeros(len(rounds))
    for t in np.unique(rounds):
        here = rounds == t
        total = max(weight[here].sum(), 1.0)
        mean = weight[here] @ centre[here] / total
        apart = centre[here] - mean
        full = np.einsum("c,cij->ij", weight[here], inner[here])
        full += np.einsum("c,ci,cj->ij", weight[here], apart, apart)
        scale = np.sqrt(np.diag(full)[:size])
        scale[scale == 0] = 1.0
        scaled = full[:size, :size] / np.outer(scale, scale)
        slope = np.linalg.lstsq(scaled, full[:size, size] / scale, rcond=1e-10)[0] / scale
        slopes[here], starts[here] = slope, mean[size] - slope @ mean[:size]
    return slopes, starts


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
        _triangle(work.gradient) + _triangle(work.losses),
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
    one, two = _weighted(log), _weighted(log, 2)
    units = log.has("unit")
    constants = dict(work.constants)
    if units:
        constants |= {f"c{j}": data["mean"].values[:, j] for j in range(len(log.sources))}
    source = _nested(_joined(data, constants), *work.layers)
    listed = {"n": f"SUM({one}1)"}
    if units:
        listed |= {f"x_{j}": f"SUM({one}({x.name} - c{j}))" for j, x in enumerate(log.sources)}
        listed |= {f"g_{j}": f"SUM({one}{g})" for j, g in enumerate(work.gradient)}
        listed |= {f"l_{j}": f"SUM({one}{loss})" for j, loss in enumerate(work.losses)}
        if log.has("outcome"):
            listed["y"] = f"SUM({one}({_label_expression(data)}))"
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
