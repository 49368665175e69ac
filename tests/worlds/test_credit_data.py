"""The credit data: the shipped numbers are those of the CSV, and a wrong CSV is refused."""

import csv
import hashlib
import http.server
import os
import runpy
import threading
from pathlib import Path

import numpy as np
import pytest

from performative.worlds import credit_data

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def data():
    """The CSV of the developer or of CI."""
    place = os.environ.get("PERFORMATIVE_DATA")
    if not place:
        pytest.skip("PERFORMATIVE_DATA is not set: NOT compared with credit_processed.csv")
    return credit_data.locate(Path(place).resolve())


@pytest.fixture(scope="module")
def people(data):
    """Names, labels in ±1 and plain features, read by the standard library alone."""
    with data.open(newline="") as lines:
        header, *table = csv.reader(lines)
    table = np.array(table, dtype=float)
    return header, np.where(table[:, 0] == 1, 1.0, -1.0), table[:, 1:]


@pytest.fixture(scope="module")
def signed(people):
    _, y, x = people
    return y[:, None] * (x - x.mean(0)) / x.std(0)


@pytest.fixture
def nowhere(monkeypatch, tmp_path):
    """No CSV in the environment, and an empty cache, which is returned."""
    import pooch

    monkeypatch.delenv("PERFORMATIVE_DATA", raising=False)
    monkeypatch.setattr(pooch, "os_cache", lambda name: tmp_path / "cache" / name)
    return tmp_path / "cache" / "performative"


@pytest.fixture
def small_file(monkeypatch, tmp_path):
    """A stand-in for the CSV, small enough to serve and to spoil."""
    content = b"label,x\n1.0,2\n"
    monkeypatch.setattr(credit_data, "SHA256", hashlib.sha256(content).hexdigest())
    file = tmp_path / "published" / credit_data.FILE
    file.parent.mkdir()
    file.write_bytes(content)
    return file


@pytest.fixture
def served(monkeypatch, small_file):
    """The stand-in behind HTTP on this machine, as the public source; counts what is fetched."""
    fetched = []

    class Handler(http.server.SimpleHTTPRequestHandler):
        def __init__(self, *args):
            super().__init__(*args, directory=small_file.parent)

        def log_message(self, format, *args):
            fetched.append(self.path)

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        monkeypatch.setenv("NO_PROXY", "127.0.0.1")
        monkeypatch.setattr(
            credit_data, "SOURCE", f"http://127.0.0.1:{server.server_port}/{credit_data.FILE}"
        )
        yield fetched
        server.shutdown()


def assert_moments_of(rows, moments):
    centred = rows - rows.mean(0)
    np.testing.assert_allclose(moments[0], rows.mean(0), rtol=0, atol=1e-12)
    np.testing.assert_allclose(
        moments[1], centred.T @ centred / (len(rows) - 1), rtol=0, atol=1e-12
    )


def test_shipped_moments_are_those_of_the_csv(signed):
    for k in range(100):
        chosen = np.random.default_rng(k).choice(30_000, 1_500, replace=False)
        assert_moments_of(signed[chosen], credit_data.moments(k))
    assert_moments_of(signed, credit_data.moments("all"))


def test_the_script_writes_what_is_shipped(data):
    built = runpy.run_path(str(ROOT / "scripts" / "make_credit_moments.py"))["build"](data)
    with np.load(credit_data.MOMENTS) as shipped:
        assert set(shipped) == set(built)
        for name in shipped:
            if shipped[name].dtype.kind == "U":
                assert shipped[name].tolist() == built[name].tolist()
            else:
                assert shipped[name].dtype == np.float64
                np.testing.assert_allclose(shipped[name], built[name], rtol=1e-12, atol=1e-12)


def test_shipped_file_is_small():
    assert credit_data.MOMENTS.stat().st_size < 150_000


def test_seed_zero_has_the_documented_figures():
    mean, covariance = credit_data.moments(0)
    assert np.linalg.norm(mean) == pytest.approx(0.541, abs=5e-4)
    assert np.linalg.eigvalsh(covariance)[-1] == pytest.approx(3.976, abs=5e-4)
    assert np.trace(covariance) == pytest.approx(18.72, abs=5e-3)


