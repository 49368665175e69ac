"""Input that makes no sense is refused in one sentence: the argument and what was given."""

import functools
import re
from collections.abc import Callable
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
import pytest

import performative as pp

EYE = np.eye(2)
ROWS = np.array([[1.0, 2.0], [3.0, 4.0], [0.0, 1.0]])
LABELLED = np.array([[1.0, 2.0, 1.0], [3.0, 4.0, -1.0], [0.0, 1.0, 1.0]])


def gaussian():
    return pp.Gaussian([0.0, 0.0], 1.0)


def world(**changes):
    """A small good world, with one piece replaced."""
    pieces = {
        "response": pp.responses.location(0.1 * EYE, gaussian()),
        "drift": pp.drifts.fixed(gaussian()),
        "mixing": pp.mixing.constant(0.5),
        "loss": pp.losses.logistic(l2=1.0),
        "domain": pp.domains.ball(1.0),
        "rounds": 3,
    }
    return pp.World(**(pieces | changes))


@functools.cache
def good():
    return world()


@functools.cache
def run():
    return pp.simulate(good(), pp.learners.rrm())


def simulate(**changes):
    return pp.simulate(**({"world": good(), "learner": pp.learners.rrm()} | changes))


def deploy(theta, **options):
    return pp.Session(good(), seed=0).deploy(theta, **options)


def labelled(rows, **loss):
    """A world of labelled rows under the logistic loss."""
    return world(
        response=pp.responses.strategic(pp.Empirical(rows), modifiable=[0]),
        drift=pp.drifts.fixed(pp.Empirical(LABELLED)),
        loss=pp.losses.logistic(l2=1.0, labelled=True, **loss),
    )


def lagged():
    return pp.responses.lagged(pp.responses.location(0.1, gaussian()), 0.5)


def custom(distribution):
    return world(response=pp.responses.custom(distribution=distribution, dimension=2))


def sampled(sampler):
    """A world whose rows a user draws with NumPy."""
    response = pp.responses.custom(sampler, dimension=2, backend="numpy")
    return pp.World(
        response=response, loss=pp.losses.squared(), domain=pp.domains.ball(2.0), rounds=2, draws=10
    )


class Peeking(pp.learners.Learner):
    """Declares the risk of what it deployed, and asks for more."""

    feedback = "risk"
    wish = "gradient"

    def init(self, problem, start):
        return start

    def deploy(self, state, key):
        return state[None]

    def update(self, state, feedback):
        asked = getattr(feedback, self.wish)
        return state - asked(state) if self.wish == "gradient" else state - asked[0]


class PeekingAtRows(Peeking):
    wish = "rows"


class PeekingAtTheWorld(Peeking):
    wish = "world"


class Mumbling(Peeking):
    feedback = "sample"


class Bad(NamedTuple):
    call: Callable[[], Any]
    words: str  # a regular expression that the sentence must match: the argument's name, above all
    given: str = ""  # what was given, as it must appear in the sentence
    error: type[Exception] | tuple[type[Exception], ...] = (ValueError, TypeError)


