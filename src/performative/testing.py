"""Does a piece of your own keep the contract? `check_learner` and `check_world` say so, or why not.

Each rule below is a small function; the first one that is broken raises an AssertionError of one
sentence. They are the rules that the engine, sweeps and targets rely on, and what ships is held to
them too.
"""

from __future__ import annotations

import functools
import pickle
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple, NoReturn

import jax
import jax.numpy as jnp
import numpy as np

from performative import _checks
from performative.learners.feedback import KINDS, Stream, UndeclaredFeedback
from performative.learners.learner import Learner
from performative.simulation.engine import (
    feedback_of,
    problem_of,
    round_key,
    run_key,
    simulate,
    stack,
    structure_of,
)
from performative.simulation.session import Session
from performative.simulation.sweep import sweep
from performative.world import domains, drifts, losses, mixing, responses
from performative.world.distributions import Gaussian, Sampled
from performative.world.world import World

Array = Any

SEED, RUNS, BY_HAND = 7, 3, 6
"""Of the simulations; how many rounds are also played by hand."""

SAMPLE, ERRORS = 4096, 8.0
"""Rows drawn from a world, and how many standard errors they may be off."""

CLOSE, DRIFTED = 1e-9, 1e-7
"""How close numbers must be that are computed in two ways, once and over some rounds."""


def check_learner(learner: Any, world: World | None = None) -> None:
    """Raise an AssertionError that names the rule, if a learner breaks one.

    Args:
        learner: one of your own, as `pp.simulate` takes it.
        world: a small one, of a few rounds, that the learner is made for; a logistic one with two
            parameters and a moving drift unless given.

    >>> import performative as pp
    >>> check_learner(pp.learners.rrm(), pp.worlds.quadratic(dim=2, rounds=5))
    """
    world = _small_world() if world is None else world
    _checks.instance("world", world, World, "a pp.World")
    with jax.enable_x64(True), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # flags of targets are the world's matter
        case = Case(learner, world)
        for rule in LEARNER_RULES:
            rule(case)


def check_world(world: Any) -> None:
    """Raise an AssertionError that names the rule, if a world, or a piece of your own in it, breaks one.

    Args:
        world: from `pp.World`, of any length.

    >>> import performative as pp
    >>> check_world(pp.worlds.quadratic(dim=2, rounds=5))
    """
    _require(isinstance(world, World), f"world must be a pp.World; got {_checks.shown(world)}")
    with jax.enable_x64(True), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for rule in WORLD_RULES:
            rule(world, _probe(world))


# Rules for learners


class Case:
    """A learner in a world, and what it did there; everything is computed once."""

    def __init__(self, learner: Any, world: World):
        self.learner, self.world = learner, world
        self._runs: dict[Any, Any] = {}

    @functools.cached_property
    def prepared(self) -> Learner:
        return self.prepare(self.learner)

    def prepare(self, learner: Any) -> Learner:
        """The learner with its defaults filled in, as the engine makes it."""
        with _told("prepare must return a learner"):
            prepared = learner.prepare(problem_of(self.world))
        _require(
            isinstance(prepared, Learner),
            f"prepare must return a learner; got {_checks.shown(prepared)}",
        )
        return prepared

    @functools.cached_property
    def played(self) -> Played:
        return _play(self.prepared, self.world)

    @property
    def rim(self) -> np.ndarray:
        """A model on the boundary of where the learner may start, if that has one."""
        drawn = self.world.domain.draw(np.random.default_rng(0), 1, self.world.parameters)[0]
        allowed = self.prepared.start_domain(problem_of(self.world))
        return allowed.project(1e3 * drawn / np.linalg.norm(drawn))

    def simulated(
        self, runs: int = RUNS, seed: int = SEED, start: Any = None, turn: int = 0
    ) -> Any:
        """A run; `turn` asks for the same once more."""
        key = (runs, seed, start is None, turn)
        if key not in self._runs:
            with _told("simulate must be able to play the learner: no NumPy, no Python branches"):
                self._runs[key] = simulate(
                    self.world, self.learner, start, runs, seed, record="all", progress=False
                )
        return self._runs[key]


