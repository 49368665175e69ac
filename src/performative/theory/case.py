"""What every bound is made of: a world's constants, a learner's steps, and how the target moves.

The bounds of sections 3 to 5 are functions of the initial error, of the movements Δ_t of the target
and of a few constants. A `Case` holds them as arrays over rounds, or over horizons T′ = 1 … T.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import xarray as xr

from performative.learners.feedback import Problem
from performative.learners.greedy_sgd import GreedySGD
from performative.learners.lazy_sgd import LazySGD
from performative.learners.learner import Learner
from performative.learners.rgd import RGD
from performative.simulation.engine import check_starts, problem_of
from performative.targets.optimal import optimal_points
from performative.targets.stable import stable_points
from performative.theory.conditions import SYMBOLS
from performative.world.constants import Constant, Constants, least_trusted
from performative.world.world import World

Array = Any


class Infeasible(Exception):
    """A theorem does not apply; says why, with the figures."""


class Case:
    """One learner in one world, as the theorems see them.

    Attributes:
        world, start: where the learner is, and where it begins.
        given, learner: as it was given, and prepared, so that its steps are numbers.
        used: the constants that a bound has asked for, by name.
    """

    def __init__(self, world: World, learner: Learner, start: Any, constants: Constants | None):
        self.world = world
        self.problem: Problem = problem_of(world)
        if constants is not None:
            self.problem = self.problem._replace(constants=constants)
        self.given: Any = learner
        self.start = check_starts(world, start, 1)[0]
        self.used: dict[str, Constant] = {}
        self.notes: dict[str, Any] = {}

    @functools.cached_property
    def learner(self) -> Any:
        """The learner with its steps; a step that no theorem gives is refused here."""
        try:
            return self.given.prepare(self.problem)
        except ValueError as error:
            steps = isinstance(self.given, (RGD, GreedySGD, LazySGD))
            if steps and self.given.step is not None:  # then it is the caller's mistake
                raise
            raise Infeasible(str(error).rstrip(".")) from None

    def constant(self, name: str) -> float:
        """A constant that is needed, by the name it has in `Constants`."""
        found = getattr(self.problem.constants, name)
        if np.isnan(found.value) or found.value == np.inf:
            symbol, words = SYMBOLS.get(name, ("ε β_z", "response of the gradient"))
            raise Infeasible(f"{symbol} ({words}) is {found.why}")
        self.used[name] = found
        return float(found.value)

    @functools.cached_property
    def coupling(self) -> np.ndarray:
        """x_t = (1−α_t) ε β_z of every round."""
        if self.constant("response_strength") > 0:
            self.constant("sensitivity")
            self.constant("data_smoothness")
        return self.problem.constants.coupling

    @functools.cached_property
    def largest_coupling(self) -> np.ndarray:
        """The largest x_t up to each horizon: (1−α_min) ε β_z."""
        return np.maximum.accumulate(self.coupling)

    @functools.cached_property
    def convexity(self) -> float:
        """μ."""
        value = self.constant("strong_convexity")
        if value <= 0:
            why = self.problem.constants.strong_convexity.why
            raise Infeasible(f"the risk is not known to be strongly convex: {why}")
        return value

    @functools.cached_property
    def contraction(self) -> np.ndarray:
        """γ_t = (1−α_t) ε β_z / μ of every round."""
        return self.coupling / self.convexity

    @functools.cached_property
    def stable(self) -> xr.DataArray:
        """θ_t^PS of every round."""
        return _all_solved(stable_points(self.world, progress=False))

    @functools.cached_property
    def optimal(self) -> xr.DataArray:
        """θ_t^PO of every round."""
        return _all_solved(optimal_points(self.world, progress=False))

    @functools.cached_property
    def initial_error(self) -> float:
        """‖θ_1 − θ_1^PS‖."""
        return float(np.linalg.norm(self.start - self.stable.values[0]))

    @functools.cached_property
    def moves(self) -> np.ndarray:
        """Δ_1^PS … Δ_{T−1}^PS."""
        return np.linalg.norm(np.diff(self.stable.values, axis=0), axis=1)

    def accumulated(self, moves: np.ndarray) -> np.ndarray:
        """Σ_{t<T′} of something that moves, for every horizon."""
        return np.concatenate([[0.0], np.cumsum(moves)])

    def first_order(self, errors: np.ndarray) -> np.ndarray:
        """Regret ≤ L Σ ‖e_t‖."""
        return self.constant("lipschitz") * np.cumsum(errors)

    def second_order(self, errors: np.ndarray) -> np.ndarray:
        """Regret ≤ Σ (‖∇PR_t(θ_t^PS)‖ ‖e_t‖ + β_PR ‖e_t‖²/2): the target is nearly a minimum."""
        curvature = self.constant("risk_smoothness")
        rounds = np.arange(1, self.world.rounds + 1)
        slopes = np.linalg.norm(self.world.total_gradient(rounds, self.stable.values), axis=-1)
        return np.cumsum(slopes * errors + 0.5 * curvature * errors**2)

    def follow(self, step: Any) -> np.ndarray:
        """Errors of all rounds from `step(t, error)`, which bounds the error after round t = 1, 2, …"""
        errors = np.empty(self.world.rounds)
        errors[0] = error = self.initial_error
        for t, move in enumerate(self.moves):
            errors[t + 1] = error = step(t, error) + move
        return errors

    @property
    def trust(self) -> str:
        """The least trustworthy kind among the constants that were used."""
        decisive = dict(self.used)
        if "response_strength" in decisive:  # ε and β_z enter through their product alone
            decisive.pop("sensitivity", None)
            decisive.pop("data_smoothness", None)
        return least_trusted(decisive.values())


def _all_solved(points: xr.DataArray) -> xr.DataArray:
    missing = ~np.isfinite(points.values).all(axis=1)
    if "status" in points.coords:
        missing |= points["status"].values == "unsolved"
    if missing.any():
        raise Infeasible(
            f"the {points.attrs['target']} point of round {int(np.argmax(missing)) + 1} was not found"
        )
    return points
