"""Summaries agree with a computation row by row, whatever held the rows; and they add up."""

import importlib.util

import duckdb
import numpy as np
import pandas as pd
import pytest

from attribution import brute
from performative.attribution import Summary, summarize

NAMES = ["huge", "skill", "town=y", "town=z"]
PARAMETERS = ["skill", "town=z", "intercept"]


def close(found, wanted, within=1e-12):
    scale = np.abs(wanted).max() if np.size(wanted) else 1.0
    np.testing.assert_allclose(found, wanted, rtol=within, atol=within * max(scale, 1e-300))


def by_cell(frame):
    return list(frame.groupby(["round", "model"]))


def check_moments(summary, frame, weights=None):
    """Counts equal; means to 1e-12; covariances to 1e-12 of the largest, mean 1e6 or not."""
    data = summary.data
    assert summary.features == NAMES
    for cell, ((when, model), part) in enumerate(by_cell(frame)):
        assert (data["round"][cell], data["deployed"][cell]) == (when, model)
        heavy = np.ones(len(part)) if weights is None else part[weights].to_numpy()
        wide = brute.wide(part).to_numpy()
        offset = np.array([1e6, 0, 0, 0])
        count, mean, covariance = brute.about(wide - offset, heavy)
        assert data["rows"][cell] == len(part)
        close(data["count"][cell], count)
        close(data["weight"][cell], heavy.sum())
        close(data["mean"][cell], mean + offset)
        close(data["covariance"][cell], covariance)
        close(data["variance"][cell], np.diag(covariance))


def test_moments_are_those_of_the_rows():
    frame, _ = brute.log()
    check_moments(summarize(frame), frame)


def test_moments_of_weighted_rows_give_the_variance_of_a_weighted_mean():
    frame, _ = brute.log()
    frame["w"] = np.random.default_rng(1).uniform(0.5, 3.0, len(frame))
    check_moments(summarize(frame, weight="w"), frame, "w")