class Played(NamedTuple):
    """A few rounds, played with the learner's own functions."""

    states: list[Any]
    deployed: list[Array]
    shown: list[Any]


def _declares_what_it_needs(case: Case) -> None:
    _require(
        isinstance(case.learner, Learner),
        f"a learner must derive from pp.learners.Learner; got {_checks.shown(case.learner)}",
    )
    prepared = case.prepared
    _require(
        prepared.feedback in KINDS,
        f"feedback must be one of {', '.join(map(repr, KINDS))}; got {prepared.feedback!r}",
    )
    for name in ("rows", "arms"):
        value = getattr(prepared, name)
        numbers = np.asarray(value)
        shapes = [(), (case.world.rounds,)] if name == "rows" else [()]
        _require(
            numbers.dtype.kind in "iu" and numbers.shape in shapes and bool(np.all(numbers >= 1)),
            f"{name} must be a whole number of at least 1"
            f"{', or an array of one for each round' * (name == 'rows')}; "
            f"got {_checks.shown(value)}",
        )
    _require(
        isinstance(prepared.randomised, bool),
        f"randomised must be True or False; got {prepared.randomised!r}",
    )
    _require(
        prepared.randomised or prepared.feedback != "samples",
        "a learner that sees samples must declare randomised = True",
    )


def _holds_plain_numbers(case: Case) -> None:
    for leaf in jax.tree.leaves(case.prepared):
        _require(
            isinstance(leaf, (np.ndarray, np.generic, int, float)),
            f"a learner's fields must be NumPy numbers, or static; got {_checks.shown(leaf)}",
        )
        kind = np.asarray(leaf).dtype
        _require(
            kind.kind in "biu" or kind == np.float64,
            f"a learner's numbers must be float64; got {kind}",
        )
    with _told("a learner's static fields must be hashable"):
        hash(jax.tree.structure(case.prepared))
    _require(
        _same(case.prepared, case.prepare(case.learner), 0.0),
        "prepare must give the same learner every time",
    )


def _survives_pickling(case: Case) -> None:
    with _told("a learner must survive pickling; define it at the top level of a module"):
        copy = pickle.loads(pickle.dumps(case.learner))
    _require(
        _same(case.prepared, case.prepare(copy), 0.0), "a learner must be the same after pickling"
    )


def _is_pure(case: Case) -> None:
    """The same twice; that states and models have the right shapes is seen to by `_play`."""
    again = _play(case.prepared, case.world)
    _require(
        _same(case.played.states, again.states, 0.0)
        and _same(case.played.deployed, again.deployed, 0.0),
        "init, deploy and update must be pure: the same in must give the same out, with no memory "
        "outside the state and no randomness but the key",
    )


def _survives_vmap(case: Case) -> None:
    states, key = case.played.states[:2], _key(case.prepared, 1)
    both = jax.tree.map(lambda *leaves: jnp.stack(leaves), *states)
    with _told("deploy must survive jax.vmap over states"):
        mapped = jax.vmap(lambda state: case.prepared.deploy(state, key))(both)
    alone = jnp.stack([case.prepared.deploy(state, key) for state in states])
    _require(_same(mapped, alone, CLOSE), "deploy must give the same under jax.jit and jax.vmap")


def _simulates_what_it_plays(case: Case) -> None:
    deployed = case.simulated().deployed.values[0, : len(case.played.deployed)]
    _require(
        _same(deployed, np.stack(case.played.deployed), DRIFTED),
        "deploy and update must give the same round by round and compiled into a loop",
    )


def _stays_in_the_domain(case: Case) -> None:
    for name, start in (("centre", None), ("rim", case.rim)):
        deployed = case.simulated(start=start).deployed.values
        _require(bool(np.all(np.isfinite(deployed))), "deployed models must stay finite")
        _require(
            case.world.domain.contains(deployed),
            f"deployed models must stay in the domain; a run that began at its {name} left it",
        )


