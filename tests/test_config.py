"""World files: what they build, and how each mistake is named with its place."""

import inspect

import numpy as np
import pytest

import performative as pp
from performative import config

TEXT = """
rounds = 10
runs = 2
[worlds.mine]
response = {kind = "location", matrix = 0.3, base = {kind = "gaussian", mean = [1.0, 2.0], cov = 1}}
drift = {kind = "iid_ball", cov = 0.25, radius = 1.0, seed = 1}
mixing = {kind = "polynomial", b = 0.5}
loss = {kind = "squared"}
domain = {kind = "box", lower = -5, upper = 5}
[learners.RRM]
kind = "rrm"
rows = 5
"""
BASE = '{kind = "gaussian", mean = [1.0, 2.0], cov = 1}'


def edited(*changes: tuple[str, str]) -> str:
    text = TEXT
    for old, new in changes:
        assert text.count(old) == 1, old
        text = text.replace(old, new)
    return text


def test_a_file_builds_the_world_that_python_would():
    world = config.parse(TEXT).worlds["mine"]
    same = pp.World(
        response=pp.responses.location(0.3, pp.Gaussian([1.0, 2.0], 1.0)),
        drift=pp.drifts.iid_ball(0.25, radius=1.0, seed=1),
        mixing=pp.mixing.polynomial(0.5),
        loss=pp.losses.squared(),
        domain=pp.domains.box(-5, 5),
        rounds=10,
    )
    theta = [0.3, -0.4]
    assert world.description == same.description
    np.testing.assert_array_equal(world.risk([1, 10], theta), same.risk([1, 10], theta))


def test_the_example_is_a_file_that_can_be_read():
    made = config.parse(config.EXAMPLE)
    assert set(made.worlds) == {"credit", "mine"} and len(made.learners) == 2
    assert {world.rounds for world in made.worlds.values()} == {500}


def test_what_is_not_said_has_a_default_and_can_be_said_instead():
    made = config.parse(edited(("runs = 2\n", "")))
    assert (made.runs, made.seed, made.against, made.start) == (1, 0, ("stable",), None)
    assert config.parse(TEXT, runs=7, seed=3)[2:4] == (7, 3)
    assert config.parse(TEXT, runs=None).runs == 2


def test_ready_made_worlds_take_their_own_arguments_and_drifts():
    ready = 'ready = "quadratic"\ndim = 2\ndrift = {kind = "seasonal", cov = 1, amplitude = 1, period = 4}'
    made = config.parse(edited(("[worlds.mine]", f"[worlds.paper]\n{ready}\n[worlds.mine]")))
    assert "seasonal(period=4)" in made.worlds["paper"].description
    assert made.worlds["paper"].rounds == 10


def test_pieces_may_hold_pieces():
    parts = f'components = [{BASE}, {{kind = "gaussian", mean = [0, 0], cov = [1, 2]}}]'
    mixture = f'{{kind = "mixture", weights = [0.25, 0.75], {parts}}}'
    world = config.parse(edited((BASE, mixture))).worlds["mine"]
    assert world.response is not None
    np.testing.assert_allclose(world.distribution(10, [0, 0]).components[0].mean, [0.25, 0.5])


@pytest.mark.parametrize("name", ["rows.csv", "rows.npy"])
def test_rows_come_from_a_file_beside_the_world_file(tmp_path, name):
    rows = np.array([[1.0, 2.0], [3.0, 4.0], [5.0, 9.0]])
    if name.endswith("csv"):
        (tmp_path / name).write_text("x,y\n1,2\n3,4\n\n5,9\n")
    else:
        np.save(tmp_path / name, rows)
    text = edited((BASE, f'{{kind = "empirical", rows = "{name}"}}'))
    (tmp_path / "world.toml").write_text(text)
    world = config.read(tmp_path / "world.toml").worlds["mine"]
    np.testing.assert_allclose(world.distribution(10, [0, 0]).components[0].mean, rows.mean(axis=0))