def test_shipped_covariances_are_symmetric_and_positive_definite():
    for k in [*range(100), "all"]:
        mean, covariance = credit_data.moments(k)
        assert mean.shape == (17,) and covariance.shape == (17, 17)
        assert (covariance == covariance.T).all()
        assert np.linalg.eigvalsh(covariance)[0] > 5e-3


def test_none_means_all_rows_and_numpy_seeds_are_seeds():
    assert (credit_data.moments(None)[1] == credit_data.moments("all")[1]).all()
    assert (credit_data.moments(np.int64(7))[1] == credit_data.moments(7)[1]).all()


def test_changing_an_answer_does_not_change_the_next_one():
    before = credit_data.moments(0)[0].copy()
    credit_data.moments(0)[0][:] = 0
    credit_data.standardisation()[0][:] = 0
    assert (credit_data.moments(0)[0] == before).all()
    assert credit_data.standardisation()[0].all()


def test_columns_are_in_the_order_of_the_header(people):
    header, _, _ = people
    assert header == [credit_data.LABEL, *credit_data.FEATURES]


def test_first_six_features_cannot_be_modified_and_last_eleven_can():
    assert credit_data.MODIFIABLE.tolist() == [False] * 6 + [True] * 11
    fixed = np.array(credit_data.FEATURES)[~credit_data.MODIFIABLE]
    assert all(name in ("Married", "Single") or name.startswith("Age") for name in fixed)
    assert credit_data.FEATURES[6] == "EducationLevel"


def test_labelled_rows_are_the_standardised_features_and_then_the_label(data, people):
    _, y, x = people
    rows = credit_data.rows(data, signed=False)
    assert rows.shape == (30_000, 18)
    assert (rows[:, -1] == y).all()
    assert rows[:, -1].mean() == pytest.approx(0.558, abs=5e-4)
    np.testing.assert_allclose(rows[:, :-1].mean(0), 0, atol=1e-12)
    np.testing.assert_allclose(rows[:, :-1].std(0), 1, rtol=1e-12)
    shift, scale = credit_data.standardisation()
    np.testing.assert_allclose(rows[:, :-1] * scale + shift, x, rtol=0, atol=1e-9)


def test_signed_rows_are_the_labelled_rows_times_their_label(data, people):
    _, y, x = people
    labelled = credit_data.rows(data, signed=False)
    assert (credit_data.rows(data) == labelled[:, -1:] * labelled[:, :-1]).all()
    assert (credit_data.rows(data, standardised=False) == y[:, None] * x).all()


def test_answer_is_the_same_with_and_without_the_csv(data, nowhere, monkeypatch):
    without = [credit_data.moments(k) for k in (0, 99, "all")]
    monkeypatch.setenv("PERFORMATIVE_DATA", str(data.parent))
    from_variable = [credit_data.moments(k) for k in (0, 99, "all")]
    from_path = [credit_data.moments(k, data) for k in (0, 99, "all")]
    for (mean, covariance), *others in zip(without, from_variable, from_path, strict=True):
        assert all((m == mean).all() and (c == covariance).all() for m, c in others)


def test_another_subsample_is_fitted_from_the_csv(data, signed):
    chosen = np.random.default_rng(12_345).choice(30_000, 1_500, replace=False)
    assert_moments_of(signed[chosen], credit_data.moments(12_345, data.parent))


def test_another_subsample_without_the_csv_names_every_way_to_give_it(nowhere):
    with pytest.raises(FileNotFoundError) as refused:
        credit_data.moments(100)
    message = str(refused.value)
    for part in (
        "subsample 100",
        "0 to 99",
        "path",
        "PERFORMATIVE_DATA",
        str(nowhere),
        "download=True",
        credit_data.SOURCE,
    ):
        assert part in message
    assert message.count(". ") == 0 and "\n" not in message


def test_missing_file_tells_where_the_variable_points(nowhere, monkeypatch, tmp_path):
    monkeypatch.setenv("PERFORMATIVE_DATA", str(tmp_path / "gone"))
    with pytest.raises(FileNotFoundError, match="gone"):
        credit_data.rows()