def _repeats_itself(case: Case) -> None:
    run = case.simulated().deployed.values
    again = case.simulated(turn=1).deployed.values
    _require(np.array_equal(run, again), "the same seed must give the same models, bit for bit")
    single = case.simulated(runs=1).deployed.values
    _require(_same(run[:1], single, DRIFTED), "a run must not depend on the runs beside it")
    if not case.prepared.randomised:
        other = case.simulated(seed=SEED + 1).deployed.values
        _require(
            np.array_equal(run, other),
            "a learner that declares randomised = False must not depend on the seed",
        )


def _agrees_with_a_session(case: Case) -> None:
    """What a Session hands out is what the learner was shown, and the regret comes out the same."""
    if case.world.lag is not None:
        return  # a Session cannot know the start that a lagged population begins with
    kind, session = case.prepared.feedback, Session(case.world, seed=SEED)
    for t, (arms, seen) in enumerate(zip(case.played.deployed, case.played.shown, strict=True), 1):
        arms = np.asarray(arms)
        rows = np.broadcast_to(case.prepared.rows, case.world.rounds)
        got = session.deploy(arms, feedback=kind, n=int(rows[t - 1]))
        if kind == "population":
            got = [data.gradient(arm) for data, arm in zip(got, arms, strict=True)]
        if case.prepared.streams:
            got = [_in_order(data) for data in got]
        _require(
            _same(np.stack(got), np.asarray(seen), CLOSE),
            f"a Session must show in round {t} what the learner was shown",
        )
    regret = session.close().regret("stable").values[0]
    run = case.simulated().regret("stable").values[0, : len(regret)]
    _require(_same(regret, run, DRIFTED), "simulate must measure the regret that a Session does")


def _can_be_stacked(case: Case) -> None:
    alone = case.simulated().regret("stable").values
    worlds = {"one": case.world, "same": case.world}
    with _told("a learner must be playable in several worlds at once"):
        table = sweep(worlds, {"it": case.learner}, RUNS, SEED, progress=False).stable_regret
    for name in worlds:
        _require(
            _same(table.sel(world=name, learner="it").values, alone, DRIFTED),
            "a learner must do the same in a sweep as in simulate",
        )


LEARNER_RULES: tuple[Callable[[Case], None], ...] = (
    _declares_what_it_needs,
    _holds_plain_numbers,
    _is_pure,
    _survives_vmap,
    _simulates_what_it_plays,
    _stays_in_the_domain,
    _repeats_itself,
    _agrees_with_a_session,
    _can_be_stacked,
    _survives_pickling,
)


def _play(learner: Learner, world: World) -> Played:
    """A few rounds, each a compiled call of the learner's functions."""
    start = jnp.asarray(world.domain.center(world.parameters))
    population = start
    with _told("init must return a state"):
        state = learner.init(problem_of(world), start)
    for leaf in jax.tree.leaves(state):
        _require(
            hasattr(leaf, "dtype") and jnp.result_type(leaf) not in (jnp.float32, jnp.float16),
            "the state must be a tree of float64, whole-number or key arrays; "
            f"got {_checks.shown(leaf)}",
        )

    @jax.jit
    def answer(
        learner: Any, state: Any, here: Any, arms: Array, population: Array, key: Array
    ) -> Any:
        populated = arms if world.lag is None else jnp.broadcast_to(population, arms.shape)
        seen = feedback_of(learner, here, arms, populated, key)
        return learner.update(state, seen), _numbers_shown(seen, arms, world.dimension)

    played = Played([state], [], [])
    for t in range(1, min(world.rounds, BY_HAND) + 1):
        key = _key(learner, t)
        with _told(
            "deploy must return models for a state and a key"
            + "; there is a key for learners that declare randomised = True" * (key is None)
        ):
            arms = learner.deploy(state, key)
        _check_arms(arms, (learner.arms, world.parameters))
        before = state
        try:
            state, shown = answer(learner, before, world.at(t), arms, population, key)
        except UndeclaredFeedback as error:
            raise AssertionError(
                f"update must use what the learner declares alone: {error}"
            ) from None
        except Exception as error:
            _blame("update must work in compiled code: no NumPy, no Python branches", error)
        if world.lag is not None:
            population = (1 - world.lag) * population + world.lag * arms.mean(axis=0)
        _check_state(before, state)
        played.states.append(state)
        played.deployed.append(arms)
        played.shown.append(shown)
    return played


