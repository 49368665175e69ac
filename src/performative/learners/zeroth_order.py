r"""What both zeroth-order learners of section 5 of the paper share: dice, projection, parameters.

Around an internal model θ_t in (1−ρ)Θ, arms a distance δ away are deployed, u_t uniform on the
sphere; their observed risks alone make a gradient estimate g_t of the smoothed risk, and
$\theta_{t+1} = \Pi_{(1-\rho)\Theta}(\theta_t - \eta_t g_t)$. The theorems' η, δ and ρ = δ/r are
written here once, for any estimate with $E\|g\|^2 \le d^2 (s^2 + v^2/\delta^2)$. It knows no world.
"""

from __future__ import annotations

import dataclasses
import warnings
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from performative import _checks
from performative.learners.feedback import Problem
from performative.learners.learner import Learner
from performative.learners.steps import check_step, over_rounds
from performative.world.domains import Domain

Array = Any

CASES = ("strongly convex", "convex")
"""The two cases of Theorems 5.2 and 5.3."""


class Estimate(NamedTuple):
    """How large the gradient estimate can be: E‖g‖² ≤ d² (slope² + (spread/δ)²)."""

    slope: float
    spread: float

    def size(self, dimension: int, delta: float) -> float:
        """The root of that bound."""
        return dimension * float(np.hypot(self.slope, self.spread / delta))


class Needed:
    """The world's constants, refused with one sentence where they are needed and not known."""

    def __init__(self, name: str, problem: Problem):
        self._name, self._constants = name, problem.constants

    def __call__(self, constant: str, symbol: str, argument: str) -> float:
        found = getattr(self._constants, constant)
        if not np.isfinite(found.value) or found.value == 0.0:
            value = f"{found.value:g}" if found.value == 0.0 else "not known"
            raise ValueError(
                f"{argument} must be given to {self._name} in this world: its default needs "
                f"{symbol}, which is {value} here ({found.why})."
            )
        return found.value


class ZerothOrder(Learner):
    """One or two arms around an internal model; what is observed of them is the learner's own."""

    step: Any  # as given; after `prepare` one number a round
    delta: Any
    rho: Any
    inner: Domain | None  # (1−ρ)Θ, once prepared
    case: str | None = eqx.field(static=True)
    anyway: bool = eqx.field(static=True)

    randomised = True

    def estimate(self, need: Needed) -> Estimate:
        """How large the gradient estimate can be in this world."""
        raise NotImplementedError

    def gradient(self, theta: Array, feedback: Any) -> Array:
        """g_t, from the feedback of the arms."""
        raise NotImplementedError

    def prepare(self, problem: Problem) -> Learner:
        if self.inner is not None:
            return self
        chosen = choose(self, problem)
        return dataclasses.replace(
            self,
            step=chosen.step,
            delta=np.asarray(chosen.delta),
            rho=np.asarray(chosen.rho),
            inner=problem.domain.shrink(chosen.rho),
            case=chosen.case,
        )

    def start_domain(self, problem: Problem) -> Domain:
        prepared: Any = self.prepare(problem)
        return prepared.inner

    def init(self, problem: Problem, start: Array) -> Array:
        return start

    def deploy(self, state: Array, key: Array) -> Array:
        # Opposite arms: one alone, or both.
        u = unit_vector(key, state.shape[0])
        return state + self.delta * jnp.stack([u, -u][: self.arms])

    def update(self, state: Array, feedback: Any) -> Array:
        step = jnp.asarray(self.step)[feedback.round - 1]
        assert self.inner is not None
        return self.inner.projection(state - step * self.gradient(state, feedback))


def unit_vector(key: Array, dimension: int) -> Array:
    """Uniform on the sphere."""
    normal = jax.random.normal(key, (dimension,))
    return normal / jnp.linalg.norm(normal)


class Chosen(NamedTuple):
    """The parameters of a run, and which case of the theorem they are of ("given" for neither)."""

    step: np.ndarray
    delta: float
    rho: float
    case: str


def smoothing(case: str, estimate: Estimate, need: Needed, dimension: int, horizon: float) -> float:
    r"""δ of Theorems 5.2 and 5.3.

    Exact risks (v = 0) allow $\delta = d^2 s/(6\mu'T)$, or $dD/(6\sqrt T)$ in the convex case. Noisy
    ones want $(d^2 v^2 (1+\log T) / (2\mu' K T))^{1/3}$, or $\sqrt{D d v/K}\,T^{-1/4}$, with
    $K = 3L + 2F/r$. The first has no factor (1 + log T): the one in a footnote of the paper's proof
    doubles the leading term of the bound, which grows with δ (erratum).
    """
    slope, spread = estimate
    strongly = case == "strongly convex"
    scale = need("risk_convexity", "μ′", "delta") if strongly else need("diameter", "D", "delta")
    exact = noisy = 0.0
    if slope > 0:
        exact = dimension * (
            dimension * slope / (6 * scale * horizon) if strongly else scale / (6 * horizon**0.5)
        )
    if spread > 0:
        cost = 3 * (slope or need("lipschitz", "L", "delta"))
        cost += 2 * need("loss_scale", "F", "delta") / need("inradius", "r", "delta")
        if strongly:
            size = (dimension * spread) ** 2 * (1 + np.log(horizon)) / (2 * scale)
            noisy = (size / (cost * horizon)) ** (1 / 3)
        else:
            noisy = (scale * dimension * spread / cost) ** 0.5 * horizon**-0.25
    return float(max(exact, noisy))