@pytest.mark.parametrize("subsample", [-1, "al", "0"])
def test_subsample_that_is_no_seed_is_refused(subsample):
    with pytest.raises(ValueError, match=r"subsample must be a seed .* got .*"):
        credit_data.moments(subsample)


@pytest.mark.parametrize("subsample", [1.0, True, np.array([1, 2]), [3]])
def test_subsample_of_a_wrong_type_is_refused(subsample):
    with pytest.raises(TypeError, match="subsample must be a seed"):
        credit_data.moments(subsample)


def test_wrong_file_is_refused_wherever_it_is(nowhere, monkeypatch, tmp_path):
    wrong = tmp_path / credit_data.FILE
    wrong.write_text("NoDefaultNextMonth,Married\n1.0,0\n")
    for path in (wrong, tmp_path, str(tmp_path)):
        with pytest.raises(ValueError, match="path must lead to the credit data with sha256 b8b6"):
            credit_data.locate(path)
    with pytest.raises(ValueError, match="path must"):
        credit_data.moments(0, wrong)
    monkeypatch.setenv("PERFORMATIVE_DATA", str(wrong))
    with pytest.raises(ValueError, match="PERFORMATIVE_DATA must lead to"):
        credit_data.locate()
    monkeypatch.delenv("PERFORMATIVE_DATA")
    nowhere.mkdir(parents=True)
    wrong.rename(nowhere / credit_data.FILE)
    with pytest.raises(ValueError, match="the user's cache must lead to"):
        credit_data.locate()


def test_path_that_does_not_exist_is_refused_even_where_the_csv_is_elsewhere(
    nowhere, monkeypatch, small_file, tmp_path
):
    monkeypatch.setenv("PERFORMATIVE_DATA", str(small_file))
    for path in (tmp_path, tmp_path / "gone.csv", ""):
        with pytest.raises(FileNotFoundError, match="path must be the file"):
            credit_data.locate(path)
    with pytest.raises(TypeError, match=r"path must be the path of .* got 3"):
        credit_data.locate(3)


def test_path_comes_before_the_variable_and_the_variable_before_the_cache(
    nowhere, monkeypatch, small_file, tmp_path
):
    nowhere.mkdir(parents=True)
    cached, renamed = nowhere / credit_data.FILE, tmp_path / "mine.csv"
    for copy in (cached, renamed):
        copy.write_bytes(small_file.read_bytes())
    assert credit_data.locate() == cached
    monkeypatch.setenv("PERFORMATIVE_DATA", str(tmp_path / "gone"))
    assert credit_data.locate() == cached
    monkeypatch.setenv("PERFORMATIVE_DATA", str(small_file.parent))
    assert credit_data.locate(download=True) == small_file
    assert credit_data.locate(renamed) == renamed


def test_download_goes_to_the_cache_once_and_only_when_asked_for(nowhere, served, small_file):
    with pytest.raises(FileNotFoundError):
        credit_data.locate()
    assert served == []
    first = credit_data.locate(download=True)
    assert first == nowhere / credit_data.FILE
    assert first.read_bytes() == small_file.read_bytes()
    assert credit_data.locate(download=True) == credit_data.locate() == first
    assert len(served) == 1


def test_download_replaces_a_spoilt_file_in_the_cache(nowhere, served, small_file):
    nowhere.mkdir(parents=True)
    (nowhere / credit_data.FILE).write_text("spoilt")
    assert credit_data.locate(download=True).read_bytes() == small_file.read_bytes()


def test_download_of_another_file_is_refused_and_not_kept(nowhere, served, small_file):
    small_file.write_text("something else")
    with pytest.raises(ValueError, match="must send the credit data"):
        credit_data.locate(download=True)
    assert not (nowhere / credit_data.FILE).exists()


def test_failed_download_says_what_to_do(nowhere, served, small_file):
    small_file.unlink()
    with pytest.raises(FileNotFoundError, match=r"could not be downloaded .*fetch it by hand"):
        credit_data.locate(download=True)
