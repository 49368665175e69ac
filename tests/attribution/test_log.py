"""What cannot be used as a log is refused in a sentence: what was given, what is allowed, what to do."""

import numpy as np
import pandas as pd
import pytest

import performative as pp
from performative.attribution import summarize
from performative.attribution.log import period


def rows(**more):
    """Two rounds, two models, two features."""
    rng = np.random.default_rng(0)
    table = {"round": np.repeat([1, 2], 100), "model": np.tile(["old", "new"], 100)}
    return pd.DataFrame(table | {"age": rng.normal(size=200), "debt": rng.normal(size=200)} | more)


def weights(**columns):
    table = {"model": ["old", "new"], "age": [0.0, 1.0], "debt": [0.5, 0.5]}
    return pd.DataFrame(table | columns)


def refused(log, *words, **schema):
    """One sentence or two on one line, with all of `words`."""
    with pytest.raises(ValueError) as caught:
        pp.attribute(log, **schema)
    sentence = str(caught.value)
    assert sentence.endswith((".", "?")) and "\n" not in sentence
    for word in words:
        assert word in sentence, sentence
    return sentence


@pytest.mark.parametrize("column", ["round", "model"])
def test_a_log_without_round_or_model_lists_its_columns_and_the_nearest(column):
    log = rows().rename(columns={column: f"{column}s"})
    refused(log, f"a column '{column}'", f"{column}s, ", f"Did you mean '{column}s'?")


def test_a_column_that_is_named_must_be_there():
    refused(rows(), "a column 'customr'", "as its unit", unit="customr")
    refused(rows(), "unit and outcome must be different", unit="age", outcome="age")


def test_a_log_needs_a_feature_of_numbers():
    refused(rows()[["round", "model"]], "must have a column of numbers", "it has round, model")


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_what_is_not_finite_is_counted_with_its_first_round(bad):
    log = rows()
    log.loc[[150, 160], "debt"] = bad
    log.loc[7, "age"] = np.nan
    gaps = "'age' in 1 (first in round 1), 'debt' in 2 (first in round 2)"
    refused(log, gaps, "Drop those rows, fill them in")


def test_models_and_log_must_speak_of_the_same_models():
    table = weights(model=["old", "newer"])
    refused(rows(), "models must have a row for every model", "new is missing", models=table)


def test_weights_must_be_of_features_of_the_log():
    refused(
        rows(),
        "got 'agge'",
        "no such column;",
        ". Did you mean 'age'?",
        models=weights(agge=[0, 1]),
    )
    refused(rows(), "got 'debt'", "name it in features", models=weights(), features=["age"])


def test_a_model_has_one_row_of_finite_weights():
    table = weights(model=["old", "old"])
    refused(rows(), "one row for each model; 'old' has 2", models=table)
    refused(rows(), "model 'new' has none for 'age'", models=weights(age=[0.0, np.nan]))
    refused(rows(), "must hold numbers in column 'age'", models=weights(age=["a", "b"]))
    refused(rows(), "a column 'model'", models=weights().rename(columns={"model": "id"}))


def test_an_arm_has_one_model_a_round():
    log = rows(arm=np.repeat(["left", "right", "left", "right"], 50))
    refused(log, "one model a round", "round 1", "'left' has new, old")


def test_a_single_round_and_a_single_model_answer_nothing():
    refused(rows(round=1), "at least two rounds; it has one (1)")
    refused(rows(model="only"), "at least two models; it has one (only)", "nothing was varied")
    same = weights(age=[1.0, 1.0])
    refused(rows(), "differ in their weights", "nothing was varied", models=same)
    assert summarize(rows(round=1)).rounds == 1  # but a week is kept, to be added to others


def test_constant_features_and_small_cells_are_left_out_and_said():
    log = pd.concat([rows(country=7.0), rows(round=3, country=7.0)[:20]])
    found = summarize(log, models=weights(country=[1.0, 2.0]))
    assert found.features == ["age", "debt"] and found.rounds == 2
    assert found.data["parameter"].values.tolist() == ["age", "debt"]
    small, constant = found.warnings
    assert small.startswith("2 of 6 cells have fewer than 30 rows and were left out (20 rows")
    assert constant == "country is constant and was left out."


def test_a_constant_with_weights_is_the_intercept_of_a_prediction():
    log, column = rows(outcome=np.tile([0, 1, 1], 67)[:200]), {"bias": 2.0}
    told = summarize(log, models=weights(intercept=[0.5, -1.0]), loss="logistic")
    found = summarize(log.assign(**column), models=weights(bias=[0.25, -0.5]), loss="logistic")
    assert found.warnings[0].endswith("its weights count as the intercept, without a penalty.")
    assert found.data.drop_attrs().identical(told.data.drop_attrs())
    january = summarize(log[:100].assign(**column), models=weights(bias=[0.25, -0.5]))
    later = {"models": weights(bias=[0.25, -0.5]), "like": january}
    assert (january + summarize(log[100:].assign(**column), **later)).rounds == 2
    refused_later = "'bias' must be 2 in every row, as in the earlier summary"
    with pytest.raises(ValueError, match=refused_later):
        summarize(log.assign(bias=3.0), **later)


