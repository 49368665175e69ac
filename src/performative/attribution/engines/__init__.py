"""Where rows live: an engine runs one text of SQL on them, wherever they are.

An engine knows columns and types, and turns a list of `Column`s into the table `performative_rows`
that every query of `aggregate` reads. The text is DuckDB's; another engine gets it translated.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np

from performative import _checks

ROWS = "performative_rows"

SOURCES = (
    "the path of a Parquet or CSV file, a pandas, Polars or Arrow table, a dict of columns, "
    "a DuckDB relation, or an Ibis table"
)


class Column(NamedTuple):
    """One column of `performative_rows`: `name`, computed from the log's column `source`.

    `kind`: "value" (a number), "optional" (a number, NaN is missing), "signed" (a number, with the
    sign of the column `extra`), "text", "whole" (an integer), "level" (1 where the text is `extra`,
    else 0), "period" (the number of the `extra`, a `Period`, that a time falls in), "bucket" (a
    hash of the unit, modulo `extra`).
    """

    name: str
    kind: str
    source: str
    extra: Any = None


class Engine(Protocol):
    columns: dict[str, str]
    """Every column of the log: "whole", "number", "flag", "time", "text" or "other"."""

    def show(self, columns: Sequence[Column]) -> None:
        """From here on `performative_rows` has these columns."""
        ...

    def query(self, text: str, schema: dict[str, str]) -> dict[str, np.ndarray]:
        """Run a SELECT on `performative_rows`; schema: "whole", "number" or "text" of each result.

        Numbers come as float64 with NaN for NULL, whole numbers as int64, texts as object with None.
        """
        ...


def engine(name: str, log: Any) -> Engine:
    """An engine for a log, given in any of the forms of `SOURCES`; `name` is the argument's."""
    module = type(log).__module__.split(".")[0]
    if module == "ibis":
        from performative.attribution.engines.ibis import ibis_engine

        return ibis_engine(name, log)
    from performative.attribution.engines.duckdb import DuckDB

    if isinstance(log, (str, Path)):
        return DuckDB.of_file(name, Path(log))
    if module in ("duckdb", "_duckdb") and hasattr(log, "query") and hasattr(log, "columns"):
        return DuckDB.of_relation(log)
    if module == "polars" and find_spec("pyarrow") is None:  # which DuckDB needs to read them
        frame = log.lazy().collect()
        log, module = {column: frame[column].to_numpy() for column in frame.columns}, "dict"
    if hasattr(log, "__arrow_c_stream__") or module in ("pandas", "polars", "pyarrow"):
        return DuckDB.of_table(name, log)
    if isinstance(log, dict):
        import pandas as pd

        try:
            return DuckDB.of_table(name, pd.DataFrame(log))
        except ValueError as error:
            raise ValueError(
                f"{name} must have columns of one length; got a dict that has not: {error}."
            ) from None
    raise TypeError(f"{name} must be {SOURCES}; got {_checks.shown(log)}.")