def _check_arms(arms: Any, shape: tuple[int, int]) -> None:
    _require(
        jnp.shape(arms) == shape,
        f"deploy must return (arms, parameters) = {shape}; got {jnp.shape(arms)}",
    )
    _require(
        jnp.result_type(arms) == jnp.float64,
        f"deploy must return float64 models; got {jnp.result_type(arms)}",
    )
    _require(bool(np.all(np.isfinite(arms))), "deploy must return finite models")


def _check_state(before: Any, after: Any) -> None:
    _require(
        jax.tree.structure(before) == jax.tree.structure(after),
        "update must return a state of the same structure as init",
    )
    for old, new in zip(jax.tree.leaves(before), jax.tree.leaves(after), strict=True):
        _require(
            jnp.shape(old) == jnp.shape(new) and jnp.result_type(old) == jnp.result_type(new),
            "update must return a state of the same shapes and types as init; "
            f"got {jnp.result_type(new)}{list(jnp.shape(new))} after "
            f"{jnp.result_type(old)}{list(jnp.shape(old))}",
        )


def _numbers_shown(seen: Any, arms: Array, dimension: int) -> Array:
    """The feedback in numbers: rows, risks, or the population's gradients at the arms."""
    if isinstance(seen, Stream):
        nothing = jnp.zeros(dimension)
        return jnp.stack([seen.fold(_add, nothing, arm) for arm in range(len(arms))])
    if seen.kind == "samples":
        return seen.rows
    if seen.kind == "risk":
        return seen.risks
    return jnp.stack([seen.gradient(arm, i) for i, arm in enumerate(arms)])


def _add(total: Array, row: Array, j: Array) -> Array:
    """A sum in which the order of rows matters."""
    return 0.5 * total + row * (1.0 + j)


def _in_order(rows: Array) -> Array:
    return functools.reduce(
        lambda total, row: _add(total, row[1], row[0]), enumerate(rows, 1), 0.0 * rows[0]
    )


def _key(learner: Learner, t: int) -> Any:
    """The dice of round t; None for a learner that declares to throw none."""
    return round_key(run_key(SEED, jnp.asarray(0)), jnp.asarray(t)) if learner.randomised else None


def _small_world() -> World:
    return World(
        response=responses.location(0.3, Gaussian([0.5, -0.2], [1.0, 0.5])),
        drift=drifts.iid_ball(0.5, seed=3),
        mixing=mixing.polynomial(0.5),
        loss=losses.logistic(l2=0.5),
        domain=domains.ball(1.0),
        rounds=12,
    )


# Rules for worlds


class Probe(NamedTuple):
    """Where a world is looked at: some rounds, and models of its domain."""

    rounds: list[int]
    models: np.ndarray


