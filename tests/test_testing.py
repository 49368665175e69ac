"""`check_learner` and `check_world` pass what keeps the contract and name the rule that is broken."""

from typing import Any, ClassVar, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import performative as pp
from performative.learners import Learner
from performative.testing import check_learner, check_world


def little_world(rounds: int = 6, **changes: Any) -> pp.World:
    pieces: dict[str, Any] = {
        "response": pp.responses.location(0.3, pp.Gaussian([0.5, -0.2], 1.0)),
        "drift": pp.drifts.iid_ball(0.5, seed=3),
        "mixing": pp.mixing.polynomial(0.5),
        "loss": pp.losses.squared(),
        "domain": pp.domains.ball(1.0),
    }
    return pp.World(**{**pieces, **changes}, rounds=rounds)


class State(NamedTuple):
    theta: Any


class Descent(Learner):
    """A learner that keeps the contract; the broken ones below break one rule of it each."""

    step: np.ndarray = eqx.field(default_factory=lambda: np.asarray(0.5))

    def init(self, problem, start):
        return State(start)

    def deploy(self, state, key):
        return state.theta[None]

    def update(self, state, feedback):
        ahead = state.theta - self.step * feedback.gradient(state.theta)
        return State(feedback.domain.projection(ahead))


class OnRows(Descent):
    feedback: ClassVar[str] = "samples"
    rows: ClassVar[int] = 5
    randomised: ClassVar[bool] = True


class TwoArms(Learner):
    feedback: ClassVar[str] = "risk"
    arms: ClassVar[int] = 2
    randomised: ClassVar[bool] = True

    def init(self, problem, start):
        return State(0.9 * start)

    def deploy(self, state, key):
        direction = jax.random.normal(key, state.theta.shape)
        away = 0.05 * direction / jnp.linalg.norm(direction)
        return jnp.stack([state.theta + away, state.theta - away])

    def update(self, state, feedback):
        return State(0.9 * state.theta - 0.01 * (feedback.risks[0] - feedback.risks[1]))


@pytest.mark.parametrize("learner", [Descent(), OnRows(), TwoArms()])
def test_learners_that_keep_the_contract_pass(learner):
    check_learner(learner, little_world())


def test_the_shipped_learner_passes_in_the_default_world():
    check_learner(pp.learners.rrm())


class UnknownFeedback(Descent):
    feedback: ClassVar[str] = "everything"


class AsksForMore(Descent):
    feedback: ClassVar[str] = "risk"


class SingleArm(Descent):
    def deploy(self, state, key):
        return state.theta


class InFloat32(Descent):
    def deploy(self, state, key):
        return state.theta[None].astype(jnp.float32)


class GrowingState(Descent):
    def update(self, state, feedback):
        return State(jnp.concatenate([state.theta, state.theta]))


class OtherState(Descent):
    def update(self, state, feedback):
        return (state.theta,)


class Branches(Descent):
    def update(self, state, feedback):
        return state if state.theta[0] > 0 else super().update(state, feedback)


class WithoutProjection(Descent):
    def update(self, state, feedback):
        return State(state.theta + 0.3)


class UnseededRows(OnRows):
    randomised: ClassVar[bool] = False


class Impure(Descent):
    def update(self, state, feedback):
        return State(0.1 * state.theta + 0.1 * np.random.random())  # noqa: NPY002


class UndeclaredDice(Descent):
    def deploy(self, state, key):
        return state.theta[None] + 0.01 * jax.random.normal(key, (1, 2))


class LooksAtTheWorld(Descent):
    def prepare(self, problem):
        return problem.constants.world  # pyright: ignore[reportAttributeAccessIssue]


class JaxLeaf(Descent):
    step: Any = eqx.field(default_factory=lambda: jnp.asarray(0.5))


@pytest.mark.parametrize(
    ("learner", "rule"),
    [
        (3, r"derive from pp.learners.Learner; got 3"),
        (UnknownFeedback(), r"feedback must be one of .*; got 'everything'"),
        (AsksForMore(), r"what the learner declares.*'risk'.*'gradient'"),
        (SingleArm(), r"deploy must return \(arms, parameters\) = \(1, 2\); got \(2,\)"),
        (InFloat32(), r"float64 models; got float32"),
        (GrowingState(), r"same shapes and types.*float64\[4\] after float64\[2\]"),
        (OtherState(), r"same structure as init"),
        (Branches(), r"no Python branches; got TracerBool"),
        (WithoutProjection(), r"stay in the domain"),
        (UnseededRows(), r"sees samples must declare randomised = True"),
        (Impure(), r"must be pure"),
        (UndeclaredDice(), r"a key for learners that declare randomised = True; got TypeError"),
        (LooksAtTheWorld(), r"no attribute 'world'"),
        (JaxLeaf(), r"NumPy numbers"),
    ],
)
def test_a_broken_learner_is_told_which_rule(learner, rule):
    with pytest.raises(AssertionError, match=rule) as caught:
        check_learner(learner, little_world())
    assert "\n" not in str(caught.value)
    assert str(caught.value).endswith((".", "..."))


