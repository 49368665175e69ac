"""A world as an environment of Gymnasium, for reinforcement learning and anything else that acts in it.

An action is the model to deploy, an observation the rows that it brings about, the reward −PR_t.
"""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np

from performative import _checks
from performative.simulation.run import Run
from performative.simulation.session import Session
from performative.world.world import World


class Environment(gymnasium.Env[np.ndarray, np.ndarray]):
    """Play a world one model at a time.

    `reset` deploys the start in round 1 and observes what comes back; every step deploys the action,
    projected onto the domain, in the next round. The episode ends after the last.

    Args:
        world: what is played.
        rows: how many an observation has.
        start: θ_1; the domain's centre unless given.

    >>> import performative as pp
    >>> from performative.interop.gymnasium import Environment
    >>> world = pp.World(response=pp.responses.location(0.5, pp.Gaussian([1.0], 1.0)),
    ...                  loss=pp.losses.squared(), domain=pp.domains.ball(5.0), rounds=3)
    >>> environment = Environment(world, rows=100)
    >>> seen, _ = environment.reset(seed=0)
    >>> seen, reward, terminated, truncated, about = environment.step([2.0])
    >>> seen.shape, reward, terminated, about["round"]   # PR(2) = 1/2 + (2 − 2)²/2
    ((100, 1), -0.5, False, 2)
    >>> environment.run().regret("stable").values.tolist()
    [[0.5, 0.5]]
    """

    def __init__(self, world: World, rows: int = 100, start: Any = None):
        self.world = _checks.instance("world", world, World, "a pp.World")
        self.rows = _checks.integer("rows", rows, low=1)
        given = world.domain.center(world.parameters) if start is None else start
        self.start = world.check_deployable("start", given)
        shape = (self.rows, world.dimension)
        self.observation_space = gymnasium.spaces.Box(-np.inf, np.inf, shape, np.float64)
        reach = world.domain.radius  # of a ball that holds the domain; actions are projected
        self.action_space = gymnasium.spaces.Box(-reach, reach, (world.parameters,), np.float64)
        self._session: Session | None = None

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray, dict[str, Any]]:
        """Begin anew with the start deployed; the draws are those of a seed drawn from `seed`."""
        super().reset(seed=seed)
        self._session = Session(self.world, seed=int(self.np_random.integers(2**31)))
        seen, _, about = self._deploy(self.start)
        return seen, about

    def step(self, action: Any) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        """Deploy a model in the next round."""
        theta = _checks.numbers("action", action)
        if theta.shape != (self.world.parameters,):
            raise ValueError(
                f"action must have shape ({self.world.parameters},); got {theta.shape}."
            )
        seen, reward, about = self._deploy(self.world.domain.project(theta))
        return seen, reward, about["round"] == self.world.rounds, False, about

    def run(self, against: Any = ("stable",)) -> Run:
        """The rounds played so far, as `pp.simulate` would return them."""
        return self._playing().close(against)

    def _deploy(self, theta: np.ndarray) -> tuple[np.ndarray, float, dict[str, Any]]:
        session = self._playing()
        t = session.round
        if t > self.world.rounds:
            raise IndexError("the episode is over; call reset to begin anew.")
        (populated,) = session.populated(theta[None])
        risk = float(self.world.decoupled_risk(t, theta, populated))
        seen = session.deploy(theta, feedback="samples", n=self.rows)
        return seen, -risk, {"round": t, "deployed": theta.copy()}

    def _playing(self) -> Session:
        if self._session is None:
            raise RuntimeError("reset must be called first; got no episode.")
        return self._session