def test_a_mean_far_from_zero_costs_no_digits():
    n = 20_000
    x = 1e6 + np.tile(np.linspace(0, 1, n // 4), 4)
    log = {"round": np.repeat([1, 2], n // 2), "model": np.tile(["a", "b"], n // 2), "x": x}
    variance = summarize(log).data["variance"].values
    assert np.allclose(variance, np.var(np.linspace(0, 1, n // 4)), rtol=2e-3)
    frame = pd.DataFrame(log)
    exact = frame.assign(x=frame.x - 1e6).groupby(["round", "model"]).x.var().to_numpy()
    np.testing.assert_allclose(variance[:, 0], exact, rtol=1e-9)  # sum(x²)/n − mean² is off by 30 %


def test_a_world_that_moves_by_a_million_deviations_costs_no_digits():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"round": np.repeat([1, 2], 2000), "model": np.tile(["a", "b"], 2000)})
    frame["x"] = rng.normal(size=4000) + 1e6 * frame["round"]
    exact = frame.assign(x=frame.x - 1e6 * frame["round"]).groupby(["round", "model"]).x.var()
    close(summarize(frame).data["variance"].values[:, 0], exact.to_numpy(), 1e-9)


def test_buckets_hold_sums_about_the_mean_of_the_cell():
    frame, _ = brute.log()
    data = summarize(frame).data
    assert data.attrs["units"] == frame["unit"].nunique()
    close(data["bucket_count"].sum("bucket"), data["weight"].values)
    np.testing.assert_allclose(data["bucket_sum"].sum("bucket"), 0, atol=1e-6)
    unit = summarize(frame.assign(x=1.0 * (frame["unit"] == 7)), features=["x"]).data
    for cell, (_, part) in enumerate(by_cell(frame)):
        here = int((part["unit"] == 7).sum())
        sums = unit["bucket_sum"][cell, :, 0] + unit["bucket_count"][cell] * unit["mean"][cell, 0]
        assert sorted(np.rint(sums.values))[-1] == here  # a unit is in one bucket, all of it
        left = unit["mean"][cell, 0] - unit["bucket_sum"][cell, :, 0] / (
            unit["weight"][cell] - unit["bucket_count"][cell]
        )
        if here:
            assert np.isclose(left.min(), 0, atol=1e-12)  # without its bucket, nothing is left


@pytest.mark.parametrize("loss", ["logistic", "squared"])
def test_losses_gradients_and_hessians_are_those_of_the_rows(loss):
    frame, models = brute.log()
    l2 = 0.7
    data = summarize(frame, models=models, loss=loss, l2=l2).data
    theta = models.set_index("model")[PARAMETERS]
    reference = theta.loc[sorted(frame["model"].unique())].to_numpy().mean(axis=0)
    close(data["reference"], reference)
    penalty = np.array([l2, l2, 0.0])
    for cell, ((when, _), part) in enumerate(by_cell(frame)):
        part = part[part["outcome"].notna()]
        x = brute.wide(part)[["skill", "town=z"]].assign(one=1.0).to_numpy()
        y = part["outcome"].to_numpy()
        of = brute.logistic if loss == "logistic" else brute.squared
        label = 2 * y - 1 if loss == "logistic" else y
        _, gradient, hessian = of(x, label, reference)
        _, mean, covariance = brute.about(gradient, np.ones(len(part)))
        close(data["gradient"][cell], mean + penalty * reference)
        close(
            data["gradient_covariance"][cell] / data["count"][cell], covariance / len(part), 1e-10
        )
        close(data["hessian"][cell], hessian.mean(axis=0) + np.diag(penalty))
        both = sorted(frame[frame["round"] == when]["model"].unique())
        assert data["slot_model"][cell].values.tolist() == both
        losses = np.stack([of(x, label, theta.loc[m].to_numpy())[0] for m in both], axis=1)
        added = [0.5 * penalty @ theta.loc[m].to_numpy() ** 2 for m in both]
        _, mean, covariance = brute.about(losses, np.ones(len(part)))
        close(data["loss"][cell], mean + added)
        close(data["loss_covariance"][cell] / data["count"][cell], covariance / len(part), 1e-10)
        assert data["outcome_count"][cell] == len(part)
        close(data["outcome_mean"][cell], y.mean())
        close(data["outcome_variance"][cell], y.var(ddof=1))
    np.testing.assert_allclose(data["bucket_gradient"].sum("bucket"), 0, atol=1e-6)
    np.testing.assert_allclose(data["bucket_loss"].sum("bucket"), 0, atol=1e-6)
    np.testing.assert_allclose(data["bucket_outcome_sum"].sum("bucket"), 0, atol=1e-9)


@pytest.mark.parametrize("loss", ["logistic", "squared"])
def test_signed_rows_need_no_outcome(loss):
    rng = np.random.default_rng(3)
    rows = rng.normal([0.5, 0.0], 1.0, size=(2000, 2))
    log = {"round": np.repeat([1, 2], 1000), "model": np.tile(["a", "b"], 1000)}
    log |= {"p": rows[:, 0], "q": rows[:, 1]}
    models = {"model": ["a", "b"], "q": [0.3, -0.2], "p": [0.1, 0.4]}
    data = summarize(log, models=models, loss=loss, l2=0.5, signed=True).data
    assert data["parameter"].values.tolist() == ["p", "q"]  # in the order of the features
    theta = np.array([[0.1, 0.3], [0.4, -0.2]])
    reference = theta.mean(axis=0)
    part = rows[:1000:2]
    if loss == "logistic":
        losses, gradient, hessian = brute.logistic(part, 1.0, theta[1])
        _, gradient, hessian = brute.logistic(part, 1.0, reference)
    else:
        losses = 0.5 * ((part - theta[1]) ** 2).sum(axis=1)
        gradient, hessian = reference - part, np.broadcast_to(np.eye(2), (500, 2, 2))
    close(data["gradient"][0], gradient.mean(axis=0) + 0.5 * reference)
    close(data["gradient_covariance"][0], np.cov(gradient.T), 1e-10)
    close(data["hessian"][0], hessian.mean(axis=0) + 0.5 * np.eye(2))
    close(data["loss"][0, 1], losses.mean() + 0.25 * theta[1] @ theta[1])
    close(data["loss_covariance"][0, 1, 1], losses.var(ddof=1), 1e-10)


def test_an_outcome_and_signed_rows_make_z_of_x_and_y():
    frame, _ = brute.log(missing=0.0)
    numbers = ["huge", "skill"]
    z = frame.copy()
    z[numbers] = frame[numbers].mul(2 * frame["outcome"] - 1, axis=0)
    found = summarize(frame, features=numbers, signed=True).data
    close(found["mean"], summarize(z, features=numbers).data["mean"].values)


@pytest.mark.parametrize("loss", ["logistic", None])
def test_the_sums_of_the_outcome_response_are_those_of_the_rows(loss):
    frame, models = brute.log()
    data = summarize(frame, models=models, loss=loss).data
    theta = models.set_index("model")[PARAMETERS]
    buckets = data["bucket_tau"].sum("bucket").values
    for _, part in frame.groupby("round"):
        here = part[part["outcome"].notna()]
        wide = brute.wide(here)
        design = np.column_stack([np.ones(len(here)), wide - wide.mean()])
        e = here["outcome"] - design @ np.linalg.lstsq(design, here["outcome"], rcond=None)[0]
        x = wide[["skill", "town=z"]].assign(one=1.0).to_numpy()
        both = sorted(part["model"].unique())
        said = np.stack([x @ theta.loc[m].to_numpy() for m in both], axis=1)
        said = brute.sigmoid(said) if loss == "logistic" else said
        share = np.array([(part["model"] == m).mean() for m in both])
        own = said[np.arange(len(here)), [both.index(m) for m in here["model"]]]
        r = own - said @ share
        for model in both:
            mine = (here["model"] == model).to_numpy()
            rm, em = r[mine], e[mine].to_numpy()
            wanted = [rm @ rm, rm @ em, (rm * em) @ (rm * em), rm**3 @ em, rm**2 @ rm**2]
            cell = int(np.flatnonzero(data["deployed"] == model)[0])
            close(data["tau_sums"][cell], wanted, 1e-9)
            close(buckets[cell], wanted[:2], 1e-9)


# Where rows can be


def forms(frame, folder):
    """The same rows in every form that a log may have."""
    parquet, csv = folder / "rows.parquet", folder / "rows.csv"
    brute.to_parquet(frame, parquet)
    frame.to_csv(csv, index=False)
    parts = folder / "parts"
    parts.mkdir()
    for k in range(3):
        brute.to_parquet(frame[k::3], parts / f"{k}.parquet")
    connection = duckdb.connect()
    connection.execute(f"CREATE TABLE served AS SELECT * FROM read_parquet('{parquet}')")
    found = {
        "Parquet": parquet,
        "CSV": str(csv),
        "folder": parts,
        "wildcard": str(parts / "*.parquet"),
        "dict": {name: frame[name].to_numpy() for name in frame},
        "DuckDB": connection.table("served"),
        "a view": connection.sql("SELECT * FROM served WHERE round > 0"),
    }
    frame.to_csv(folder / "rows.csv.gz", index=False)
    found["zipped CSV"] = folder / "rows.csv.gz"
    if importlib.util.find_spec("pyarrow"):
        import ibis
        import pyarrow

        found["Arrow"] = pyarrow.Table.from_pandas(frame)
        found["Arrow stream"] = found["Arrow"].to_reader()
        found["Ibis"] = ibis.duckdb.connect().read_parquet(parquet)
        found["Ibis, from memory"] = ibis.memtable(frame)
    if importlib.util.find_spec("polars"):
        import polars

        found["Polars"] = polars.from_dict({name: frame[name].tolist() for name in frame})
        found["Polars, lazily"] = found["Polars"].lazy()
    return found


@pytest.mark.filterwarnings("ignore:.*infer_string")  # of Ibis, about pandas
def test_rows_may_be_anywhere(tmp_path):
    frame, models = brute.log(rows=1500)
    wanted = summarize(frame, models=models, loss="logistic").data
    for name, log in forms(frame, tmp_path).items():
        found = summarize(log, models=models, loss="logistic").data
        assert found.attrs["fingerprint"] == wanted.attrs["fingerprint"], name
        for variable in ("mean", "covariance", "bucket_sum", "gradient", "loss", "tau_sums"):
            np.testing.assert_allclose(
                found[variable], wanted[variable], rtol=1e-9, atol=1e-7, err_msg=name
            )
    check_moments(summarize(tmp_path / "rows.csv"), frame)


def test_models_may_be_a_file(tmp_path):
    frame, models = brute.log(rows=1500)
    models["role"] = ["holdout"] + [None] * (len(models) - 1)
    models["trained_through"] = [np.nan, 1, 2, 1, 2, 3]
    models.to_csv(tmp_path / "models.csv", index=False)
    data = summarize(frame, models=tmp_path / "models.csv").data
    np.testing.assert_array_equal(data["theta"], models[PARAMETERS])
    assert data["role"].values.tolist() == ["holdout", "", "", "", "", ""]
    assert data["trained_through"].values.tolist() == ["", "1", "2", "1", "2", "3"]


def test_timestamps_are_binned_into_weeks_that_begin_on_mondays():
    times = pd.date_range("2024-01-01", periods=21 * 40, freq="36min")  # a Monday
    log = pd.DataFrame({"round": times, "model": ["a", "b"] * 420, "x": np.arange(840.0)})
    data = summarize(log, every="1w").data
    assert data["round_label"].values[::2].tolist() == ["2024-01-01", "2024-01-08", "2024-01-15"]
    assert data["rows"].values.tolist() == [140] * 6
    with pytest.raises(ValueError, match=r"at least 30 rows; the largest has 20\. Make rounds"):
        summarize(log, every="1d")
    months = summarize(log, every="1mo").data
    assert months["round_label"].values.tolist() == ["2024-01"] * 2


def test_more_than_fifty_features_keep_variances_and_that_of_the_contrast():
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(400, 60)) @ rng.normal(size=(60, 60))
    log = {"round": np.repeat([1, 2], 200), "model": np.tile(["a", "b"], 200)}
    log |= {f"f{j}": rows[:, j] for j in range(60)}
    theta = {"a": rng.normal(size=60), "b": rng.normal(size=60)}
    models = {"model": ["a", "b"]} | {f"f{j}": [theta["a"][j], theta["b"][j]] for j in range(60)}
    data = summarize(log, models=models).data
    assert "covariance" not in data
    part = rows[:200:2]
    close(data["variance"][0], part.var(axis=0, ddof=1), 1e-10)
    apart = (theta["a"] - theta["b"]) / 2
    close(data["contrast_variance"][0], (part @ apart).var(ddof=1), 1e-9)


# Saved and added


def test_a_summary_is_saved_and_read_back(tmp_path):
    frame, models = brute.log(rows=1500)
    summary = summarize(frame, models=models, loss="logistic", immutable=["town"])
    summary.save(tmp_path / "log.nc")
    again = Summary.load(tmp_path / "log.nc")
    assert again.data.identical(summary.data)
    assert summarize(tmp_path / "log.nc", assignment="units").data.attrs["assignment"] == "units"
    with pytest.raises(FileNotFoundError, match=r"nowhere\.nc is not there"):
        Summary.load(tmp_path / "nowhere.nc")
    (tmp_path / "not.nc").write_text("rows")
    with pytest.raises(ValueError, match=r"written by Summary\.save"):
        Summary.load(tmp_path / "not.nc")


@pytest.mark.parametrize("loss", ["logistic", "squared", None])
def test_summaries_add_up_to_the_summary_of_all_rows(loss):
    frame, models = brute.log()
    whole = summarize(frame, models=models, loss=loss, assignment="units")
    weeks = [summarize(frame[frame["round"] == t], models=models, like=whole) for t in (3, 1, 2)]
    added = weeks[0] + weeks[1] + weeks[2]
    assert added.data.attrs["fingerprint"] == whole.data.attrs["fingerprint"]
    assert set(added.data.variables) == set(whole.data.variables)
    for name, wanted in whole.data.data_vars.items():
        if wanted.dtype.kind in "fi":
            np.testing.assert_allclose(added.data[name], wanted, rtol=1e-9, atol=1e-7, err_msg=name)


@pytest.mark.parametrize("loss", ["logistic", "squared"])
def test_halves_of_the_same_cells_add_up_to_the_whole(loss):
    frame, models = brute.log()
    whole = summarize(frame, models=models, loss=loss)
    half = np.random.default_rng(0).random(len(frame)) < 0.3
    added = summarize(frame[half], models=models, like=whole) + summarize(
        frame[~half], models=models, like=whole
    )
    assert set(whole.data.variables) - set(added.data.variables) == {
        "tau_sums", "bucket_tau", "term",
    }  # fmt: skip
    for name in added.data.data_vars:
        wanted = whole.data[name]
        if wanted.dtype.kind in "fi":
            np.testing.assert_allclose(added.data[name], wanted, rtol=1e-9, atol=1e-6, err_msg=name)


def test_summaries_that_do_not_fit_are_not_added():
    frame, models = brute.log()
    one = summarize(frame[frame["round"] < 3], models=models, loss="logistic")
    with pytest.raises(ValueError, match="same loss; got 'logistic' and None"):
        one + summarize(frame[frame["round"] == 3], models=models)
    with pytest.raises(ValueError, match="reference points θ_ref; theirs differ"):
        one + summarize(frame[frame["round"] == 3], models=models, loss="logistic")
    changed = models.copy()
    changed["skill"] += 1
    with pytest.raises(ValueError, match="same weights in both summaries; those of 'new1' differ"):
        one + summarize(frame[frame["round"] == 3], models=changed, like=one)


def test_a_summary_is_of_moments_too():
    summary = Summary.from_moments(
        round=["w2", "w2", "w1", "w1"],
        deployed=["b", "a", "a", "b"],
        count=[50, 60, 70, 80],
        mean=[[4.0], [3.0], [1.0], [2.0]],
        covariance=[[[1.0]]] * 4,
        theta={"a": [0.0], "b": [1.0]},
    )
    assert summary.data["mean"].values.ravel().tolist() == [1.0, 2.0, 3.0, 4.0]
    assert summary.data["round"].values.tolist() == [1, 1, 2, 2]
    assert summary.deployed_theta().ravel().tolist() == [0.0, 1.0, 0.0, 1.0]
