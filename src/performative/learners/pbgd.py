r"""PBGD, for optimality without knowing how far the target will travel: ZGD2 with steps as experts.

The two-arm estimate of `zgd2.py`, around the weighted mean of the experts, serves all of them, as the
gradient does in `ader.py`; only the risks of the two arms are seen. Section 5.1 of the paper is the
setting; its tuned step assumes what users do not know.
"""

from __future__ import annotations

import dataclasses
from typing import Any

from performative import _checks
from performative.learners.ader import Crowd, Experts
from performative.learners.feedback import Problem
from performative.learners.learner import Learner
from performative.learners.zeroth_order import Needed, given
from performative.learners.zgd2 import ZGD2

Array = Any


class PBGD(ZGD2):
    slope: float | None = None
    experts: Experts | None = None

    @property
    def name(self) -> str:
        return "PBGD" if self.sample is None else f"PBGD({self.sample} rows)"

    def steepness(self, need: Needed) -> float:
        return need("lipschitz", "L", "slope") if self.slope is None else self.slope

    def prepare(self, problem: Problem) -> Learner:
        if self.experts is not None:
            return self
        prepared: Any = super().prepare(problem)
        need = Needed(self.name, problem)
        size = self.estimate(need).size(problem.parameters, float(prepared.delta))
        diameter = need("diameter", "D", "a bounded domain")
        experts = Experts.of(diameter, size, problem.rounds)
        return dataclasses.replace(prepared, slope=None, experts=experts)

    def init(self, problem: Problem, start: Array) -> Any:
        assert self.experts is not None
        return Crowd.begin(self.experts, start)

    def deploy(self, state: Any, key: Array) -> Array:
        return super().deploy(state.theta, key)

    def update(self, state: Any, feedback: Any) -> Any:
        assert self.experts is not None and self.inner is not None
        return state.follow(self.experts, self.gradient(state.theta, feedback), self.inner)


def pbgd(
    delta: float | None = None,
    rho: float | None = None,
    rows: int | None = None,
    *,
    slope: float | None = None,
    anyway: bool = False,
) -> Learner:
    r"""Two-deployment zeroth-order gradient descent by experts, which needs no path length.

    Args:
        delta, rho, rows, anyway: as of `zgd2`; δ is that of the convex case unless given.
        slope: L, how steep PR_t is at most; the world's unless given.

    >>> import performative as pp
    >>> world = pp.World(response=pp.responses.location(0.5, pp.Gaussian([1.0], 1.0)),
    ...                  loss=pp.losses.squared(l2=0.5), domain=pp.domains.ball(5.0), rounds=400)
    >>> run = pp.simulate(world, pp.learners.pbgd())
    >>> float(run.deployed.values[0, -1].mean().round(1))  # optimal is 2/3, stable would be 1
    0.7

    References:
        Zhao, Wang, Zhang and Zhou, "Bandit convex optimization in non-stationary environments", JMLR
        2021.
    """
    rows = None if rows is None else _checks.integer("rows", rows, low=1)
    if slope is not None:
        slope = _checks.number("slope", slope, low=0.0, open_low=True)
    return PBGD(sample=rows, slope=slope, **given(None, delta, rho, "convex", anyway))