def test_a_learner_that_cannot_be_pickled_is_told():
    class Local(Descent):
        pass

    with pytest.raises(AssertionError, match="survive pickling; define it at the top level"):
        check_learner(Local(), little_world())


# Worlds


def bernoulli(key, theta, n):
    """Labels that flip with a probability that depends on the model: rows jump, means do not."""
    first, second = jax.random.split(key)
    x = jax.random.normal(first, (n, 1))
    y = jnp.where(jax.random.uniform(second, (n,)) < jax.nn.sigmoid(theta[0] - x[:, 0]), 1.0, -1.0)
    return jnp.column_stack([x, y])


def huber(row, theta):
    gap = row - theta
    return jnp.sum(jnp.sqrt(1.0 + gap**2)) + 0.05 * theta @ theta


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"loss": pp.losses.custom(huber), "draws": 2048},
        {"drift": None, "mixing": None, "response": pp.responses.lagged(
            pp.responses.location(0.2, pp.Empirical([[0.0, 1.0], [1.0, 2.0]])), 0.5)},
    ],
    ids=["squared", "custom", "lagged"],
)  # fmt: skip
def test_worlds_that_keep_the_contract_pass(changes):
    check_world(little_world(**changes))


def test_a_world_whose_rows_jump_with_the_model_passes():
    check_world(
        pp.World(
            response=pp.responses.custom(bernoulli, dimension=2),
            loss=pp.losses.logistic(l2=0.5, labelled=True),
            domain=pp.domains.ball(1.0),
            rounds=2,
            draws=512,
        )
    )


def hinge(row, theta):
    return jnp.maximum(0.0, 1.0 - row @ theta)


def wrong_gradient(row, theta):
    return jnp.sum((row - theta) ** 2) - 0.5 * jax.lax.stop_gradient(jnp.sum((row - theta) ** 2))


@pytest.mark.parametrize(
    ("changes", "rule"),
    [
        ({"loss": pp.losses.custom(hinge), "draws": 2048}, "the loss must have two"),
        (
            {"loss": pp.losses.custom(wrong_gradient), "draws": 2048},
            "the gradient must be the derivative of the decoupled risk",
        ),
        (
            {"loss": pp.losses.custom(lambda row, theta: jnp.sum((row - theta) ** 2))},
            "survive pickling; define its functions at the top level",
        ),
    ],
    ids=["hinge", "wrong gradient", "lambda"],
)
def test_a_broken_world_is_told_which_rule(changes, rule):
    with pytest.raises(AssertionError, match=rule) as caught:
        check_world(little_world(**changes))
    assert "\n" not in str(caught.value)


class Crooked(pp.Gaussian):
    """Its rows are not where its mean is."""

    def rows(self, noise):
        return super().rows(noise) + 0.5


def test_a_distribution_that_does_not_match_its_rows_is_told():
    crooked = pp.responses.custom(distribution=crooked_at, dimension=2)
    with pytest.raises(AssertionError, match="the rows' mean must be the distribution's"):
        check_world(little_world(response=crooked, drift=None, mixing=None))


def crooked_at(theta):
    return Crooked(0.2 * theta, 1.0)


def memory_sampler(rng, theta, n):
    memory_sampler.calls += 1  # pyright: ignore[reportFunctionMemberAccess]
    return np.full((n, 2), float(memory_sampler.calls))  # pyright: ignore[reportFunctionMemberAccess]


memory_sampler.calls = 0  # pyright: ignore[reportFunctionMemberAccess]


def test_a_sampler_with_a_memory_is_told():
    world = pp.World(
        response=pp.responses.custom(memory_sampler, dimension=2, backend="numpy"),
        loss=pp.losses.squared(),
        domain=pp.domains.ball(1.0),
        rounds=1,
        draws=64,
    )
    with pytest.raises(AssertionError):
        check_world(world)


def test_what_is_no_world_is_told():
    with pytest.raises(AssertionError, match=r"world must be a pp.World; got 3\."):
        check_world(3)
