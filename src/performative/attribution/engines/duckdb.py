"""The embedded engine: files, tables in memory, and relations of a DuckDB connection."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from performative.attribution.engines import ROWS, Column

READERS = {
    ".parquet": "read_parquet",
    ".pq": "read_parquet",
    ".csv": "read_csv",
    ".tsv": "read_csv",
    ".csv.gz": "read_csv",
    ".csv.zst": "read_csv",
    ".tsv.gz": "read_csv",
}
WHOLE = ("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT", "UTINYINT", "USMALLINT")
WHOLE += ("UINTEGER", "UBIGINT", "UHUGEINT")
NUMBERS = ("FLOAT", "DOUBLE", "DECIMAL")
TYPES = {"whole": "BIGINT", "number": "DOUBLE", "text": "VARCHAR"}


class DuckDB:
    """Runs SQL on a source: an expression of a FROM clause, and who can run it."""

    def __init__(self, source: str, run: Callable[[str], Any]):
        self._source, self._run = source, run
        self._rows, self.keep = "", None
        described = run(f"DESCRIBE SELECT * FROM {source}").fetchall()
        self.columns = {row[0]: _kind(str(row[1])) for row in described}

    @staticmethod
    def of_file(name: str, path: Path) -> DuckDB:
        import duckdb

        if path.is_dir():
            if not any(path.rglob("*.parquet")):
                raise FileNotFoundError(f"{name}: the folder {path} has no .parquet file in it.")
            reader, place = "read_parquet", path / "**" / "*.parquet"
        else:
            ending = "".join(path.suffixes[-2:]).lower()
            reader = READERS.get(ending) or READERS.get(path.suffix.lower(), "")
            place = path
            if not reader:
                raise ValueError(
                    f"{name} must end in one of {', '.join(READERS)}; got {str(path)!r}."
                )
            if not any(c in str(path) for c in "*?[") and not path.exists():
                raise FileNotFoundError(f"{name}: {path} is not there.")
            if path.is_file() and path.stat().st_size == 0:
                raise ValueError(f"{name}: the file {path} is empty.")
        connection = _connection()
        try:
            return DuckDB(f"{reader}({quoted(str(place))})", connection.execute)
        except duckdb.Error as error:
            reason = str(error).splitlines()[0].rstrip(".")
            kind = duckdb.IOException if "No files found" in reason else None
            if kind and isinstance(error, kind):
                raise FileNotFoundError(f"{name}: no file is called {path}.") from None
            raise ValueError(f"{name}: {path} cannot be read: {reason}.") from None

    @staticmethod
    def of_table(name: str, table: Any) -> DuckDB:
        import duckdb

        connection = _connection()
        try:
            connection.register("performative_source", table)
            if hasattr(table, "read_next_batch"):  # a stream, which can be read only once
                connection.execute(
                    "CREATE TABLE performative_rows_kept AS FROM performative_source"
                )
                return DuckDB("performative_rows_kept", connection.execute)
        except duckdb.Error as error:
            reason = str(error).splitlines()[0].rstrip(".")
            raise ValueError(f"{name}: this table cannot be read: {reason}.") from None
        return DuckDB("performative_source", connection.execute)

    @staticmethod
    def of_relation(relation: Any) -> DuckDB:
        return DuckDB(
            "performative_source", lambda text: relation.query("performative_source", text)
        )

    @staticmethod
    def of_query(connection: Any, text: str, keep: Any) -> DuckDB:
        """What a SELECT on somebody's connection gives; `keep`: its owner, which may hold its rows."""
        engine = DuckDB(f"({text})", connection.execute)
        engine.keep = keep
        return engine

    def show(self, columns: Sequence[Column]) -> None:
        listed = ", ".join(f"{self._expression(c)} AS {c.name}" for c in columns)
        self._rows = f"SELECT {listed} FROM {self._source}"

    def _expression(self, column: Column) -> str:
        name = identifier(column.source)
        if column.kind == "value":
            return f"CAST({name} AS DOUBLE)"
        if column.kind == "optional":
            number = f"CAST({name} AS DOUBLE)"
            return f"CASE WHEN NOT ISNAN({number}) THEN {number} END"
        if column.kind == "signed":
            return (
                f"CAST({name} AS DOUBLE) * SIGN(CAST({identifier(column.extra)} AS DOUBLE) - 0.25)"
            )
        fraction = self.columns[column.source] == "number"
        whole = f"CASE WHEN ABS({name}) < 9e15 AND {name} = FLOOR({name}) THEN CAST({name} AS BIGINT) END"
        if column.kind == "whole":
            return whole if fraction else f"CAST({name} AS BIGINT)"
        if column.kind == "text":
            text = f"CAST({name} AS VARCHAR)"
            if not fraction:
                return text
            return (
                f"COALESCE(CAST({whole} AS VARCHAR), CASE WHEN NOT ISNAN({name}) THEN {text} END)"
            )
        if column.kind == "level":
            return (
                f"CASE WHEN CAST({name} AS VARCHAR) = {quoted(column.extra)} THEN 1e0 ELSE 0e0 END"
            )
        if column.kind == "bucket":
            return f"CAST(HASH({name}) % {column.extra} AS BIGINT)"
        period = column.extra
        if period.months:
            return f"(YEAR({name}) * 12 + MONTH({name}) - 1) // {period.months}"
        seconds = f"(EPOCH({name}) - {period.offset}) / {period.seconds}"
        return f"CAST(FLOOR({seconds}) AS BIGINT)"

    def query(self, text: str, schema: dict[str, str]) -> dict[str, np.ndarray]:
        chosen = ", ".join(f"CAST({key} AS {TYPES[kind]}) AS {key}" for key, kind in schema.items())
        found = self._run(f"WITH {ROWS} AS ({self._rows}) SELECT {chosen} FROM ({text}) AS answer")
        return tidy(found.fetchnumpy(), schema)


def tidy(found: dict[str, Any], schema: dict[str, str]) -> dict[str, np.ndarray]:
    """Columns of an answer as plain arrays; NULL is NaN or None."""
    return {key: _plain(found[key], kind) for key, kind in schema.items()}


def _plain(values: Any, kind: str) -> np.ndarray:
    if kind == "text":
        missing = np.ma.getmaskarray(values)
        texts = np.asarray(np.ma.getdata(values), dtype=object)
        return np.array(
            [
                None if gone or t is None or t != t else str(t)
                for t, gone in zip(texts, missing, strict=True)
            ],
            dtype=object,
        )
    if kind == "whole":
        return np.asarray(
            np.ma.filled(np.ma.masked_invalid(values), np.iinfo(np.int64).min), np.int64
        )
    return np.asarray(np.ma.filled(np.ma.asarray(values, np.float64), np.nan), np.float64)


def identifier(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _connection() -> Any:
    try:
        import duckdb
    except ImportError:
        raise ImportError(
            "Reading a log needs DuckDB: pip install 'performative[attribution]'."
        ) from None
    connection = duckdb.connect()
    connection.execute("SET preserve_insertion_order = false")
    connection.execute("SET enable_progress_bar = false")
    return connection


def _kind(declared: str) -> str:
    declared = declared.upper()
    if declared.endswith("]"):
        return "other"
    stem = declared.split("(")[0]
    if stem == "BOOLEAN":
        return "flag"
    if stem in WHOLE:
        return "whole"
    if stem in NUMBERS:
        return "number"
    if stem == "DATE" or stem.startswith("TIMESTAMP"):
        return "time"
    return "text" if stem in ("VARCHAR", "ENUM", "UUID") else "other"
