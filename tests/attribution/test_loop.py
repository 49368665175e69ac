import dataclasses

import numpy as np
import pytest

from performative.attribution import Report, loop, simulate_log
from performative.attribution.cells import Cells


def exact(matrix, contrasts, count=1e4, world=None):
    """Cells without sampling error: two arms a round, θ and θ + contrast."""
    rounds, dim = contrasts.shape
    rng = np.random.default_rng(0)
    base = rng.normal(size=(rounds, dim))
    theta = np.stack([base, base + contrasts], axis=1).reshape(-1, dim)
    world = np.zeros(dim) if world is None else world
    return Cells(
        round=np.repeat(np.arange(rounds), 2), count=np.full(2 * rounds, float(count)),
        mean=theta @ matrix.T + world, covariance=np.broadcast_to(np.eye(dim), (2 * rounds, dim, dim)),
        theta=theta, arm=np.tile([0, 1], rounds), model=np.arange(2 * rounds),
    )  # fmt: skip


def spiral(radius):
    c, s = radius * np.cos(1.2), radius * np.sin(1.2)
    return np.array([[c, -s, 0], [s, c, 0], [0, 0, 0.1]])


@pytest.mark.parametrize(
    ("matrix", "word"),
    [
        (0.5 * np.eye(3), "stable"),
        (-1.5 * np.eye(3), "unstable"),
        (np.diag([1.5, 0.0, 0.0]), "unstable"),
        (spiral(1.3), "unstable"),
        (spiral(0.7), "stable"),
        (np.eye(3), "cannot tell"),
    ],
)
def test_the_spectral_radius_decides_not_the_pooled_slope(matrix, word):
    cells = exact(matrix, np.tile(np.eye(3), (8, 1)))
    found = loop.examine(cells)
    assert found.verdict == word
    assert found.known == 3
    radius = np.abs(np.linalg.eigvals(matrix)).max()
    assert found.contraction.value == pytest.approx(radius, abs=1e-9)
    assert found.contraction.low <= radius <= found.contraction.high


def test_directions_that_were_not_tried_are_said_and_a_leak_withholds_the_verdict():
    contrasts = np.tile(np.eye(3)[:2], (8, 1))
    cells = exact(np.diag([0.5, 0.3, 0.0]), contrasts)
    within = loop.examine(dataclasses.replace(cells, theta=cells.theta * [1, 1, 0]))
    assert (within.verdict, within.known, within.of) == ("stable", 2, 3)
    elsewhere = loop.examine(dataclasses.replace(cells, theta=cells.theta * [1, 1, 3]))
    assert elsewhere.verdict == "cannot tell"  # where the third weight goes, nobody looked
    leaking = np.diag([0.5, 0.3, 0.0])
    leaking[2, 0] = 0.5
    assert loop.examine(exact(leaking, contrasts)).verdict == "cannot tell"


def test_a_direction_tried_a_little_may_speak_against_stability():
    contrasts = np.concatenate(
        [np.tile(np.eye(2)[:1], (8, 1)), 0.02 * np.tile(np.eye(2)[1:], (8, 1))]
    )
    matrix = np.diag([0.3, 1.5])
    found = loop.examine(exact(matrix, contrasts))
    assert found.known == 1
    assert found.verdict == "cannot tell"


def test_stable_point_is_where_retraining_stops():
    matrix, world = np.array([[0.4, 0.2], [-0.3, 0.1]]), np.array([1.0, -0.5])
    cells = exact(matrix, np.tile(np.eye(2), (6, 1)), world=world)
    fixed = np.linalg.solve(np.eye(2) - matrix, world)
    deployed = cells.theta[-1]
    found = loop.stable_point(cells, deployed)
    np.testing.assert_allclose(found.point, fixed, atol=1e-12)
    assert found.distance.value == pytest.approx(np.linalg.norm(fixed - deployed))
    assert found.outside == pytest.approx(0.0, abs=1e-9)
    _check_error_by_draws(cells, deployed, found.error)


def _check_error_by_draws(cells, deployed, error):
    rng = np.random.default_rng(1)
    points = [
        loop.stable_point(
            dataclasses.replace(cells, mean=cells.mean + 0.01 * rng.normal(size=cells.mean.shape)),
            deployed,
        ).point
        for _ in range(800)
    ]
    np.testing.assert_allclose(error, np.std(points, axis=0), rtol=0.12)


def test_pooled_contraction_of_two_arms_is_equation_4():
    rng = np.random.default_rng(2)
    hessian = np.array([[2.0, 0.5], [0.5, 1.0]])
    gradients, delta = rng.normal(size=(2, 2)), np.array([0.3, -0.2])
    cells = exact(np.zeros((2, 2)), delta[None])
    cells = dataclasses.replace(cells, mean=-np.linalg.solve(hessian, gradients.T).T)
    found = loop.pooled_contraction(cells, hessian).value[0]
    # θ_1 − θ_2 = −δ here, which appears twice
    expected = (delta @ (gradients[0] - gradients[1])) / (delta @ hessian @ delta)
    assert found == pytest.approx(expected, rel=1e-12)


def test_norm_of_the_response_is_covered():
    covered = []
    for seed in range(15):
        log = simulate_log(
            "pair", kind="quadratic", kappa=0.6, alpha=0.0, rounds=10, rows=4000, seed=seed
        )
        found = Report(log.summary).sufficient
        covered.append(found.low <= 0.6 <= found.high)
    assert np.mean(covered) > 0.85


@pytest.mark.parametrize("design", ["pair", "canary", "holdout"])
def test_no_diverging_loop_is_called_stable(design):
    turned = np.zeros((5, 5))
    turned[:2, :2] = spiral(1.3)[:2, :2]
    for matrix in (-1.5 * np.eye(5), np.diag([1.5, 0, 0, 0, 0]), turned, 1.2 * np.eye(5)):
        for seed in range(3):
            log = simulate_log(design, kappa=matrix, alpha=0.0, rounds=8, rows=1000, seed=seed)
            assert Report(log.summary).verdict["loop"] != "stable"


def test_logistic_contraction_in_the_credit_world_is_that_of_its_exact_gradients():
    log = simulate_log("pair", kind="credit", kappa=3.0, alpha=0.0, rounds=24, rows=2000, seed=1)
    report = Report(log.summary)
    reference, found = report.summary.data["reference"].values, report.retraining
    gradients = log.world.gradient(found.cells.round + 1, reference, found.cells.theta)
    contrast = found.cells.contrast * found.cells.count[:, None]
    size = np.sum((contrast @ found.hessian) * found.cells.contrast)
    truth = -np.sum(contrast * gradients) / size
    figure = report.pooled_contraction
    assert abs(figure.value - truth) < 1.7 * figure.half_width
    assert figure.half_width < 0.3 * truth