TABLE = {
    # distributions
    "a covariance that is not symmetric": Bad(
        lambda: pp.Gaussian([0, 0], [[1.0, 0.5], [0.2, 1.0]]), r"\bcov\b.*symmetric"
    ),
    "a covariance that is not positive semidefinite": Bad(
        lambda: pp.Gaussian([0, 0], [[1.0, 2.0], [2.0, 1.0]]), r"\bcov\b.*semidefinite", "-1"
    ),
    "a negative variance": Bad(lambda: pp.Gaussian([0, 0], -2.0), r"\bcov\b", "-2"),
    "one negative variance of several": Bad(lambda: pp.Gaussian([0, 0], [1, -3]), r"\bcov\b", "-3"),
    "a covariance of another dimension": Bad(
        lambda: pp.Gaussian([0, 0], np.eye(3)), r"\bcov\b", "3"
    ),
    "a variance vector of another length": Bad(
        lambda: pp.Gaussian([0, 0], [1, 1, 1]), r"\bcov\b", "3"
    ),
    "a mean with NaN": Bad(lambda: pp.Gaussian([0, np.nan], 1.0), r"\bmean\b", "nan"),
    "an infinite mean": Bad(lambda: pp.Gaussian([0, np.inf], 1.0), r"\bmean\b", "inf"),
    "a covariance with NaN": Bad(lambda: pp.Gaussian([0, 0], np.nan), r"\bcov\b", "nan"),
    "a mean of words": Bad(lambda: pp.Gaussian(["low", "high"], 1.0), r"\bmean\b", "low"),
    "a mean that is complex": Bad(lambda: pp.Gaussian([1j, 0], 1.0), r"\bmean\b"),
    "an empty mean": Bad(lambda: pp.Gaussian([], 1.0), r"\bmean\b"),
    "a mean of three axes": Bad(lambda: pp.Gaussian(np.zeros((2, 2, 2)), 1.0), r"\bmean\b"),
    "no rows": Bad(lambda: pp.Empirical(np.zeros((0, 2))), r"\brows\b"),
    "rows with NaN": Bad(lambda: pp.Empirical([[1.0, np.nan]]), r"\brows\b", "nan"),
    "rows with infinity": Bad(lambda: pp.Empirical([[1.0, -np.inf]]), r"\brows\b", "inf"),
    "rows of words": Bad(lambda: pp.Empirical([["a", "b"]]), r"\brows\b"),
    "ragged rows": Bad(lambda: pp.Empirical([[1.0, 2.0], [1.0]]), r"\brows\b"),
    "weights that do not sum to one": Bad(
        lambda: pp.Empirical(ROWS, weights=[0.5, 0.4, 0.2]), r"\bweights\b", "1.1"
    ),
    "a negative weight": Bad(
        lambda: pp.Empirical(ROWS, weights=[1.2, -0.4, 0.2]), r"\bweights\b", "-0.4"
    ),
    "too few weights": Bad(lambda: pp.Empirical(ROWS, weights=[0.5, 0.5]), r"\bweights\b", "2"),
    "weights with NaN": Bad(
        lambda: pp.Empirical(ROWS, weights=[np.nan, 0.5, 0.5]), r"\bweights\b", "nan"
    ),
    "a mixture of different dimensions": Bad(
        lambda: pp.Mixture([gaussian(), pp.Gaussian([0.0], 1.0)], [0.5, 0.5]),
        r"component|dimension",
    ),
    "mixture weights that do not sum to one": Bad(
        lambda: pp.Mixture([gaussian(), gaussian()], [0.5, 0.9]), r"\bweights\b", "1.4"
    ),
    "a mixture of nothing": Bad(lambda: pp.Mixture([], []), r"\bcomponents\b"),
    "a mixture of numbers": Bad(lambda: pp.Mixture([1.0, 2.0], [0.5, 0.5]), r"\bcomponents\b"),
    "a distance between dimensions": Bad(
        lambda: pp.wasserstein(gaussian(), pp.Gaussian([0.0], 1.0)), r"dimension|\bq\b"
    ),
    "a negative number of rows": Bad(lambda: gaussian().sample(-1, seed=0), r"\bn\b", "-1"),
    # responses
    "a matrix of another height": Bad(
        lambda: pp.responses.location(np.zeros((3, 2)), gaussian()), r"\bmatrix\b", "3"
    ),
    "a matrix with NaN": Bad(
        lambda: pp.responses.location(np.nan * EYE, gaussian()), r"\bmatrix\b", "nan"
    ),
    "a matrix of words": Bad(
        lambda: pp.responses.location("strong", gaussian()), r"\bmatrix\b", "strong"
    ),
    "a base that is no distribution": Bad(
        lambda: pp.responses.location(EYE, [0.0, 0.0]), r"\bbase\b"
    ),
    "a base that changes with the rounds": Bad(
        lambda: world(response=pp.responses.location(EYE, pp.Gaussian(np.zeros((3, 2)), 1.0))),
        r"\bbase\b",
    ),
    "scales of another shape": Bad(
        lambda: pp.responses.location_scale(EYE, np.zeros((3, 2, 2)), gaussian()),
        r"\bscales\b",
        "3",
    ),
    "a response that moves labels": Bad(
        lambda: world(
            response=pp.responses.location(np.ones((3, 2)), pp.Empirical(LABELLED)),
            drift=pp.drifts.fixed(pp.Empirical(LABELLED)),
            loss=pp.losses.logistic(l2=1.0, labelled=True),
        ),
        r"\bresponse\b.*labels of -1 or 1",
    ),
    "a map without labels": Bad(
        lambda: pp.World(
            map=pp.maps.custom(
                distribution=lambda t, theta: pp.Gaussian(jnp.zeros(3) + theta[0], 1.0), dimension=3
            ),
            loss=pp.losses.logistic(l2=1.0, labelled=True),
            domain=pp.domains.ball(1.0),
            rounds=3,
        ),
        r"\bmap\b.*labels of -1 or 1",
    ),
    "components that are no list": Bad(
        lambda: pp.Mixture(gaussian(), [1.0]), r"\bcomponents\b", "Gaussian"
    ),
    "modifiable columns that could be a mask": Bad(
        lambda: world(response=pp.responses.strategic(gaussian(), modifiable=[1, 0])),
        r"\bmodifiable\b.*True",
        "[1, 0]",
    ),
    "a mask of the wrong length": Bad(
        lambda: world(response=pp.responses.strategic(gaussian(), modifiable=[True])),
        r"\bmodifiable\b",
        "1",
    ),
    "a lagged response that lags": Bad(
        lambda: pp.responses.lagged(lagged(), 0.5),
        r"\bresponse\b",
        "lagged",
    ),
    "a loss in NumPy": Bad(
        lambda: world(loss=pp.losses.custom(lambda z, theta: np.sum(np.square(z - theta)))),
        r"\bloss\b.*jnp",
    ),
    "a loss with a branch": Bad(
        lambda: world(loss=pp.losses.custom(lambda z, theta: z[0] if theta[0] > 0 else theta[0])),
        r"\bloss\b.*jnp.where",
    ),
    "a distribution with a branch": Bad(
        lambda: custom(lambda theta: pp.Gaussian(theta if theta[0] > 0 else -theta, 1.0)),
        r"jnp.where",
    ),
    "a lagged distribution in NumPy": Bad(
        lambda: world(
            response=pp.responses.lagged(
                pp.responses.custom(
                    distribution=lambda theta: pp.Gaussian(np.tanh(theta), 1.0), dimension=2
                ),
                0.5,
            )
        ),
        r"\bjnp\b",
    ),
    "a sampler with a branch": Bad(
        lambda: world(
            response=pp.responses.custom(
                lambda key, theta, n: jnp.ones((n, 2)) * (1.0 if theta[0] > 0 else 2.0), dimension=2
            ),
            draws=10,
        ),
        r"jnp.where",
    ),
    "a covariance that is none for some models": Bad(
        lambda: custom(lambda theta: pp.Gaussian(theta, 1.0 - 2.0 * theta[0])),
        r"\bcov\b.*semidefinite",
        "at the model",
    ),
    "masked rows": Bad(
        lambda: pp.Empirical(np.ma.masked_greater(ROWS, 3.5)), r"\brows\b.*masked", "1 masked"
    ),
    "weights of two axes": Bad(
        lambda: pp.Empirical(ROWS, weights=[[0.5, 0.2, 0.3]]), r"\bweights\b", "(1, 3)"
    ),
    "a switch between one": Bad(
        lambda: pp.drifts.switching(gaussian(), period=2), r"\bdistributions\b", "Gaussian"
    ),
    "a map that returns nothing": Bad(
        lambda: pp.sweep({"w": good()}, {"RRM": pp.learners.rrm()}, map=lambda play, blocks: None),
        r"\bmap\b",
        "None",
    ),
    "a file without a name": Bad(lambda: pp.load(None), r"\bpath\b", "None"),
    "a run saved nowhere": Bad(lambda: run().save(None), r"\bpath\b", "None"),
    "a NumPy sampler that fails": Bad(
        lambda: sampled(lambda rng, theta, n: rng.normal(size=(n, 2)) / (1 // 0)),
        r"\bsampler\b.*ZeroDivisionError",
    ),
    "a NumPy sampler that draws too many columns": Bad(
        lambda: sampled(lambda rng, theta, n: rng.normal(size=(n, 3))),
        r"\bsampler\b.*\(4, 2\)",
        "(4, 3)",
    ),
    "a NumPy sampler that fails later": Bad(
        lambda: sampled(
            lambda rng, theta, n: rng.normal(size=(n, 2)) if theta[0] < 3 else [][0]
        ).risk(1, [3.0, 0.0]),
        r"\bsampler\b.*IndexError",
    ),
    "leading axes that do not fit": Bad(
        lambda: good().risk([1, 2, 3], np.zeros((2, 2))), r"\bt, theta\b", "(3,), (2,)"
    ),
    "many models to explain": Bad(
        lambda: good().explain(1, np.zeros((3, 2))), r"\btheta\b", "(3, 2)"
    ),
    "a seed that is too large": Bad(
        lambda: good().sample(1, [0.0, 0.0], 1, seed=2**64), r"\bseed\b", str(2**64)
    ),
    "a target that is a number": Bad(lambda: simulate(against=3), r"\bagainst\b", "3"),
    "a checkpoint in no folder": Bad(
        lambda: simulate(checkpoint="no/such/folder/run.npz"),
        r"\bcheckpoint\b",
        "no/such",
        FileNotFoundError,
    ),
    "a checkpoint that is a folder": Bad(
        lambda: simulate(checkpoint="/"), r"\bcheckpoint\b", "folder"
    ),
    "a file in no folder": Bad(
        lambda: run().save("no/such/folder/run.nc"), r"\bpath\b", "no/such", FileNotFoundError
    ),
    "a file that is a folder": Bad(lambda: run().save("/"), r"\bpath\b", "folder"),
    "no arms at all": Bad(lambda: deploy(np.zeros((0, 2))), r"\btheta\b", "(0, 2)"),
    "a modifiable column out of range": Bad(
        lambda: pp.responses.strategic(pp.Empirical(ROWS), modifiable=[0, 5]),
        r"\bmodifiable\b",
        "5",
    ),
    "a negative modifiable column": Bad(
        lambda: pp.responses.strategic(pp.Empirical(ROWS), modifiable=[-3]), r"\bmodifiable\b", "-3"
    ),
    "a modifiable column with a fraction": Bad(
        lambda: pp.responses.strategic(pp.Empirical(ROWS), modifiable=[0.5]),
        r"\bmodifiable\b",
        "0.5",
    ),
    "a negative strength": Bad(
        lambda: pp.responses.strategic(pp.Empirical(ROWS), modifiable=[0], strength=-0.1),
        r"\bstrength\b",
        "-0.1",
    ),
    "a rate of zero": Bad(
        lambda: pp.responses.lagged(pp.responses.location(0.1, gaussian()), 0.0), r"\brate\b", "0"
    ),
    "a rate above one": Bad(
        lambda: pp.responses.lagged(pp.responses.location(0.1, gaussian()), 1.5), r"\brate\b", "1.5"
    ),
    "a lag of no response": Bad(lambda: pp.responses.lagged(gaussian(), 0.5), r"\bresponse\b"),
    "a custom response of nothing": Bad(
        lambda: pp.responses.custom(dimension=2), r"\bsampler\b|\bdistribution\b"
    ),
    "a sampler that cannot be called": Bad(
        lambda: pp.responses.custom(3.0, dimension=2), r"\bsampler\b", "3.0"
    ),
    "a custom response of rows without columns": Bad(
        lambda: pp.responses.custom(distribution=lambda theta: gaussian(), dimension=0),
        r"\bdimension\b",
        "0",
    ),
    "an unknown backend": Bad(
        lambda: pp.responses.custom(lambda k, th, n: None, dimension=2, backend="nunpy"),
        r"\bbackend\b.*numpy",
        "nunpy",
    ),
    "a custom response of another dimension": Bad(
        lambda: world(
            response=pp.responses.custom(distribution=lambda theta: gaussian(), dimension=3),
            drift=pp.drifts.fixed(pp.Gaussian([0.0, 0.0, 0.0], 1.0)),
        ),
        r"\bdimension\b",
        "3",
    ),
    # drifts
    "a drift shorter than the rounds": Bad(
        lambda: world(drift=pp.drifts.recorded(pp.Gaussian(np.zeros((2, 2)), 1.0))),
        r"\bdrift\b|rounds",
        "2",
    ),
    "a drift of another dimension": Bad(
        lambda: world(drift=pp.drifts.fixed(pp.Gaussian([0.0, 0.0, 0.0], 1.0))), r"\bdrift\b", "3"
    ),
    "a drift that is no drift": Bad(lambda: world(drift=3.0), r"\bdrift\b", "3.0"),
    "a recorded drift without rounds": Bad(
        lambda: world(drift=pp.drifts.recorded(gaussian())), r"\bdrift\b"
    ),
    "a fixed drift with rounds": Bad(
        lambda: pp.drifts.fixed(pp.Gaussian(np.zeros((3, 2)), 1.0)), r"\bdistribution\b"
    ),
    "a ball of radius zero to drift in": Bad(
        lambda: pp.drifts.iid_ball(EYE, radius=0.0), r"\bradius\b", "0"
    ),
    "a ball of negative radius to drift in": Bad(
        lambda: pp.drifts.iid_ball(EYE, radius=-1.0), r"\bradius\b", "-1"
    ),
    "a negative step": Bad(lambda: pp.drifts.random_walk(EYE, step=-0.1), r"\bstep\b", "-0.1"),
    "a period of zero": Bad(
        lambda: pp.drifts.seasonal(EYE, amplitude=[1.0, 0.0], period=0), r"\bperiod\b", "0"
    ),
    "a probability above one": Bad(
        lambda: pp.drifts.switching([gaussian(), gaussian()], probability=1.5),
        r"\bprobability\b",
        "1.5",
    ),
    "a switch between nothing": Bad(
        lambda: pp.drifts.switching([], period=2), r"\bdistributions\b"
    ),
    "a switch by period and by chance": Bad(
        lambda: pp.drifts.switching([gaussian(), gaussian()], period=2, probability=0.5),
        r"\bperiod\b.*\bprobability\b|\bprobability\b.*\bperiod\b",
    ),
    # mixing
    "a checkpoint of an expectation": Bad(
        lambda: pp.simulate(good(), pp.learners.rrm(rows=2), expected=True, checkpoint="run.ck"),
        r"\bcheckpoint must be None",
        "run.ck",
    ),
    "an alpha above one": Bad(lambda: pp.mixing.constant(1.2), r"\balpha\b", "1.2"),
    "an alpha a little above one": Bad(
        lambda: pp.mixing.constant(1.0000001), r"\balpha\b", "got 1.0000001"
    ),
    "an alpha below zero": Bad(lambda: pp.mixing.constant(-0.1), r"\balpha\b", "-0.1"),
    "an alpha that is NaN": Bad(lambda: pp.mixing.constant(np.nan), r"\balpha\b", "nan"),
    "an alpha in words": Bad(
        lambda: pp.mixing.constant("half"), r"\balpha must be a single number", "half"
    ),
    "a recorded alpha above one": Bad(
        lambda: pp.mixing.recorded([0.5, 1.5, 0.5]), r"\balphas\b", "1.5"
    ),
    "a recorded alpha that is NaN": Bad(
        lambda: pp.mixing.recorded([0.5, np.nan]), r"\balphas\b", "nan"
    ),
    "no recorded alphas": Bad(lambda: pp.mixing.recorded([]), r"\balphas\b"),
    "fewer alphas than rounds": Bad(
        lambda: world(mixing=pp.mixing.recorded([0.5, 0.5])), r"alphas|mixing", "2"
    ),
    "a schedule that starts above one": Bad(
        lambda: pp.mixing.polynomial(b=1.0, a0=2.0), r"\ba0\b", "2"
    ),
    "a schedule that leaves the unit interval": Bad(
        lambda: world(mixing=pp.mixing.polynomial(b=-1.0)), r"\bb\b", "-1"
    ),
    "a mixing that is no schedule": Bad(
        lambda: world(mixing="polynomial"), r"\bmixing\b", "polynomial"
    ),
    # losses
    "a negative l2": Bad(lambda: pp.losses.logistic(l2=-1.0), r"\bl2\b", "-1"),
    "a negative l2 on labelled rows": Bad(
        lambda: pp.losses.squared(labelled=True, l2=-0.5), r"\bl2\b", "-0.5"
    ),
    "an l2 that is NaN": Bad(lambda: pp.losses.logistic(l2=np.nan), r"\bl2\b", "nan"),
    "an l2 in words": Bad(lambda: pp.losses.logistic(l2="weak"), r"\bl2\b", "weak"),
    "an intercept without labels": Bad(lambda: pp.losses.squared(intercept=True), r"\bintercept\b"),
    "a custom loss that cannot be called": Bad(
        lambda: pp.losses.custom(1.0), r"\bfunction\b", "1.0"
    ),
    "a custom loss of the wrong signature": Bad(
        lambda: world(loss=pp.losses.custom(lambda row: row.sum())), r"\bfunction\b|\bloss\b"
    ),
    "a custom loss that returns a vector": Bad(
        lambda: world(loss=pp.losses.custom(lambda row, theta: row - theta)),
        r"\bfunction\b|\bloss\b",
    ),
    "a custom loss that fails": Bad(
        lambda: world(loss=pp.losses.custom(lambda row, theta: row @ np.ones(7))),
        r"\bfunction\b|\bloss\b",
    ),
    "labels that are zero and one": Bad(
        lambda: labelled([[1.0, 2.0, 0.0], [0.0, 1.0, 1.0]]), r"label", "0"
    ),
    "a loss that is no loss": Bad(lambda: world(loss="logistic"), r"\bloss\b", "logistic"),
    # domains
    "a ball of radius zero": Bad(lambda: pp.domains.ball(0.0), r"\bradius\b", "0"),
    "a ball of negative radius": Bad(lambda: pp.domains.ball(-2.0), r"\bradius\b", "-2"),
    "a ball of radius NaN": Bad(lambda: pp.domains.ball(np.nan), r"\bradius\b", "nan"),
    "an l1 ball of radius zero": Bad(lambda: pp.domains.l1_ball(0.0), r"\bradius\b", "0"),
    "a simplex of scale zero": Bad(lambda: pp.domains.simplex(0.0), r"\bscale\b", "0"),
    "a box upside down": Bad(lambda: pp.domains.box(1.0, -1.0), r"\blower\b.*\bupper\b", "1"),
    "one side of a box upside down": Bad(
        lambda: pp.domains.box([0.0, 2.0], [1.0, 1.5]), r"\blower\b.*\bupper\b", "2"
    ),
    "a box of two lengths": Bad(
        lambda: pp.domains.box([0.0, 0.0], [1.0, 1.0, 1.0]), r"\blower\b|\bupper\b"
    ),
    "a box with NaN": Bad(lambda: pp.domains.box([0.0, np.nan], [1.0, 1.0]), r"\blower\b", "nan"),
    "a box of another dimension": Bad(
        lambda: world(domain=pp.domains.box([0, 0, 0], [1, 1, 1])), r"\bdomain\b|\blower\b", "3"
    ),
    "a shrinking factor above one": Bad(
        lambda: pp.domains.ball(1.0).shrink(1.5), r"\brho\b", "1.5"
    ),
    "a domain that is no domain": Bad(lambda: world(domain=1.0), r"\bdomain\b", "1.0"),
    # the world
    "no rounds": Bad(lambda: world(rounds=0), r"\brounds\b", "0"),
    "a negative number of rounds": Bad(lambda: world(rounds=-3), r"\brounds\b", "-3"),
    "a fraction of a round": Bad(lambda: world(rounds=2.5), r"\brounds\b", "2.5"),
    "rounds in words": Bad(lambda: world(rounds="ten"), r"\brounds\b", "ten"),
    "an unknown expectation": Bad(
        lambda: world(expectation="quadratur"), r"\bexpectation\b.*quadrature", "quadratur"
    ),
    "a distribution in the place of the response": Bad(
        lambda: world(response=gaussian()), r"\bresponse\b"
    ),
    "a map and a response": Bad(
        lambda: world(map=pp.maps.custom(distribution=lambda t, theta: gaussian(), dimension=2)),
        r"\bmap\b",
    ),
    "a misspelt piece": Bad(lambda: world(los=pp.losses.squared()), r"\blos\b", "los", TypeError),
    # its rounds and models
    "round zero": Bad(lambda: good().risk(0, [0, 0]), r"\bround\b|\bt\b", "0", IndexError),
    "a round after the last": Bad(lambda: good().risk(4, [0, 0]), r"1.*3", "4", IndexError),
    "round zero of a gradient": Bad(
        lambda: good().gradient(0, [0, 0], [0, 0]), r"\bround\b|\bt\b", "0", IndexError
    ),
    "round zero of a distribution": Bad(
        lambda: good().distribution(0, [0, 0]), r"\bround\b|\bt\b", "0", IndexError
    ),
    "a late round to draw from": Bad(
        lambda: good().sample(9, [0, 0], 5, seed=0), r"\bround\b|\bt\b", "9", IndexError
    ),
    "a round with a fraction": Bad(
        lambda: good().risk(1.5, [0, 0]),
        r"\bround\b|\bt\b",
        "1.5",
        (TypeError, ValueError, IndexError),
    ),
    "a model of another dimension": Bad(lambda: good().risk(1, [0, 0, 0]), r"\btheta\b", "3"),
    "a model with NaN": Bad(lambda: good().risk(1, [0, np.nan]), r"\btheta\b", "nan"),
    "a model of words": Bad(lambda: good().risk(1, ["a", "b"]), r"\btheta\b"),
    "a deployed model of another dimension": Bad(
        lambda: good().decoupled_risk(1, [0, 0], [0]), r"\bdeployed\b", "1"
    ),
    "an infinite deployed model": Bad(
        lambda: good().gradient(1, [0, 0], [np.inf, 0]), r"\bdeployed\b", "inf"
    ),
    "targets of no world": Bad(lambda: pp.stable_points(3), r"\bworld\b", "3"),
    "optimal points of no world": Bad(lambda: pp.optimal_points("credit"), r"\bworld\b", "credit"),
    # simulation
    "a start outside the domain": Bad(
        lambda: simulate(start=[2.0, 0.0]), r"\bstart\b.*domain", "1 outside"
    ),
    "a start of another shape": Bad(lambda: simulate(start=[0.0, 0.0, 0.0]), r"\bstart\b", "3"),
    "a start with NaN": Bad(lambda: simulate(start=[np.nan, 0.0]), r"\bstart\b", "nan"),
    "no runs": Bad(lambda: simulate(runs=0), r"\bruns\b", "0"),
    "a fraction of a run": Bad(lambda: simulate(runs=1.5), r"\bruns\b", "1.5"),
    "a negative seed": Bad(lambda: simulate(seed=-1), r"\bseed\b", "-1"),
    "a learner that is no learner": Bad(lambda: simulate(learner="rrm"), r"\blearner\b", "rrm"),
    "a learner that was not called": Bad(lambda: simulate(learner=pp.learners.rrm), r"\blearner\b"),
    "a learner that asks for a gradient and declared the risk": Bad(
        lambda: simulate(learner=Peeking()), r"risk.*gradient|gradient.*risk", "gradient"
    ),
    "a learner that asks for rows and declared the risk": Bad(
        lambda: simulate(learner=PeekingAtRows()), r"risk.*rows|rows.*risk", "rows"
    ),
    "a learner that asks for the world": Bad(
        lambda: simulate(learner=PeekingAtTheWorld()), r"world.*risk|risk.*world", "world"
    ),
    "a learner that declares what does not exist": Bad(
        lambda: simulate(learner=Mumbling()), r"feedback.*samples", "'sample'"
    ),
    "a world that is no world": Bad(lambda: simulate(world="credit"), r"\bworld\b", "credit"),
    "an unknown target": Bad(
        lambda: simulate(against=("stabel",)), r"\bagainst\b.*stable", "stabel"
    ),
    "an unknown record": Bad(
        lambda: simulate(record="everything"), r"\brecord\b.*all", "everything"
    ),
    "an unknown regret": Bad(lambda: run().regret("stabel"), r"stable.*optimal", "stabel"),
    "a regret without a name": Bad(lambda: run().regret(None), r"stable.*optimal", "None"),
    "worst of one arm, misspelt": Bad(
        lambda: run().regret("stable", arms="wrost"), r"\barms\b.*worst", "wrost"
    ),
    "an unknown regret of a session's feedback": Bad(
        lambda: deploy([0.0, 0.0], feedback="sample"), r"\bfeedback\b.*samples", "sample"
    ),
    "a session's model outside the domain": Bad(
        lambda: deploy([3.0, 0.0], feedback="risk"), r"\btheta\b.*domain", "2 outside"
    ),
    "a session's model of another shape": Bad(
        lambda: deploy([0.0], feedback="risk"), r"\btheta\b", "1"
    ),
    "a session that draws no rows": Bad(
        lambda: deploy([0.0, 0.0], feedback="samples", n=0), r"\bn\b", "0"
    ),
    "a sweep of no worlds": Bad(lambda: pp.sweep({}, {"RRM": pp.learners.rrm()}), r"\bworlds\b"),
    "a sweep of no learners": Bad(lambda: pp.sweep({"w": good()}, {}), r"\blearners\b"),
    "a sweep of things that are no worlds": Bad(
        lambda: pp.sweep({"w": 3.0}, {"RRM": pp.learners.rrm()}), r"\bworlds\b|\bw\b", "3.0"
    ),
    # ready-made worlds
    "an unknown drift of the quadratic world": Bad(
        lambda: pp.worlds.quadratic(drift="randon", rounds=3), r"\bdrift\b.*random", "randon"
    ),
    "an unknown drift of the credit world": Bad(
        lambda: pp.worlds.credit(drift="stationery", rounds=3),
        r"\bdrift\b.*stationary",
        "stationery",
    ),
    "a subsample that does not exist": Bad(
        lambda: pp.worlds.credit(rounds=3, subsample=-7), r"\bsubsample\b", "-7"
    ),
    "a quadratic world without dimension": Bad(
        lambda: pp.worlds.quadratic(dim=0, rounds=3), r"\bdim\b", "0"
    ),
    # names
    "a misspelt public name": Bad(
        lambda: pp.stable_point, r"stable_points", "stable_point", AttributeError
    ),
    "a file that is not there": Bad(
        lambda: pp.load("no-such-run.nc"), r"no-such-run", "", FileNotFoundError
    ),
}

JARGON = re.compile(
    r"jax(?!')|tracer|traced|equinox|jit|xla|jaxtyping|traceback|\bpytree\b", re.IGNORECASE
)


@pytest.mark.parametrize("bad", TABLE.values(), ids=TABLE.keys())
def test_bad_input_is_refused_in_one_sentence(bad):
    with pytest.raises(bad.error) as refusal:
        bad.call()
    message = str(refusal.value)
    assert "\n" not in message
    assert 10 < len(message) < 400
    assert not JARGON.search(message), message
    assert re.search(bad.words, message), message
    assert bad.given in message, message


def test_the_good_world_is_good():
    assert np.isfinite(good().risk(3, [0.1, 0.2]))
    assert np.all(np.isfinite(run().deployed))


def test_the_refusal_is_not_caused_by_an_error_from_inside():
    with pytest.raises(ValueError, match="cov") as refusal:
        pp.Gaussian([0, 0], [[1.0, 2.0], [2.0, 1.0]])
    assert refusal.value.__cause__ is None
    assert refusal.value.__context__ is None or refusal.value.__suppress_context__


def test_risks_are_defined_outside_the_domain():
    assert np.isfinite(good().risk(1, [7.0, -7.0]))


def test_a_risk_that_is_no_number_comes_with_a_warning():
    root = world(loss=pp.losses.custom(lambda z, theta: jnp.log(z[0] - 9.0) + theta[0], 2), draws=8)
    with pytest.warns(UserWarning, match="risk is not finite in 1"):
        assert np.isnan(root.risk(1, [0.0, 0.0]))


def test_a_sampler_that_fails_is_told_in_one_sentence_and_nowhere_else(caplog):
    def wrong(rng, theta, n):
        return rng.normal(size=(n, 3)) if theta[0] < 0.5 else rng.normal(size=(n, 2))

    response = pp.responses.custom(wrong, dimension=3, backend="numpy")
    failing = world(
        response=response, drift=None, mixing=None, domain=pp.domains.ball(1.0), draws=8
    )
    with pytest.raises(ValueError, match=r"sampler must return rows .* shape \(8, 2\) in place of"):
        failing.risk(1, [0.9, 0.0, 0.0])
    assert not caplog.records


def test_a_mask_of_booleans_says_which_of_two_columns_can_change():
    masked = world(response=pp.responses.strategic(gaussian(), [False, True], strength=0.5))
    np.testing.assert_allclose(masked.distribution(1, [1.0, 1.0]).mean, [0.0, 0.25])


def test_a_session_knows_no_round_after_the_last():
    session = pp.Session(good(), seed=0)
    for _ in range(3):
        session.deploy([0.0, 0.0], feedback="risk")
    with pytest.raises((IndexError, RuntimeError, ValueError)) as refusal:
        session.deploy([0.0, 0.0], feedback="risk")
    assert "3" in str(refusal.value)
    assert "\n" not in str(refusal.value)