def _probe(world: World) -> Probe:
    rng = np.random.default_rng(5)
    drawn = world.domain.draw(rng, 3, world.parameters)
    centre = np.asarray(world.domain.center(world.parameters))
    rounds = sorted({1, (world.rounds + 1) // 2, world.rounds})
    return Probe(rounds, np.concatenate([centre[None], drawn]))


def _mixes_properly(world: World, probe: Probe) -> None:
    alphas = world.alphas
    _require(
        alphas.shape == (world.rounds,) and bool(np.all((alphas >= 0) & (alphas <= 1))),
        f"α must be {world.rounds} numbers in [0, 1]",
    )
    for t in probe.rounds:
        weights = np.asarray(world.distribution(t, probe.models[0]).weights)
        _require(
            bool(np.all(weights >= 0)) and abs(weights.sum() - 1.0) <= 1e-12,
            f"the weights of D_t must be a distribution; got {_checks.shown(weights)} in round {t}",
        )
        if len(weights) == 2:
            _require(
                abs(weights[1] - alphas[t - 1]) <= 1e-12,
                f"the weight of P_t must be α_t; got {weights[1]:g} in round {t}",
            )


def _has_a_proper_domain(world: World, probe: Probe) -> None:
    domain = world.domain
    _require(domain.contains(probe.models), "a domain must hold its centre and what it draws")
    far = np.random.default_rng(6).normal(size=(8, world.parameters)) * 10.0
    near = domain.project(far)
    _require(
        _same(domain.project(near), near, CLOSE),
        "a projection must leave alone what is in the domain",
    )
    gaps = np.linalg.norm(far[1:] - far[:-1], axis=1)
    after = np.linalg.norm(near[1:] - near[:-1], axis=1)
    _require(
        bool(np.all(after <= gaps * (1 + 1e-9) + 1e-12)),
        "a projection on a convex set must not take two models further apart",
    )


def _has_finite_float64_risks(world: World, probe: Probe) -> None:
    p, models = world.parameters, probe.models
    shapes = {
        "risk": (),
        "decoupled_risk": (),
        "gradient": (p,),
        "hessian": (p, p),
        "total_gradient": (p,),
    }
    for t in probe.rounds:
        for what, shape in shapes.items():
            coupled = what in ("risk", "total_gradient")
            with _told(f"{what} must be computable"):
                function = getattr(world, what)
                value = function(t, models) if coupled else function(t, models, models[::-1])
            value = np.asarray(value)
            _require(
                value.shape == (len(models), *shape) and value.dtype == np.float64,
                f"{what} must be float64 of shape {shape} for one model; "
                f"got {value.dtype} of {value.shape} for {len(models)}",
            )
            _require(
                bool(np.all(np.isfinite(value))), f"{what} must be finite; it is not in round {t}"
            )
        hessian = world.hessian(t, models, models)
        _require(_same(hessian, np.swapaxes(hessian, 1, 2), CLOSE), "a Hessian must be symmetric")
        _require(
            _same(world.risk(t, models), world.decoupled_risk(t, models, models), CLOSE),
            "PR_t(θ) must be DPR_t(θ, θ)",
        )


def _has_derivatives_that_add_up(world: World, probe: Probe) -> None:
    """Integrals of a derivative along a path, by Gauss's rule, against differences at its ends."""
    sampled = world.rung == "monte carlo"
    start, end = probe.models[1], probe.models[1] + 0.2 * (probe.models[2] - probe.models[1])
    nodes, weights = np.polynomial.legendre.leggauss(8)
    path = start + 0.5 * (nodes + 1.0)[:, None] * (end - start)
    weights, step, held = 0.5 * weights, end - start, probe.models[3]
    for t in probe.rounds:
        exact = 0.02 if sampled else 1e-6
        change = world.decoupled_risk(t, end, held) - world.decoupled_risk(t, start, held)
        summed = weights @ (world.gradient(t, path, held) @ step)
        _agree("the gradient must be the derivative of the decoupled risk", change, summed, exact)
        change = world.gradient(t, end, held) - world.gradient(t, start, held)
        summed = weights @ (world.hessian(t, path, held) @ step)
        _agree(
            "the Hessian must be the derivative of the gradient (the loss must have two)",
            change,
            summed,
            exact,
        )
        if not world.at(t).pathwise:
            continue  # then the total gradient is made of differences
        change = world.risk(t, end) - world.risk(t, start)
        summed = weights @ (world.total_gradient(t, path) @ step)
        _agree("the total gradient must be the derivative of the risk", change, summed, exact)


def _draws_from_its_distribution(world: World, probe: Probe) -> None:
    for t, model in zip(probe.rounds, probe.models, strict=False):
        with _told("sample must draw rows"):
            rows = world.sample(t, model, SAMPLE, SEED)
        _require(
            rows.shape == (SAMPLE, world.dimension) and rows.dtype == np.float64,
            f"sample must return float64 rows of length {world.dimension}; "
            f"got {rows.dtype} of {rows.shape}",
        )
        _require(bool(np.all(np.isfinite(rows))), "sampled rows must be finite")
        _require(
            np.array_equal(rows, world.sample(t, model, SAMPLE, SEED)),
            "the same seed must give the same rows: a sampler must draw from its key alone",
        )
        law = world.distribution(t, model)
        if not any(isinstance(part, Sampled) for part in law.components):
            mean, covariance = np.asarray(law.mean), np.asarray(law.covariance)
            gaps = rows - mean
            _within(gaps, np.zeros_like(mean), "the rows' mean must be the distribution's", t)
            products = gaps[:, :, None] * gaps[:, None, :]
            _within(products, covariance, "the rows' covariance must be the distribution's", t)
        explained = world.explain(t, model)
        values = np.asarray(jax.vmap(world.loss.value, (0, None))(rows, model))
        error = values.std(ddof=1) / np.sqrt(SAMPLE)
        allowed = ERRORS * float(np.hypot(error, explained.standard_error)) + explained.error
        _require(
            abs(values.mean() - explained.value) <= allowed + 1e-9 * abs(explained.value),
            f"the risk must be the mean loss of the rows; got {explained.value:.6g} and "
            f"{values.mean():.6g} ± {error:.2g} in round {t}",
        )


def _is_the_same_after_pickling(world: World, probe: Probe) -> None:
    with _told("a world must survive pickling; define its functions at the top level of a module"):
        copy = pickle.loads(pickle.dumps(world))
    t, models = probe.rounds[-1], probe.models
    _require(
        np.array_equal(copy.risk(t, models), world.risk(t, models)),
        "a world must have the same risks after pickling",
    )
    learner = _Nobody()
    with _told("a world's static parts must be hashable"):
        alike = structure_of(copy, learner) == structure_of(world, learner)
        hash(structure_of(world, learner))
    _require(alike, "a world must be stackable with its copy: its static parts must compare equal")
    with _told("a world must be stackable with its copy"):
        stack([world.at(t), copy.at(t)])


WORLD_RULES: tuple[Callable[[World, Probe], None], ...] = (
    _mixes_properly,
    _has_a_proper_domain,
    _has_finite_float64_risks,
    _has_derivatives_that_add_up,
    _draws_from_its_distribution,
    _is_the_same_after_pickling,
)


class _Nobody(Learner):
    """A learner that only stands for one."""


# How rules speak


def _require(kept: bool, rule: str) -> None:
    if not kept:
        raise AssertionError(rule if rule.endswith(".") else rule + ".")


@contextmanager
def _told(rule: str) -> Iterator[None]:
    """What goes wrong inside breaks this rule."""
    try:
        yield
    except AssertionError:
        raise
    except Exception as error:
        _blame(rule, error)


def _blame(rule: str, error: Exception) -> NoReturn:
    said = " ".join(str(error).split()) or "no message"
    said = said if len(said) <= 200 else said[:197] + "..."
    stop = "" if said.endswith(".") else "."
    raise AssertionError(f"{rule}; got {type(error).__name__}: {said}{stop}") from error


def _agree(rule: str, change: Any, summed: Any, exact: float) -> None:
    size = max(float(np.max(np.abs(change))), float(np.max(np.abs(summed))))
    apart = float(np.max(np.abs(np.asarray(change) - np.asarray(summed))))
    _require(apart <= exact * size + 1e-9, f"{rule}; they differ by {apart:.3g} in {size:.3g}")


def _within(values: np.ndarray, expected: np.ndarray, rule: str, t: int) -> None:
    error = values.std(axis=0, ddof=1) / np.sqrt(len(values))
    apart = np.abs(values.mean(axis=0) - expected)
    worst = np.unravel_index(np.argmax(apart - ERRORS * error), apart.shape)
    _require(
        bool(np.all(apart <= ERRORS * error + 1e-9)),
        f"{rule}; entry {[int(i) for i in worst]} is {apart[worst]:.3g} off in round {t}, "
        f"with a standard error of {error[worst]:.2g}",
    )


def _same(a: Any, b: Any, tolerance: float) -> bool:
    """Whether two trees hold the same numbers."""
    left, right = jax.tree.leaves(a), jax.tree.leaves(b)
    if jax.tree.structure(a) != jax.tree.structure(b) or len(left) != len(right):
        return False
    for x, y in zip(left, right, strict=True):
        x, y = np.asarray(x), np.asarray(y)
        if x.shape != y.shape:
            return False
        if tolerance == 0.0:
            if not np.array_equal(x, y, equal_nan=x.dtype.kind == "f"):
                return False
        elif not np.allclose(x, y, rtol=tolerance, atol=tolerance, equal_nan=True):
            return False
    return True
