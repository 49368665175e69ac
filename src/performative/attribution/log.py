"""A deployment log: which columns mean what, which features it has, and what is wrong with it.

Reads column names, types and levels of categories, and the table of models; refuses, in a sentence,
what cannot be used. It computes no statistic: `aggregate` does, on the columns settled here.
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from performative import _checks
from performative.attribution.engines import ROWS, Column, Engine, engine
from performative.attribution.summary import BUCKETS, Summary

LEVELS = 30
"""Most different values of a text column that counts as a category."""

LEAST_ROWS = 30
"""Cells of fewer rows are left out, and so are levels of a category: reports are of groups."""

INTERCEPT = "intercept"
MODEL_COLUMNS = ("trained_through", "role", "perturbation_of")
ROLES = ("round", "model", "arm", "unit", "outcome", "score", "weight")
EPOCH = datetime.datetime(1970, 1, 1)


class Period(NamedTuple):
    """A bin of time: so many seconds from the epoch plus `offset`, or so many months."""

    text: str
    seconds: int = 0
    months: int = 0
    offset: int = 0

    def label(self, index: int) -> str:
        """When the bin begins."""
        if self.months:
            year, month = divmod(index * self.months, 12)
            return f"{year:04d}-{month + 1:02d}"
        start = EPOCH + datetime.timedelta(seconds=index * self.seconds + self.offset)
        return start.date().isoformat() if self.seconds % 86400 == 0 else start.isoformat(" ")


SECONDS = {"min": 60, "h": 3600, "d": 86400, "w": 604800}
MONTHS = {"mo": 1, "q": 3, "y": 12}
MONDAY = 4 * 86400
"""Seconds from the epoch, a Thursday, to the first Monday: weeks begin there."""


def period(every: str) -> Period:
    """The bin that a text such as 1w means.

    >>> period("1w").label(2831)
    '2024-04-08'
    >>> period("2q").label(4048)
    '2024-01'
    """
    found = re.fullmatch(r"([1-9]\d*)\s*(min|h|d|w|mo|q|y)", str(every).strip().lower())
    if not found:
        raise ValueError(
            "every must be a number and one of min, h, d, w, mo, q, y, such as '1w'; "
            f"got {_checks.shown(every)}."
        )
    count, unit = int(found[1]), found[2]
    if unit in MONTHS:
        return Period(found[0], months=count * MONTHS[unit])
    return Period(found[0], seconds=count * SECONDS[unit], offset=MONDAY if unit == "w" else 0)


@dataclass
class Log:
    """A log whose columns are settled; `performative_rows` of its engine has them.

    `statistics` are the names of features, in order; feature j is column x{j}. The other columns
    are t_round, t_model, t_arm and, where the log has them, t_bucket, t_unit, t_outcome, t_score
    and t_weight.
    """

    engine: Engine
    roles: dict[str, str]
    features: list[str]
    sources: list[Column]
    every: Period | None
    levels: dict[str, list[str]]
    models: Models | None
    warnings: list[str] = field(default_factory=list)

    def has(self, role: str) -> bool:
        return role in self.roles


@dataclass
class Models:
    """The table of models: weights by name, and what else it says of each."""

    weights: dict[str, dict[str, float]]
    columns: dict[str, dict[str, str]]

    @property
    def parameters(self) -> list[str]:
        return list(next(iter(self.weights.values())))


def read(
    log: Any,
    *,
    models: Any = None,
    every: str | None = None,
    features: Iterable[str] | None = None,
    signed: bool = False,
    levels: Mapping[str, Sequence[str]] | None = None,
    **named: str | None,
) -> Log:
    """Settle which columns of `log` mean what. `named`: a column for each of `ROLES`."""
    source = engine("log", log)
    roles = _roles(source.columns, named)
    if source.columns[roles["round"]] == "text":
        _refuse_empty(source, roles["round"])
    bins = _round_kind(source.columns[roles["round"]], roles["round"], every)
    for role in ("outcome", "score", "weight"):
        _numeric(role, roles, source.columns)
    if signed and "outcome" in roles and source.columns[roles["outcome"]] == "flag":
        raise ValueError("outcome must be -1 or 1 (or 0 and 1) with signed; got true and false.")
    wanted = None if features is None else _named_list("features", features)
    warnings: list[str] = []
    weighed = () if models is None else engine("models", models).columns
    chosen, known = _features(source, roles, wanted, levels, weighed, warnings)
    sign = roles.get("outcome") if signed else None
    columns = [_column(j, name, known, sign) for j, name in enumerate(chosen)]
    source.show([*_role_columns(roles, bins), *columns])
    table = None if models is None else read_models(models, chosen, source.columns, known)
    return Log(source, roles, chosen, columns, bins, known, table, warnings)


def _roles(columns: Mapping[str, str], named: Mapping[str, str | None]) -> dict[str, str]:
    """The column of every role that the log has."""
    roles = {}
    for role in ROLES:
        name = named.get(role)
        if name is None and role in columns:
            name = role
        if name is None and role not in ("round", "model"):
            continue
        if name not in columns:
            wanted = name or role
            raise ValueError(
                f"the log must have a column {wanted!r}"
                + {
                    "round": " (a whole number or a timestamp: when the row was served)",
                    "model": " (the id of the model that the row was exposed to)",
                }.get(role, f" (named as its {role})")
                + f"; it has {listed(columns)}."
                + _checks.did_you_mean(wanted, columns)
                + ("" if name else f" Where it has another name, say so: {role}='…'.")
            )
        roles[role] = name
    twice = [name for name in roles.values() if list(roles.values()).count(name) > 1]
    if twice:
        pair = " and ".join(role for role, name in roles.items() if name == twice[0])
        raise ValueError(f"{pair} must be different columns; got {twice[0]!r} for both.")
    return roles


def _round_kind(kind: str, name: str, every: str | None) -> Period | None:
    bins = None if every is None else period(every)
    if kind == "time":
        if bins is None:
            raise ValueError(
                f"every must be given, such as '1w', because the round column {name!r} holds "
                "timestamps; got none."
            )
        return bins
    if kind in ("whole", "number"):
        if bins is not None:
            raise ValueError(
                f"every must go with a round column of timestamps; got every={every!r}, and "
                f"{name!r} holds numbers: each number is a round already."
            )
        return None
    raise ValueError(
        f"the round column {name!r} must hold whole numbers or timestamps (2024-03-01, say); it holds "
        f"{'texts' if kind == 'text' else 'something else'}. Cast it before handing over the log."
    )


def _refuse_empty(source: Engine, name: str) -> None:
    """A CSV file of a header alone has columns of texts; what it lacks is rows."""
    source.show([Column("t_round", "text", name)])
    first = f"SELECT * FROM {ROWS} LIMIT 1"
    if not source.query(f"SELECT COUNT(*) AS n FROM ({first}) AS first", {"n": "whole"})["n"][0]:
        raise ValueError("the log must have rows; it has none.")


def _numeric(role: str, roles: Mapping[str, str], columns: Mapping[str, str]) -> None:
    if role in roles and columns[roles[role]] not in ("whole", "number", "flag"):
        raise ValueError(
            f"the {role} column {roles[role]!r} must hold numbers; it holds "
            f"{columns[roles[role]]} values. Cast it, or name another as {role}='…'."
        )


def _features(
    source: Engine,
    roles: Mapping[str, str],
    wanted: list[str] | None,
    levels: Mapping[str, Sequence[str]] | None,
    weighed: Iterable[str],
    warnings: list[str],
) -> tuple[list[str], dict[str, list[str]]]:
    """Names of the features, categories spelled out as `column=level`, and the levels of each."""
    free = {name: kind for name, kind in source.columns.items() if name not in roles.values()}
    known = {name: list(values) for name, values in (levels or {}).items()}
    for name in wanted or []:
        _known_feature(name, free, source.columns, known)
    chosen: list[str] = []
    for name in wanted if wanted is not None else free:
        kind = free.get(name)
        if kind in ("whole", "number", "flag") or name not in free:
            chosen.append(name)
        elif kind == "text":
            chosen += _spelled(source, name, known, weighed, warnings, wanted is not None)
        elif wanted is not None:
            raise ValueError(
                f"features must be columns of numbers or of texts; {name!r} holds "
                f"{kind} values. Turn it into a number in your query."
            )
    if not chosen:
        raise ValueError(
            "the log must have a column of numbers beside its round, model, arm, unit, outcome, "
            f"score and weight, to see whether it moves; it has {listed(source.columns)}."
        )
    return chosen, known


def _known_feature(
    name: str, free: Mapping[str, str], columns: Mapping[str, str], levels: Mapping[str, Any]
) -> None:
    if name in free or any(name.startswith(f"{column}=") for column in levels):
        return
    if name in columns:
        raise ValueError(
            f"features must be other columns than round, model, arm, unit, outcome, score and "
            f"weight; got {name!r}, which is one of them."
        )
    raise ValueError(
        f"features must be columns of the log; got {name!r}, and it has {listed(columns)}."
        + _checks.did_you_mean(name, free)
    )


def _spelled(
    source: Engine,
    name: str,
    known: dict[str, list[str]],
    weighed: Iterable[str],
    warnings: list[str],
    asked: bool,
) -> list[str]:
    """The levels of a category, all but the most frequent.

    A level of a few rows says something about them, and its name is in every report: unless a model
    weighs it, it counts as the most frequent one.
    """
    if name not in known:
        source.show([Column("level", "text", name)])
        found = source.query(
            f"SELECT level, COUNT(*) AS n FROM {ROWS} GROUP BY level "
            f"ORDER BY n DESC, level LIMIT {LEVELS + 2}",
            {"level": "text", "n": "whole"},
        )
        values = [str(level) for level in found["level"] if level is not None]
        if len(values) < len(found["level"]) and len(found["level"]) <= LEVELS + 1:
            missing = int(found["n"][[level is None for level in found["level"]]][0])
            raise ValueError(
                f"the feature {name!r} must have no missing values; it has {missing:,}. Name them "
                "(a level of its own, such as 'unknown'), drop those rows, or leave the column out."
            )
        if len(values) > LEVELS:
            told = f"{name!r} has more than {LEVELS} different texts"
            if asked:
                raise ValueError(
                    f"a category must have at most {LEVELS} levels; {told}. Group them, or leave "
                    "the column out."
                )
            warnings.append(f"{told} and was left out.")
            return []
        rare = [
            level
            for level, n in zip(values[1:], found["n"][1:], strict=True)
            if n < LEAST_ROWS and f"{name}={level}" not in weighed
        ]
        known[name] = [values[0], *sorted(set(values[1:]) - set(rare))]
        if rare:
            warnings.append(
                f"{len(rare)} of {len(values)} values of {name!r} occur in fewer than {LEAST_ROWS} "
                "rows and count as the most frequent one."
            )
        elif len(values) == 1:
            warnings.append(f"{name!r} has one value only and was left out.")
    return [f"{name}={level}" for level in known[name][1:]]


def _column(j: int, name: str, levels: Mapping[str, Sequence[str]], sign: str | None) -> Column:
    for column in levels:
        if name.startswith(f"{column}="):
            return Column(f"x{j}", "level", column, name[len(column) + 1 :])
    if sign is not None:
        return Column(f"x{j}", "signed", name, sign)
    return Column(f"x{j}", "value", name)


def _role_columns(roles: Mapping[str, str], bins: Period | None) -> list[Column]:
    columns = [
        Column("t_round", "period" if bins else "whole", roles["round"], bins),
        Column("t_model", "text", roles["model"]),
        Column("t_arm", "text", roles.get("arm", roles["model"])),
    ]
    if "unit" in roles:
        columns += [Column("t_bucket", "bucket", roles["unit"], BUCKETS)]
        columns += [Column("t_unit", "text", roles["unit"])]
    columns += [
        Column(f"t_{role}", "value" if role == "weight" else "optional", roles[role])
        for role in ("outcome", "score", "weight")
        if role in roles
    ]
    return columns


# Models


def read_models(
    models: Any,
    features: Sequence[str],
    columns: Mapping[str, str],
    levels: Mapping[str, Sequence[str]],
) -> Models:
    """Weights of every model: a column for each feature, and perhaps an intercept."""
    source = engine("models", models)
    if "model" not in source.columns:
        raise ValueError(
            "models must have a column 'model' (the id that the log uses); it has "
            f"{listed(source.columns)}." + _checks.did_you_mean("model", source.columns)
        )
    weights = [name for name in source.columns if name not in ("model", *MODEL_COLUMNS)]
    for name in weights:
        _known_weight(name, features, columns, levels)
    order = [name for name in features if name in weights]
    order += [INTERCEPT] * (INTERCEPT in weights)
    if not any(name in features for name in weights):
        raise ValueError(
            "models must have a column of weights for at least one feature "
            f"({listed(features)}); it has {listed(source.columns)}."
        )
    extras = [name for name in MODEL_COLUMNS if name in source.columns]
    texts = ["model", *extras]
    for name in order:
        if source.columns[name] not in ("whole", "number", "flag"):
            raise ValueError(
                f"models must hold numbers in column {name!r}; it holds {source.columns[name]} values. "
                f"Weights are numbers; besides them only {', '.join(MODEL_COLUMNS)} are known."
            )
    source.show(
        [Column(f"m{k}", "text", name) for k, name in enumerate(texts)]
        + [Column(f"w{k}", "value", name) for k, name in enumerate(order)]
    )
    schema = {f"m{k}": "text" for k in range(len(texts))}
    schema |= {f"w{k}": "number" for k in range(len(order))}
    found = source.query(f"SELECT * FROM {ROWS}", schema)
    ids = [None if key is None else str(key) for key in found["m0"]]
    if None in ids:
        raise ValueError("models must have an id in column 'model' of every row; one is missing.")
    for key in ids:
        if ids.count(key) > 1:
            raise ValueError(
                f"models must have one row for each model; {key!r} has {ids.count(key)}. Keep one, "
                "and give a changed model an id of its own."
            )
    table: dict[str, dict[str, float]] = {}
    for row, key in enumerate(ids):
        table[str(key)] = {name: float(found[f"w{k}"][row]) for k, name in enumerate(order)}
        for name, value in table[str(key)].items():
            if not np.isfinite(value):
                raise ValueError(
                    f"models must have a finite weight in every cell; model {key!r} has none for "
                    f"{name!r}. A model that does not use a feature has the weight 0."
                )
    told = {
        name: {
            str(key): str(value)
            for key, value in zip(ids, found[f"m{k + 1}"], strict=True)
            if value is not None
        }
        for k, name in enumerate(extras)
    }
    return Models(table, told)


def _known_weight(
    name: str,
    features: Sequence[str],
    columns: Mapping[str, str],
    levels: Mapping[str, Sequence[str]],
) -> None:
    if name in features or name == INTERCEPT:
        return
    allowed = [*features, INTERCEPT, *MODEL_COLUMNS]
    base = [f"{column}={values[0]}" for column, values in levels.items() if values]
    if name in base:
        why = (
            "it is the most frequent level, to which the others are compared; subtract it from them"
        )
    elif name in columns:
        why = "it is a column of the log, but not one of its features; name it in features"
    else:
        why = "the log has no such column; leave it out or rename it"
    raise ValueError(
        f"models must have weights for features of the log ({listed(features)}) and, if wanted, "
        f"{INTERCEPT}, {', '.join(MODEL_COLUMNS)}; got {name!r}: {why}."
        + ("" if name in columns else _checks.did_you_mean(name, allowed))
    )


def check_answerable(summary: Summary) -> None:
    """Refuse a log in which nothing could be compared."""
    data = summary.data
    models = sorted(set(data["deployed"].values.tolist()))
    if summary.rounds < 2:
        raise ValueError(
            f"the log must have at least two rounds; it has one ({data['round_label'].values[0]}). "
            "Make rounds shorter (every), or add weeks; a single one is kept for later with "
            "performative.attribution.summarize."
        )
    if len(models) == 1:
        raise ValueError(
            f"the log must have at least two models; it has one ({models[0]}), so that nothing was "
            "varied. Keep another, or a holdout, on a random part of the units for a while."
        )
    if summary.has_weights:
        theta = summary.deployed_theta()
        if np.array_equal(theta, np.broadcast_to(theta[0], theta.shape)):
            raise ValueError(
                f"models must differ in their weights; all {len(models)} deployed ones are the "
                "same, so that nothing was varied. Check the table, or let models run side by side "
                "that differ."
            )


def check_intercept(log: Log, loss: str | None, signed: bool) -> None:
    """An intercept needs a label of its own."""
    if log.models is None or INTERCEPT not in log.models.parameters or loss is None:
        return
    if signed or not log.has("outcome"):
        raise ValueError(
            f"models may have an {INTERCEPT} only where the loss compares a prediction with an "
            f"outcome; got loss={loss!r} "
            + ("on signed rows." if signed else "and no outcome column (name it as outcome='…').")
        )


def immutable(names: Iterable[str], features: Sequence[str]) -> list[str]:
    """Features that no model can move; a category stands for all its levels."""
    chosen: list[str] = []
    for name in [] if not names else _named_list("immutable", names):
        found = [f for f in features if f == name or f.startswith(f"{name}=")]
        if not found:
            raise ValueError(
                f"immutable must be features of the log ({listed(features)}); got {name!r}."
                + _checks.did_you_mean(name, features)
            )
        chosen += [f for f in found if f not in chosen]
    return chosen


def _named_list(name: str, values: Iterable[str]) -> list[str]:
    listed = values.split(",") if isinstance(values, str) else list(values)
    cleaned = [str(value).strip() for value in listed]
    if not cleaned or "" in cleaned:
        raise ValueError(f"{name} must be names of columns; got {_checks.shown(values)}.")
    return cleaned


def listed(names: Iterable[str], most: int = 12) -> str:
    names = list(names)
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more if names else "none"