def choose(learner: ZerothOrder, problem: Problem) -> Chosen:
    """The run's parameters: what was given, and the theorem's choice for the rest."""
    need = Needed(learner.name, problem)
    inradius = _inradius(learner, problem)
    case = "given"
    if learner.step is None or learner.delta is None:
        case = _case(learner, problem)
    if learner.delta is None:
        case, delta = _fitting(learner, problem, need, case, inradius)
    else:
        delta = learner.delta
        if delta > inradius:
            raise ValueError(
                f"delta must be at most the inradius of the domain about 0, {inradius:g}, for the "
                f"arms to stay inside; got {delta:g}."
            )
    rho = delta / inradius if learner.rho is None else learner.rho
    if rho < delta / inradius * (1 - 1e-12):
        raise ValueError(
            f"rho must be at least delta/r = {delta / inradius:.4g} for the arms to stay inside the "
            f"domain; got {rho:.4g}."
        )
    if learner.step is not None:
        step = over_rounds("step", learner.step, problem.rounds)
    elif case == "strongly convex":
        curvature = need("risk_convexity", "μ′", "step")
        step = 1.0 / (curvature * np.arange(1, problem.rounds + 1))
    else:
        size = learner.estimate(need).size(problem.parameters, delta)
        constant = need("diameter", "D", "step") / (size * problem.rounds**0.5)
        step = np.full(problem.rounds, constant)
    return Chosen(step, float(delta), float(rho), case)


def _inradius(learner: ZerothOrder, problem: Problem) -> float:
    inradius = problem.domain.inradius
    if inradius <= 0:
        raise ValueError(
            f"domain must hold a ball about 0 for {learner.name}, which keeps its arms inside by "
            "shrinking the domain about 0; got a domain that does not."
        )
    return inradius


def _case(learner: ZerothOrder, problem: Problem) -> str:
    """The case asked for, or that of the world."""
    convexity = problem.constants.risk_convexity
    if learner.case == "strongly convex" and not convexity.value > 0:
        raise ValueError(
            f"case must be 'convex' in this world, where the curvature of PR_t is only known to be "
            f"at least {convexity.value:g} ({convexity.why}); got 'strongly convex'."
        )
    if convexity.value < 0:
        _say(
            f"PR_t is not known to be convex: its curvature is at least {convexity.value:.3g} "
            f"({convexity.why}). {learner.name} runs with the parameters of the convex case, and no "
            "theorem bounds its regret."
        )
    return learner.case or CASES[not convexity.value > 0]


def _fitting(
    learner: ZerothOrder, problem: Problem, need: Needed, case: str, inradius: float
) -> tuple[str, float]:
    """The case whose smallest horizon is met, the given one first, and its δ."""
    cases = [case] if learner.case or case == "convex" else list(CASES)
    estimate = learner.estimate(need)

    def delta(case: str, horizon: float) -> float:
        return smoothing(case, estimate, need, problem.parameters, horizon)

    for name in cases:
        if delta(name, problem.rounds) <= inradius:
            if name != case:
                _say(
                    f"{learner.name} runs with the parameters of the convex case: those of the "
                    f"strongly convex one need {_least(delta, case, inradius):,} rounds, and the "
                    f"world has {problem.rounds:,}."
                )
            return name, delta(name, problem.rounds)
    figures = " and ".join(f"{_least(delta, name, inradius):,} ({name} case)" for name in cases)
    if not learner.anyway:
        raise ValueError(
            f"rounds must be at least {figures} for the theorem's parameters of {learner.name}; got "
            f"{problem.rounds:,}: give delta=, or anyway=True to go on with delta = r/2."
        )
    _say(
        f"{learner.name} goes on with delta = r/2 = {inradius / 2:.4g}: the theorem's own needs "
        f"{figures} rounds, and the world has {problem.rounds:,}."
    )
    return cases[-1], inradius / 2


def _least(delta: Any, case: str, inradius: float) -> int:
    """The smallest horizon T with δ(T) ≤ r; δ falls with T."""
    high = 1
    while delta(case, high) > inradius:
        high *= 2
    low = high // 2
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if delta(case, middle) > inradius else (low, middle)
    return high


def _say(what: str) -> None:
    warnings.warn(what, stacklevel=2)


def given(step: Any, delta: Any, rho: Any, case: Any, anyway: Any) -> dict[str, Any]:
    """The settings that both learners take, checked."""
    return {
        "step": check_step("step", step),
        "delta": None if delta is None else _checks.number("delta", delta, low=0.0, open_low=True),
        "rho": None if rho is None else _checks.number("rho", rho, low=0.0, high=1.0),
        "inner": None,
        "case": None if case is None else _checks.choice("case", case, CASES),
        "anyway": bool(anyway),
    }