def test_all_cells_too_small_and_all_features_constant():
    refused(rows()[::8], "at least 30 rows; the largest has 13")
    refused(rows(age=1.0, debt=2.0), "a feature that varies", "age, debt")


@pytest.mark.parametrize("values", [[0, 2], [0, -1], [0.5, 1]])
def test_labels_of_the_logistic_loss(values):
    log = rows(outcome=np.tile(values, 100))
    refused(log, "'outcome' must be 0 or 1, or -1 or 1", models=weights(), loss="logistic")


@pytest.mark.parametrize("values", [[0, 1], [-1, 1], [False, True]])
def test_labels_may_be_of_either_kind_or_missing(values):
    outcome = np.resize(np.array(values, dtype=object), 200)
    outcome[7] = None
    frame = rows(outcome=pd.array(outcome, dtype="boolean" if values[1] is True else "Int64"))
    data = summarize(frame, models=weights(), loss="logistic").data
    assert data["outcome_count"].sum() == 199
    assert np.allclose(data["outcome_mean"].mean(), 0.5, atol=0.02)


def test_rounds_are_whole_numbers_or_timestamps():
    times = pd.date_range("2024-01-01", periods=200, freq="1h")
    refused(rows(round=times), "every must be given", "timestamps")
    refused(rows(), "each number is a round already", every="1w")
    refused(rows(round=np.tile(["a", "b"], 100)), "must hold whole numbers or timestamps")
    refused(rows(round=1.5), "a whole number or a time in every row; 200 rows are without")
    refused(rows(round=times), "every must be a number and one of", "'weekly'", every="weekly")


def test_identifiers_in_place_of_rounds_are_noticed():
    many = pd.DataFrame({"round": np.arange(50_000), "model": "a", "x": np.arange(50_000.0)})
    refused(many, "at most 20,000 different pairs", "Bin the rounds")


def test_missing_models_weights_and_units_are_counted():
    log = rows()
    log.loc[3, "model"] = None
    refused(log, "'model' must have a name in every row; 1 row is without. Drop")
    refused(rows(w=-1.0), "'w' must be a positive number", "200 rows are not so", weight="w")
    refused(rows(unit=None), "unit")


def test_categories_become_levels_and_too_many_are_left_out():
    log = rows(town=np.tile(["x", "y", "x", "z"], 50), name=[f"n{k}" for k in range(200)])
    found = summarize(log)
    assert found.features == ["age", "debt", "town=y", "town=z"]
    assert found.data.attrs["levels"] == {"town": ["x", "y", "z"]}
    assert found.warnings == ["'name' has more than 30 different texts and was left out."]
    np.testing.assert_allclose(found.data["mean"][0, 2:], [0.5, 0.5])  # the new model's
    np.testing.assert_allclose(found.data["mean"][1, 2:], [0.0, 0.0])
    refused(log, "at most 30 levels", features=["name", "age"])
    log.loc[5, "town"] = None
    refused(log, "'town' must have no missing values; it has 1")


def test_the_text_of_a_few_rows_is_in_no_report_unless_a_model_weighs_it():
    log = rows(town=["Nowhere", *["x", "y"] * 99, "y"])
    found = summarize(log)
    assert found.features == ["age", "debt", "town=x"]  # "y" is the most frequent
    assert found.warnings == [
        "1 of 3 values of 'town' occur in fewer than 30 rows and count as the most frequent one."
    ]
    weighed = pd.DataFrame({"model": sorted(set(log["model"])), "town=Nowhere": 1.0})
    assert "town=Nowhere" in summarize(log, models=weighed).features


def test_what_is_declared_must_make_sense():
    refused(rows(), "assignment must be one of", "'randomly'", assignment="randomly")
    refused(rows(), "loss must be one of", "Did you mean 'logistic'?", loss="logistik")
    refused(rows(), "immutable must be features", "Did you mean 'age'?", immutable=["agee"])
    refused(rows(), "features must be columns", "Did you mean 'debt'?", features=["debts"])
    refused(rows(), "l2 must be at least 0", l2=-1.0)
    refused(
        rows(),
        "intercept only where",
        "no outcome",
        models=weights(intercept=[0, 1]),
        loss="squared",
    )


def test_files_that_are_not_there_or_not_logs(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"log: .*none\.parquet is not there"):
        pp.attribute(tmp_path / "none.parquet")
    (tmp_path / "rows.xlsx").write_text("x")
    refused(tmp_path / "rows.xlsx", "must end in one of .parquet")
    (tmp_path / "bad.parquet").write_text("not parquet")
    refused(tmp_path / "bad.parquet", "cannot be read")
    (tmp_path / "nothing.csv").write_text("")
    refused(tmp_path / "nothing.csv", "nothing.csv is empty")
    (tmp_path / "header.csv").write_text("round,model,age\n")
    refused(tmp_path / "header.csv", "must have rows; it has none")
    with pytest.raises(TypeError, match=r"log must be the path of .*; got 3\."):
        pp.attribute(3)


def test_periods():
    assert period("1d").label(0) == "1970-01-01"
    assert period("1w").label(0) == "1970-01-05"
    assert period("6h").label(1) == "1970-01-01 06:00:00"
    assert period("1y").label(2024) == "2024-01"
