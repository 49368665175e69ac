import dataclasses

import numpy as np
import pytest

from attribution import rows as oracle
from performative.attribution import design, diagnostics, simulate_log
from performative.attribution.cells import Cells


def cells_of(*args, **setting):
    return design.cells_of(simulate_log(*args, **setting).summary)


@pytest.fixture(scope="module")
def cells():
    columns, thetas, _ = oracle.make(seed=4)
    return oracle.cells_of(columns, thetas)


def test_contrasts_split_into_what_the_response_explains_and_what_it_leaves(cells):
    means = cells.within(cells.mean)
    precision = np.linalg.inv(cells.pooled)
    whole = np.einsum("c,ci,ij,cj->", cells.count, means, precision, means)
    explained, left = diagnostics.omnibus(cells), diagnostics.lack_of_fit(cells)
    assert explained.statistic + left.statistic == pytest.approx(whole, rel=1e-10)
    assert (explained.freedom, left.freedom) == (9.0, 6.0)


def test_size_of_the_tests_where_nothing_responds():
    rejected = {"score": [], "omnibus": [], "combined": [], "fit": [], "flip": []}
    for seed in range(100):
        part = cells_of("pair", kappa=0.0, rounds=8, rows=1000, seed=seed)
        rejected["score"].append(diagnostics.score(part).p < 0.05)
        rejected["omnibus"].append(diagnostics.omnibus(part).p < 0.05)
        rejected["combined"].append(diagnostics.no_response(part) < 0.05)
        rejected["fit"].append(diagnostics.lack_of_fit(part).p < 0.01)
        rejected["flip"].append(diagnostics.sign_flip(part).p < 0.05)
    size = {name: np.mean(values) for name, values in rejected.items()}
    assert size["fit"] < 0.05
    for name in ("score", "omnibus", "combined", "flip"):
        assert size[name] < 0.12, name


def test_a_rotation_is_missed_by_the_score_and_found_by_the_omnibus_test():
    turn = np.array([[0.0, -0.4], [0.4, 0.0]])
    part = cells_of("pair", kappa=turn, alpha=0.0, rounds=8, rows=4000, seed=1)
    assert diagnostics.score(part).p > 0.05
    assert diagnostics.omnibus(part).p < 1e-6
    assert diagnostics.no_response(part) < 1e-6


def test_a_response_that_bends_does_not_fit():
    log = simulate_log("pair", alpha=0.0, respond=lambda theta: 0.6 * np.tanh(3 * theta), seed=2)
    assert diagnostics.lack_of_fit(design.cells_of(log.summary)).p < 1e-6


def test_immutable_features_see_a_small_steady_imbalance():
    part = cells_of("pair", kappa=0.3, alpha=0.0, seed=3)
    sound = diagnostics.control(_without_response(part), np.array([3, 4]))
    assert sound.p > 0.01
    step = 0.03 * np.sqrt(0.25) * (part.arm == 0)[:, None]
    uneven = dataclasses.replace(_without_response(part), mean=_without_response(part).mean + step)
    assert diagnostics.control(uneven, np.array([3, 4])).p < 1e-4


def _without_response(cells: Cells) -> Cells:
    return dataclasses.replace(cells, mean=cells.mean - 0.3 * cells.theta)


@pytest.mark.parametrize(
    ("share", "tilt", "sound"),
    [
        (0.5, 0.0, True),
        (0.1, 0.0, True),
        (0.5, 0.02, False),
        (0.1, 0.02, False),
        (0.5, -0.05, False),  # a tenth of an arm is lost: nobody intends 45 to 55
        (1 / 3, 0.0, True),
    ],
)
def test_sample_ratio_is_held_against_the_nearest_round_split(share, tilt, sound):
    rng = np.random.default_rng(5)
    first = rng.binomial(10_000, share + tilt, size=12)
    count = np.stack([first, 10_000 - first], axis=1).ravel().astype(float)
    part = Cells(
        round=np.repeat(np.arange(12), 2), count=count, mean=np.zeros((24, 1)),
        covariance=np.ones((24, 1, 1)), theta=np.tile([[0.0], [1.0]], (12, 1)),
        arm=np.tile([0, 1], 12), model=np.tile([0, 1], 12),
    )  # fmt: skip
    split = {0: 1.0, 1: 2.0} if share == 1 / 3 else None
    assert (diagnostics.sample_ratio(part, split).p > 1e-4) == sound


def test_carry_over_is_found_and_its_long_run_unbiased():
    found = [
        diagnostics.carry_over(
            cells_of("pair", kappa=0.3, alpha=0.0, carry=0.3, rounds=24, rows=4000, seed=seed)
        )
        for seed in range(20)
    ]
    long_run = np.array([one.value[2] for one in found])
    assert abs(long_run.mean() - 0.3) < 4 * long_run.std() / np.sqrt(20)
    assert np.mean([one.value[0] for one in found]) == pytest.approx(0.21, abs=0.02)
    assert all(one.p_value(1) < 0.05 for one in found)


def test_a_response_that_is_no_multiple_of_the_identity_does_not_pass_for_carry_over():
    rng = np.random.default_rng(6)
    matrix = rng.normal(size=(5, 5)) / 3
    found = [
        diagnostics.carry_over(cells_of("pair", kappa=matrix, alpha=0.0, rounds=16, seed=seed))
        for seed in range(24)
    ]
    assert np.mean([one.p_value(1) < 0.01 for one in found]) < 0.13


def test_a_response_that_fades_is_told_from_one_that_is_no_multiple_of_the_identity():
    rng = np.random.default_rng(7)
    rounds, matrix = 16, rng.normal(size=(3, 3)) / 3
    theta = rng.normal(size=(2 * rounds, 3))
    t = np.repeat(np.arange(rounds), 2)

    def asked(factor):
        part = Cells(
            round=t, count=np.full(2 * rounds, 2e3), mean=factor[t, None] * theta @ matrix.T,
            covariance=np.broadcast_to(np.eye(3), (2 * rounds, 3, 3)), theta=theta,
            arm=np.tile([0, 1], rounds), model=np.arange(2 * rounds),
            aligned=(np.arange(3), np.arange(3)),
        )  # fmt: skip
        return diagnostics.steadiness(part), diagnostics.lack_of_fit(part)

    constant, _ = asked(np.ones(rounds))
    assert constant.value[1] == pytest.approx(0.0, abs=1e-12)
    matrix = 0.3 * np.eye(3)
    fading, fit = asked(1.0 - 0.1 * np.log1p(np.arange(rounds)))
    assert fading.value[1] == pytest.approx(-0.03, abs=1e-12)
    assert fading.p_value(1) < 1e-6 < 0.05 < fit.p  # all contrasts together see less of it


def test_repeated_units_widen_the_interval_and_the_chi_squares_allow_for_them():
    covered, rejected, ratio = [], [], []
    for seed in range(24):
        log = simulate_log(
            "holdout",
            kappa=0.0,
            alpha=0.0,
            rounds=8,
            rows=1000,
            units=1000,
            unit_share=0.7,
            seed=seed,
        )
        part = design.cells_of(log.summary)
        found = diagnostics.strength_uncertain(part)
        covered.append(abs(found.value[0]) < found.estimate().half_width)
        rejected.append(diagnostics.omnibus(part).p < 0.05)
        ratio.append(diagnostics.repetition(part, found))
    assert np.mean(covered) > 0.8
    assert np.mean(rejected) < 0.22
    assert np.median(ratio) > 1.5
