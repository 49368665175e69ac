"""Engines behind Ibis: the same text of SQL, translated, on the tables' own machine."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from performative import _checks
from performative.attribution.engines import ROWS, Column, Engine
from performative.attribution.engines.duckdb import DuckDB, tidy

TYPES = {"whole": "int64", "number": "float64", "text": "string"}


def ibis_engine(name: str, table: Any) -> Engine:
    """An engine for an Ibis table; tables that DuckDB holds are read without the detour."""
    import ibis
    from ibis.backends.sql import SQLBackend

    if not isinstance(table, ibis.Table):
        raise TypeError(f"{name} must be an Ibis table; got {_checks.shown(table)}.")
    backend: Any = table.get_backend()
    if not issubclass(type(backend), SQLBackend):
        raise TypeError(
            f"{name} must be an Ibis table on an engine that speaks SQL; got one on {backend.name}. "
            "Hand over its own table instead."
        )
    if table.op().find(ibis.expr.operations.InMemoryTable):
        table.limit(0).execute()  # brings tables of this process to the engine
    if backend.name == "duckdb":
        return DuckDB.of_query(backend.con, str(ibis.to_sql(table)), keep=table)
    return Ibis(table)


class Ibis:
    """Runs SQL on an Ibis table."""

    def __init__(self, table: Any):
        self._table, self._backend = table, table.get_backend()
        self._rows = ""
        self.columns = {name: _kind(kind) for name, kind in table.schema().items()}

    def show(self, columns: Sequence[Column]) -> None:
        import ibis

        view = self._table.select(**{c.name: self._expression(c) for c in columns})
        self._rows = str(ibis.to_sql(view))

    def _expression(self, column: Column) -> Any:
        value = self._table[column.source]
        kind = self.columns[column.source]
        if column.kind in ("value", "optional", "signed"):
            number = (value.cast("int32") if kind == "flag" else value).cast("float64")
            if column.kind == "value":
                return number
            if column.kind == "optional":
                return number.isnan().ifelse(None, number)
            sign = self._table[column.extra]
            sign = (sign.cast("int32") if self.columns[column.extra] == "flag" else sign) > 0
            return sign.ifelse(number, -number)
        if column.kind in ("whole", "text"):
            if kind == "number":  # 3.0 is 3, and what is no whole number is missing
                usable = (value.abs() < 9e15) & (value == value.floor())
                value = usable.ifelse(value, None).cast("int64")
            return value.cast("int64" if column.kind == "whole" else "string")
        if column.kind == "level":
            return (value.cast("string") == column.extra).ifelse(1.0, 0.0)
        if column.kind == "bucket":
            part = value.hash() % column.extra  # of either sign, as SQL has it
            return (part + column.extra) % column.extra
        period = column.extra
        if period.months:
            return ((value.year() * 12 + value.month() - 1) / period.months).floor().cast("int64")
        stamp = value.cast("timestamp").epoch_seconds()
        return ((stamp - period.offset) / period.seconds).floor().cast("int64")

    def query(self, text: str, schema: dict[str, str]) -> dict[str, np.ndarray]:
        import sqlglot

        chosen = ", ".join(schema)
        dialect = self._backend.dialect
        mine = sqlglot.transpile(
            f"SELECT {chosen} FROM ({text}) AS answer", read="duckdb", write=dialect
        )[0]
        # The types are known, so nobody has to ask the engine for them with a view of its own.
        answer = self._backend.sql(
            f"WITH {ROWS} AS ({self._rows}) {mine}",
            schema={key: TYPES[kind] for key, kind in schema.items()},
            dialect=dialect,
        )
        frame = answer.to_pandas()
        return tidy({key: frame[key].to_numpy() for key in schema}, schema)


def _kind(kind: Any) -> str:
    tests = [("flag", "boolean"), ("whole", "integer"), ("number", "numeric")]
    tests += [("text", "string"), ("text", "uuid")]
    for name, test in tests:
        if getattr(kind, f"is_{test}")():
            return name
    return "time" if kind.is_timestamp() or kind.is_date() else "other"
