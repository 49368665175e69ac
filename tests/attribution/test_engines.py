"""The same aggregates on other people's engines: PySpark in local mode, and PostgreSQL.

`make engines` installs both and runs these tests with PERFORMATIVE_ENGINES=required, where a missing
engine is a failure; elsewhere its test is skipped, and says what is missing.
"""

import os
import pwd
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from attribution import brute
from performative.attribution import attribute, summarize

NOISE = "copy keyword|infer_string|fetch_arrow_table"  # of Ibis and PySpark, about pandas
pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings(f"ignore:.*({NOISE})")]
ibis = pytest.importorskip("ibis")

REQUIRED = os.environ.get("PERFORMATIVE_ENGINES") == "required"
VARIABLES = ("mean", "covariance", "gradient", "hessian", "loss", "loss_covariance", "tau_sums")
SCHEMA = {
    "loss": "logistic",
    "l2": 0.5,
    "assignment": "units",
    "every": "1w",
    "immutable": ["town"],
}


def missing(what: str):
    """Fail where engines are required, else skip."""
    sentence = f"{what} is missing: `make engines` installs it."
    return pytest.fail(sentence, pytrace=False) if REQUIRED else pytest.skip(sentence)


@pytest.fixture(scope="module")
def log():
    """Rows with timestamps, a flag, a category, missing labels, and repeated units."""
    frame, models = brute.log(rows=3000)
    frame["huge"] = frame["huge"] - 1e6 + 1e3
    days = np.random.default_rng(5).uniform(0, 7, len(frame))
    start = pd.Timestamp("2024-01-01") + pd.to_timedelta(7 * (frame["round"] - 1) + days, unit="D")
    frame["round"] = start.dt.floor("s")
    frame["member"] = frame["unit"] % 3 == 0
    return frame, models


@pytest.fixture(scope="module")
def spark(log, tmp_path_factory):
    """An Ibis table in Spark."""
    try:
        from pyspark.sql import SparkSession
    except ImportError:
        missing("PySpark")
    if not (shutil.which("java") or os.environ.get("JAVA_HOME")):
        missing("Java, which PySpark needs,")
    file = tmp_path_factory.mktemp("spark") / "rows.parquet"
    log[0].to_parquet(file, coerce_timestamps="us")
    session = (
        SparkSession.builder.master("local[2]")
        .config("spark.ui.enabled", "false")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.driver.memory", "1g")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.sql.session.timeZone", "UTC")
        .getOrCreate()
    )
    yield ibis.pyspark.connect(session).read_parquet(str(file))
    session.stop()


def postgres_programs() -> Path | None:
    """Where initdb and pg_ctl are."""
    found = shutil.which("initdb")
    places = [Path(found).parent] if found else []
    places += sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    return next((place for place in places if (place / "initdb").exists()), None)


@pytest.fixture(scope="module")
def postgres(log, tmp_path_factory):
    """An Ibis table in a PostgreSQL server of our own, on a socket in a temporary folder."""
    programs = postgres_programs()
    if programs is None:
        missing("PostgreSQL")
    try:
        import psycopg
    except ImportError:
        missing("psycopg")
    folder = Path("/tmp") / f"performative-postgres-{os.getpid()}"  # socket paths must be short
    folder.mkdir()
    command: list[str] = []
    if os.getuid() == 0:  # the server refuses to run as root
        user = "postgres" if "postgres" in {u.pw_name for u in pwd.getpwall()} else "nobody"
        shutil.chown(folder, user)
        command = ["setpriv", f"--reuid={user}", "--clear-groups", "--"]

    def run(program: str, *arguments: str) -> None:
        line = [*command, str(programs / program), "-D", str(folder / "data"), *arguments]
        done = subprocess.run(line, cwd=folder, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr

    try:
        run("initdb", "-U", "postgres", "-A", "trust", "-E", "UTF8", "--no-sync")
        settings = f"-k {folder} -c listen_addresses= -c fsync=off"
        run("pg_ctl", "-w", "-l", str(folder / "log"), "-o", settings, "start")
        where = {"host": str(folder), "user": "postgres"}
        with psycopg.connect(**where, dbname="postgres", autocommit=True) as connection:
            _fill(connection, log[0])
        yield ibis.postgres.connect(**where, database="postgres").table("served")
    finally:
        run("pg_ctl", "-m", "immediate", "stop")
        shutil.rmtree(folder, ignore_errors=True)


def _fill(connection, frame):
    kinds = {"M": "timestamp", "f": "double precision", "i": "bigint", "b": "boolean"}
    columns = ", ".join(f'"{c}" {kinds.get(frame[c].dtype.kind, "text")}' for c in frame.columns)
    connection.execute(f"CREATE TABLE served ({columns})")
    rows = frame.astype(object).where(frame.notna(), None)
    with connection.cursor().copy("COPY served FROM STDIN") as copy:
        for row in rows.itertuples(index=False):
            copy.write_row(row)


@pytest.fixture(params=["spark", "postgres", "DuckDB behind Ibis"])
def table(request, log, tmp_path):
    """The rows, on each engine."""
    if request.param in ("spark", "postgres"):
        return request.getfixturevalue(request.param)
    log[0].to_parquet(tmp_path / "rows.parquet")
    return ibis.duckdb.connect().read_parquet(tmp_path / "rows.parquet")


def test_engines_agree_with_the_embedded_one(table, log):
    frame, models = log
    wanted = summarize(frame, models=models, **SCHEMA).data
    found = summarize(table, models=models, **SCHEMA).data
    assert found.attrs == wanted.attrs  # the fingerprint too
    assert found["round_label"].values.tolist() == wanted["round_label"].values.tolist()
    np.testing.assert_array_equal(found["rows"], wanted["rows"])
    for name in VARIABLES:
        np.testing.assert_allclose(
            found[name], wanted[name], rtol=1e-9, atol=1e-9 * float(np.nanmax(np.abs(wanted[name])))
        )
    # Each engine has a hash of its own: buckets differ, their totals do not.
    np.testing.assert_allclose(found["bucket_count"].sum("bucket"), found["weight"], rtol=1e-12)
    assert np.all((found["bucket_count"] > 0).sum("bucket") > 35)


def test_a_report_from_an_engine_says_the_same(table, log):
    frame, models = log
    wanted, found = (attribute(rows, models=models, **SCHEMA) for rows in (frame, table))
    assert found.verdict == wanted.verdict
    assert found.strength.value == pytest.approx(wanted.strength.value, rel=1e-9)
    spread = [report.strength.high - report.strength.low for report in (found, wanted)]
    assert spread[0] == pytest.approx(spread[1], rel=0.5)  # the jackknife's, of other buckets


def test_bad_rows_are_found_there_too(table, log):
    holes = table.mutate(skill=ibis.ifelse(table["unit"] == 7, ibis.null(float), table["skill"]))
    count = int((log[0]["unit"] == 7).sum())
    with pytest.raises(ValueError, match=f"'skill' must be a finite number .* {count:,} rows"):
        summarize(holes, models=log[1], **SCHEMA)
