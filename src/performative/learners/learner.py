"""The interface of a learner: three pure functions over an immutable state.

A learner sees a `Problem` before the first round and its declared feedback after each deployment,
never the world. To write one, derive from `Learner`, and run `pp.testing.check_learner` on it.
"""

from __future__ import annotations

from typing import Any, ClassVar

import equinox as eqx
import numpy as np

from performative.learners.feedback import Feedback, Problem
from performative.world.domains import Domain

Array = Any
State = Any


class Learner(eqx.Module):
    """What every learner has.

    Attributes:
        feedback: what it needs to see, "population", "samples" or "risk".
        rows: how many rows an arm it needs, for samples; an array with one number for each round
            if they are to come one by one, through `feedback.fold`.
        arms: how many models it deploys a round.
        randomised: whether its deployments or feedback are random; others need one run only.
    """

    feedback: ClassVar[str] = "population"
    rows: ClassVar[int] = 1
    arms: ClassVar[int] = 1
    randomised: ClassVar[bool] = False

    @property
    def name(self) -> str:
        """What it is called in tables and figures."""
        return type(self).__name__

    @property
    def streams(self) -> bool:
        """Whether its rows come one by one."""
        return np.ndim(self.rows) > 0

    def prepare(self, problem: Problem) -> Learner:
        """The learner with every default turned into NumPy numbers; called once, never traced."""
        return self

    def start_domain(self, problem: Problem) -> Domain:
        """Where it may start; smaller than Θ for a learner whose arms need room around its model."""
        return problem.domain

    def init(self, problem: Problem, start: Array) -> State:
        """The state before the first round."""
        raise NotImplementedError

    def deploy(self, state: State, key: Array) -> Array:
        """Which models go out this round: (arms, parameters). `key` is for a learner's own dice."""
        raise NotImplementedError

    def update(self, state: State, feedback: Feedback) -> State:
        """The state for the next round, from the feedback of this one's arms."""
        raise NotImplementedError
