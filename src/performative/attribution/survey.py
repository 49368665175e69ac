"""The survey of a log: which cells it has, and whether its rows can be used at all.

One group-by counts the rows of every cell, what is not finite in them, and means. Refuses what makes
no sense, in a sentence; leaves out small cells and constant features, and says so.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

import numpy as np

from performative import _checks
from performative.attribution.engines import ROWS
from performative.attribution.log import INTERCEPT, LEAST_ROWS, Log, listed

MOST_CELLS = 20_000
FINITE = "1.7976931348623157e308"


class Survey:
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


def survey(log: Log) -> Survey:
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
                f"{wanted} in every row; {_rows(count)} without. Drop or mend them."
            )
        if role != "round":
            found[f"t_{role}"] = values.astype(str)
    return Survey(found, len(log.features))


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


def check_rows(log: Log, cells: Survey, loss: str | None, signed: bool) -> None:
    """Refuse what is not a number, and cells that are two."""
    if cells.bad.any():
        _refuse_gaps(log, cells)
    for name, sentence in {
        "bad_weight": "must be a positive number in every row",
        "no_unit": "must name a unit in every row",
        "outcome_infinite": "must be finite or missing in every row",
        "score_infinite": "must be finite or missing in every row",
    }.items():
        count = int(cells.more.get(f"t_x_{name}", np.zeros(1)).sum())
        if count:
            role = next(role for role in ("weight", "unit", "outcome", "score") if role in name)
            raise ValueError(
                f"the {role} column {log.roles[role]!r} {sentence}; {_rows(count)} not so. Drop "
                f"{'it' if count == 1 else 'them'}, or mend the column."
            )
    if log.has("outcome") and (loss == "logistic" or signed):
        _check_labels(log, cells)
    if "arm" in log.roles:
        pairs = Counter(zip(cells.key.tolist(), cells.arm.tolist(), strict=True))
        for (key, arm), count in pairs.items():
            if count > 1:
                both = cells.model[(cells.key == key) & (cells.arm == arm)]
                raise ValueError(
                    f"an arm must have one model a round; in round {label(log, key)} the arm "
                    f"{arm!r} has {listed(both)}. Split the arm, or make rounds shorter (every)."
                )
    if log.models is not None:
        unknown = sorted(set(cells.model.tolist()) - set(log.models.weights))
        if unknown:
            raise ValueError(
                f"models must have a row for every model of the log; {listed(unknown)} "
                f"{'is' if len(unknown) == 1 else 'are'} missing (it has "
                f"{listed(log.models.weights, 6)})."
                + _checks.did_you_mean(unknown[0], log.models.weights)
            )


def _refuse_gaps(log: Log, cells: Survey) -> None:
    """Say of every feature with gaps how many, and where they begin."""
    gaps = [
        f"{name!r} in {int(bad.sum()):,} (first in round {label(log, cells.key[bad > 0].min())})"
        for name, bad in zip(log.features, cells.bad.T, strict=True)
        if bad.any()
    ]
    raise ValueError(
        "features must be finite numbers in every row; they are missing, NaN or infinite in some "
        f"rows: {listed(gaps, 6)}. Drop those rows, fill them in, or leave columns out with features."
    )


def _rows(count: int) -> str:
    return "1 row is" if count == 1 else f"{count:,} rows are"


def _check_labels(log: Log, cells: Survey) -> None:
    counts = {name: int(cells.more[f"t_x_{name}"].sum()) for name in ("strange", "zero", "minus")}
    if counts["strange"] or (counts["zero"] and counts["minus"]):
        what = (
            f"{_rows(counts['strange'])} something else" if counts["strange"] else "it has 0 and -1"
        )
        raise ValueError(
            f"the outcome column {log.roles['outcome']!r} must be 0 or 1, or -1 or 1, for the "
            f"logistic loss; {what}. Recode it, or declare the squared loss."
        )


def leave_out(log: Log, cells: Survey, constants: Mapping[str, float] | None) -> dict[str, float]:
    """Leave out small cells and constant features, and say so; the constants.

    `constants`: those of an earlier summary, which are then left out whatever varies here.
    """
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
            f"{label(log, cells.key[first])}, model {cells.model[first]})."
        )
        cells.keep(~small)
    low, high = cells.low.min(axis=0), cells.high.max(axis=0)
    found = {n: float(v) for n, v, top in zip(log.features, low, high, strict=True) if v == top}
    if constants is not None:
        for name, value in constants.items():
            if found.get(name) != value:
                raise ValueError(
                    f"{name!r} must be {value:g} in every row, as in the earlier summary; here it is "
                    "not. Summarize the whole log anew, or leave the column out with features."
                )
        found = dict(constants)
    if len(found) == len(log.features):
        raise ValueError(
            f"the log must have a feature that varies; all are constant ({listed(log.features)})."
        )
    if found:
        _without(log, cells, found)
    return found


def _without(log: Log, cells: Survey, constants: Mapping[str, float]) -> None:
    """Take constant features out; where models predict an outcome, they are part of the intercept."""
    names = list(constants)
    one = len(names) == 1
    text = (
        f"{listed(names)} {'is' if one else 'are'} constant and {'was' if one else 'were'} left out"
    )
    kept = np.array([name not in constants for name in log.features])
    log.features = [name for name in log.features if name not in constants]
    log.sources = [source for source, stays in zip(log.sources, kept, strict=True) if stays]
    for name in ("bad", "mean", "low", "high"):
        setattr(cells, name, getattr(cells, name)[:, kept])
    shifts = []
    for row in log.models.weights.values() if log.models else ():
        weights = [(row.pop(name), value) for name, value in constants.items() if name in row]
        shifts.append(sum(weight * value for weight, value in weights))
    signed = any(source.kind == "signed" for source in log.sources)
    if log.models and any(shifts) and log.has("outcome") and not signed:
        for row, shift in zip(log.models.weights.values(), shifts, strict=True):
            row[INTERCEPT] = row.get(INTERCEPT, 0.0) + shift
        text += f"; {'its' if one else 'their'} weights count as the intercept, without a penalty"
    log.warnings.append(f"{text}.")


def label(log: Log, key: Any) -> str:
    return str(key) if log.every is None else log.every.label(int(key))
