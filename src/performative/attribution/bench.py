"""Speed and memory of a log's aggregates: five million rows, and twenty times as many.

A case of `performative bench`. Every size is read by a process of its own, whose peak of memory
counts; what it finds is compared with the truth of the rows.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

from performative.bench import Row, Target

FEATURES, ROUNDS = 17, 24

WRITE = """
import sys
import duckdb
rows, features, rounds, path = int(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), sys.argv[4]
noise = ", ".join(
    f"random() + random() + random() - 1.5 + 0.1 * (i % {rounds}) AS x{j}" for j in range(features)
)
connection = duckdb.connect()
connection.execute("SET preserve_insertion_order = false")
connection.execute("SET memory_limit = '2GB'")
connection.execute(f'''COPY (
    SELECT 1 + i % {rounds} AS round, CASE WHEN random() < 0.5 THEN 'old' ELSE 'new' END AS model,
    CAST(random() * 100000 AS INTEGER) AS unit, {noise}, CAST(random() < 0.3 AS INTEGER) AS outcome
    FROM range({rows}) AS t(i)) TO '{path}' (FORMAT parquet)''')
"""

READ = """
import sys, time
import numpy as np
import duckdb
from performative.bench import peak_memory
from performative.attribution import summarize
duckdb.execute("SET enable_progress_bar = false")  # it would be read as figures
path, times, what = sys.argv[1], int(sys.argv[2]), sys.argv[3]
left = {"plain": "unit, outcome", "units": "outcome", "logistic": "nothing"}[what]
left = "" if left == "nothing" else f"EXCLUDE ({left})"
log = duckdb.sql(f"SELECT * {left} FROM read_parquet({[path] * times})")
models = {"model": ["old", "new"]} | {f"x{j}": [0.0, 0.1 * (-1) ** j] for j in range(17)}
given = {"models": models, "loss": "logistic"} if what == "logistic" else {}
begun, used = time.perf_counter(), time.process_time()
data = summarize(log, features=[f"x{j}" for j in range(17)], **given).data
spent, used = time.perf_counter() - begun, time.process_time() - used
rows = int(data["rows"].sum())
mean = data["mean"].values - 0.1 * (data["round"].values[:, None] - 1)
least = data["rows"].values.min() / times
assert np.all(np.abs(mean) < 6 * np.sqrt(0.25 / least))
assert np.allclose(data["variance"], 0.25, rtol=6 * np.sqrt(2 / least))
print(rows, spent, used, peak_memory())
"""


def attribution(quick: bool) -> list[Row]:
    """The aggregates of a Parquet log with 17 features and 48 cells; reading the file included."""
    rows, more = (100_000, 3) if quick else (5_000_000, 20)
    kinds = {
        "plain": "counts, means, covariances",
        "units": "and the jackknife's sums",
        "logistic": "and gradients, Hessians, losses, the outcome's response",
    }
    table = []
    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder) / "rows.parquet")
        _run(WRITE, rows, FEATURES, ROUNDS, path)
        for kind, words in kinds.items():
            table += _measured(path, 1, kind, f"{rows:,} rows × {FEATURES}: {words}")
        case = f"{rows * more:,} rows × {FEATURES}: {kinds['plain']}"
        note = f"the same file, read {more} times over"
        peak = table[1].wall
        assert peak is not None
        wanted = Target("wall", "≤", round(1.5 * peak))
        table += _measured(path, more, "plain", case, note, wanted)
    return table


def _measured(
    path: str, times: int, kind: str, case: str, note: str = "", most: Target | None = None
) -> list[Row]:
    _, wall, cpu, peak = map(float, _run(READ, path, times, kind).split())
    seconds = Target("wall", "≤", 5.0) if times == 1 and kind == "plain" else None
    return [
        Row(case, "s", wall, cpu, target=seconds, note=note),
        Row(f"{case}: peak memory", "MB", peak / 1e6, target=most, note=note),
    ]


def _run(program: str, *arguments: object) -> str:
    words = [sys.executable, "-c", program, *map(str, arguments)]
    return subprocess.run(words, capture_output=True, text=True, check=True).stdout
