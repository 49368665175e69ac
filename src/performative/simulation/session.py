"""A world played a round at a time, by anyone's own code.

The same rounds, the same draws and the same result as `simulate`: what a learner would be shown is
handed out as plain NumPy.
"""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np

from performative import _checks
from performative._precision import double
from performative.learners.feedback import KINDS, Problem, arm_noise
from performative.simulation.engine import (
    check_starts,
    check_targets,
    problem_of,
    round_key,
    run_key,
)
from performative.simulation.run import Record, Run
from performative.world.world import World

Array = Any


class PopulationData:
    """The expectations under a deployed model's data, as plain functions of a model."""

    def __init__(self, world: World, t: int, populated: np.ndarray):
        self._world, self._t, self._populated = world, t, populated

    def decoupled_risk(self, theta: Any) -> Any:
        """DPR_t(θ, deployed)."""
        return self._world.decoupled_risk(self._t, theta, self._populated)

    def gradient(self, theta: Any) -> Any:
        """∇_θ DPR_t(θ, deployed)."""
        return self._world.gradient(self._t, theta, self._populated)

    def hessian(self, theta: Any) -> Any:
        """∇²_θ DPR_t(θ, deployed)."""
        return self._world.hessian(self._t, theta, self._populated)


class Session:
    """Play a world by hand: deploy, look, deploy again; `close` gives the `Run`.

    Args:
        world: what is played.
        seed, run: which draws; those of run `run` of `simulate(..., seed=seed)`.
        start: where a lagged population starts; the first model deployed unless given.

    >>> import performative as pp
    >>> world = pp.World(response=pp.responses.location(0.5, pp.Gaussian([1.0], 1.0)),
    ...                  loss=pp.losses.squared(), domain=pp.domains.ball(5.0), rounds=3)
    >>> session = pp.Session(world)
    >>> session.deploy([0.0], feedback="risk")
    1.0
    >>> rows = session.deploy([1.0], feedback="samples", n=100)
    >>> rows.shape
    (100, 1)
    >>> session.close().regret("stable").values.tolist()
    [[0.5, 0.625]]
    """

    def __init__(self, world: World, seed: int = 0, run: int = 0, start: Any = None):
        self.world = _checks.instance("world", world, World, "a pp.World")
        self._seed = _checks.integer("seed", seed, low=0)
        self._run = _checks.integer("run", run, low=0)
        self._deployed: list[np.ndarray] = []
        self._start = None if start is None else check_starts(world, start, 1)[0]
        self._population: np.ndarray | None = self._start
        self._feedback = ""

    @property
    def round(self) -> int:
        """The round to be played next."""
        return len(self._deployed) + 1

    @property
    def problem(self) -> Problem:
        """What a learner may know beforehand."""
        return problem_of(self.world)

    @double
    def deploy(self, theta: Any, feedback: str = "samples", n: int = 1) -> Any:
        """Deploy a model, or a list of models side by side, and see what comes back.

        Args:
            theta: one model, or several (arms), in the domain.
            feedback: "samples", n rows from each arm's data; "risk", PR_t of each arm; "population",
                an object with `decoupled_risk`, `gradient` and `hessian` on each arm's data.
            n: rows an arm.

        Returns:
            The feedback of the model; a list with that of each arm if a list was deployed.
        """
        _checks.choice("feedback", feedback, KINDS)
        n = _checks.integer("n", n, low=1)
        if self.round > self.world.rounds:
            raise IndexError(f"the world has {self.world.rounds} rounds; all have been played.")
        models = self.world.check_deployable("theta", theta)
        if models.ndim > 2 or models.size == 0:
            raise ValueError(
                f"theta must be a model or a list of models; got shape {models.shape}."
            )
        arms = models.reshape(-1, self.world.parameters)
        if self._deployed and len(arms) != len(self._deployed[0]):
            raise ValueError(
                f"theta must have the same number of arms in every round, {len(self._deployed[0])}; "
                f"got {len(arms)}."
            )
        seen = self._look(arms, feedback, n)
        if self.world.lag is not None:
            before, rate = self.populated(arms)[0], self.world.lag
            self._population = (1.0 - rate) * before + rate * arms.mean(axis=0)
        self._deployed.append(arms)
        self._feedback = feedback
        return seen[0] if models.ndim == 1 else seen

    def _look(self, arms: np.ndarray, feedback: str, n: int) -> list[Any]:
        populated, t = self.populated(arms), self.round
        if feedback == "population":
            return [PopulationData(self.world, t, shaped) for shaped in populated]
        if feedback == "risk":
            return [
                float(self.world.decoupled_risk(t, arm, shaped))
                for arm, shaped in zip(arms, populated, strict=True)
            ]
        here = self.world.at(t)
        key = round_key(run_key(self._seed, jnp.asarray(self._run)), jnp.asarray(t))
        noise = arm_noise(key, len(arms), n, self.world.dimension)
        return [
            np.asarray(
                here.rows(shaped, type(noise)(noise.normals[i], noise.uniforms[i], noise.key[i]))
            )
            for i, shaped in enumerate(populated)
        ]

    def populated(self, arms: np.ndarray) -> np.ndarray:
        """The models that shape the data: the arms, or the state of a lagged population."""
        if self.world.lag is None:
            return arms
        state = arms.mean(axis=0) if self._population is None else self._population
        return np.broadcast_to(state, arms.shape)

    def close(self, against: Any = ("stable",)) -> Run:
        """The run so far, as `simulate` would have returned it."""
        if not self._deployed:
            raise ValueError("deploy must be called at least once before close; got no round.")
        targets = check_targets(against)
        deployed = np.stack(self._deployed)
        start = deployed[0].mean(axis=0) if self._start is None else self._start
        run = _as_run(self.world, deployed, self._seed, self._feedback, start)
        for name in targets:
            run.regret(name)
        return run


def _as_run(world: World, deployed: np.ndarray, seed: int, feedback: str, start: np.ndarray) -> Run:
    rounds, arms, _ = deployed.shape
    record = Record("all", 1, world, arms, 1, 1, ())
    record.rounds = np.arange(1, rounds + 1)
    record.deployed = deployed[None]
    record.watch(1, record.deployed)
    learner = _ByHand(feedback)
    run = record.finish(world, learner, seed, start[None])  # pyright: ignore[reportArgumentType]
    run.dataset.attrs["rounds"] = rounds
    return run


class _ByHand:
    """What stands in a run's attributes where no learner of ours played."""

    name, randomised = "by hand", True

    def __init__(self, feedback: str):
        self.feedback = feedback