def test_every_factory_can_be_used_in_a_file_unless_it_needs_a_function():
    """A new factory needs no word in config.py: its name and keys are read off it."""
    for family, room in config.FAMILIES.items():
        if isinstance(room, dict):
            continue
        kinds = config._kinds(family)
        for name, value in vars(room).items():
            public = inspect.isfunction(value) and not name.startswith("_")
            if not public or not config._makes(value, family):
                continue
            if name in ("custom", "margin"):
                assert name not in kinds
            else:
                assert set(config._model(kinds[name]).model_fields) == set(
                    inspect.signature(value).parameters
                )


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ([("radius =", "radus =")], "worlds.mine.drift.radus: unknown key; did you mean 'radius'?"),
        ([("radius = 1.0", "radius = '1'")], "worlds.mine.drift.radius: must be a number; got '1'."),
        ([("radius = 1.0", "radius = -1")], "worlds.mine.drift: radius must be above 0; got -1."),
        (
            [("iid_ball", "idd_ball")],
            "worlds.mine.drift.kind: unknown kind 'idd_ball'; did you mean 'iid_ball'?",
        ),
        ([("cov = 1}", "cov = -1}")], "worlds.mine.response.base: cov must be positive"),
        ([("cov = 1}", "co = 1}")], "worlds.mine.response.base.co: unknown key; did you mean 'cov'"),
        ([('{kind = "squared"}', '"squared"')], "worlds.mine.loss: must be a table with a kind"),
        ([('"squared"', '"custom"')], "worlds.mine.loss.kind: 'custom' needs a function"),
        ([('loss = {kind = "squared"}\n', "")], "worlds.mine.loss: must be given."),
        ([("rounds = 10\n", "")], "worlds.mine.rounds: must be given."),
        ([("rounds = 10", "rounds = 0")], "rounds: must be at least 1; got 0."),
        ([("rounds = 10", "rounds = 2.5")], "rounds: must be a whole number; got 2.5."),
        ([("rounds = 10", "round = 10")], "round: unknown key; did you mean 'rounds'?"),
        ([("runs = 2", "runs = true")], "runs: must be a whole number; got true."),
        ([("runs = 2", "against = ['stabel']")], "against[0]: target must be one of"),
        ([("runs = 2", "against = []")], "against: must be a list with at least one entry; got []."),
        ([("kind = \"squared\"", "kind = \"squared\", L2 = 1")], "L2: unknown key; did you mean 'l2'?"),
        ([('kind = "rrm"', 'kind = "rgd"'), ("rows = 5", "step = [0.1, 0.2]")],
         "learners.RRM, in worlds.mine: step must hold 10 numbers; got 2."),
        ([("runs = 2", "start = [9, 9]")], "start, in worlds.mine: start must lie in the domain"),
        ([("runs = 2", "start = [0]")], "start, in worlds.mine: start must have shape (2,)"),
        ([('"rrm"', '"rmm"')], "learners.RRM.kind: unknown kind 'rmm'; did you mean 'rrm'?"),
        ([("rows = 5", "rows = 0")], "learners.RRM: rows must be at least 1; got 0."),
        ([("[learners.RRM]", '[learners."my RRM"]'), ("rows", "row")], 'learners."my RRM".row: unk'),
        ([("[worlds.mine]", "[worlds.a]\nready = 'credt'\n[worlds.mine]")], "worlds.a.ready: unknown"),
        ([("[worlds.mine]", "[worlds.a]\nready = 'quadratic'\nrounds = 3\n[worlds.mine]")],
         "worlds: must have one number of rounds; got 3 in a, 10 in mine."),
        ([(BASE, '{kind = "empirical", rows = "no.csv"}')], "base.rows: there is no file"),
        ([(BASE, f'{{kind = "mixture", weights = [0.5, 0.4], components = [{BASE}, {BASE}]}}')],
         "worlds.mine.response.base: weights must sum to one; got a sum of 0.9."),
        ([(BASE, f'{{kind = "mixture", weights = [1], components = [{BASE.replace("cov", "cow")}]}}')],
         "worlds.mine.response.base.components[0].cow: unknown key; did you mean 'cov'?"),
    ],
)  # fmt: skip
def test_a_mistake_is_named_with_its_place(changes, sentence):
    with pytest.raises(config.ConfigError) as caught:
        config.parse(edited(*changes))
    assert any(sentence in line for line in str(caught.value).splitlines()), str(caught.value)


def test_all_mistakes_are_named_together():
    text = edited(("radius", "radus"), ("rows = 5", "rows = 'five'"), ("b = 0.5", "b = -1"))
    with pytest.raises(config.ConfigError) as caught:
        config.parse(text)
    places = [line.split(":")[0] for line in str(caught.value).splitlines()]
    assert places == ["worlds.mine.drift.radus", "worlds.mine.mixing", "learners.RRM.rows"]


def test_a_wrong_key_hides_no_mistake_beside_it():
    text = edited(("rounds = 10", "ruonds = 10"), ("radius", "radus"), ("rows = 5", "rows = 0"))
    with pytest.raises(config.ConfigError) as caught:
        config.parse(text.replace("b = 0.5", "b = 0.5, c = 1"))
    places = [line.split(":")[0] for line in str(caught.value).splitlines()]
    assert set(places) == {
        "ruonds", "worlds.mine.drift.radus", "worlds.mine.mixing.c", "learners.RRM",
    }  # fmt: skip


def test_what_is_not_toml_is_said_with_its_line():
    with pytest.raises(config.ConfigError, match=r"line 2 is not TOML: invalid value in 'rounds ="):
        config.parse(edited(("rounds = 10", "rounds = ")))


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        ("x,y\n1,2\n3,oops\n", r"must hold numbers; got 'oops' in line 3"),
        ("1,2\n3\n", r"must have 2 columns in every line; got 1 in line 2"),
        ("x,y\n", r"must hold numbers; got none"),
        ("1,nan\n", r"rows must be finite; got nan at index \(0, 1\)"),
    ],
)
def test_a_data_file_that_makes_no_sense_is_refused(tmp_path, content, complaint):
    (tmp_path / "rows.csv").write_text(content)
    with pytest.raises(config.ConfigError, match=complaint):
        config.parse(edited((BASE, '{kind = "empirical", rows = "rows.csv"}')), tmp_path)


def test_a_file_that_is_not_there_is_named_with_the_nearest_that_is(tmp_path):
    (tmp_path / "world.toml").write_text(TEXT)
    with pytest.raises(FileNotFoundError, match=r"no such file. Did you mean 'world.toml'"):
        config.read(tmp_path / "word.toml")
    with pytest.raises(config.ConfigError, match="is a folder"):
        config.read(tmp_path)


def test_a_file_that_is_not_text_is_refused_with_its_line(tmp_path):
    (tmp_path / "world.toml").write_bytes(b"rounds = 3\nname = '\xff'\n")
    with pytest.raises(config.ConfigError, match=r"line 2 is not UTF-8 text"):
        config.read(tmp_path / "world.toml")
