r"""How regret grows with T when α_t = c t^−b: what the paper proves, what is sharper, what is measured.

Sections 3 and 4 of the paper bound the path length by Σ α_t, and so the regret of retraining by
T^{1−b}. In a quadratic world it is smaller: ∇PR_t(θ_t^PS) = α_t Aᵀ(θ_t^PS − m_t) and ‖e_t‖ are both
O(α_t), so regret is O(1 + Σ α_t²), which is T^{1−2b}.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import xarray as xr

from performative import _checks
from performative.learners.greedy_sgd import GreedySGD
from performative.learners.lazy_sgd import LazySGD
from performative.learners.learner import Learner
from performative.learners.rgd import RGD
from performative.learners.rrm import RRM

POINTS = 60


class Growth(NamedTuple):
    """Regret of order T^exponent, with a factor log T or without; (0, False) is bounded regret."""

    exponent: float
    log: bool
    why: str

    def __str__(self) -> str:
        if self.exponent == 0:
            return "O(log T)" if self.log else "O(1)"
        return f"O(T^{self.exponent:.3g}{' log T' if self.log else ''})"


class Rate(NamedTuple):
    """What the paper proves, and what the quadratic world does."""

    paper: Growth
    sharper: Growth

    @property
    def exponent(self) -> float:
        """The paper's."""
        return self.paper.exponent

    @property
    def log(self) -> bool:
        """Whether the paper's has a factor log T."""
        return self.paper.log

    @property
    def why(self) -> str:
        """Where the paper has it from."""
        return self.paper.why


def rate(learner: Learner, b: float, r: float | None = None, drift: str = "moving") -> Rate:
    r"""The growth of stability regret that theory predicts for $\alpha_t = c\,t^{-b}$.

    Args:
        learner: RRM, RGD, greedy SGD or lazy SGD, with the steps that the theorems choose.
        b: how fast the exogenous part fades; 0 is a constant α.
        r: for lazy SGD, how n(t) grows; the learner's own unless given. n0 must be large enough.
        drift: "moving" for a $P_t$ that keeps changing by a bounded amount, "fixed" for one P.

    >>> import performative as pp
    >>> found = pp.theory.rate(pp.learners.rrm(), b=0.25)
    >>> found.exponent, found.sharper.exponent
    (0.75, 0.5)
    >>> print(pp.theory.rate(pp.learners.lazy_sgd(), b=2.0, r=2.0).paper)
    O(log T)
    """
    _checks.instance("learner", learner, Learner, "a learner (pp.learners.…)")
    b = _checks.number("b", b, low=0.0)
    moving = _checks.choice("drift", drift, ("moving", "fixed")) == "moving"
    kind = type(learner)  # a learner derived from one of these is another learner
    if kind in (RGD, GreedySGD, LazySGD) and getattr(learner, "step", None) is not None:
        raise ValueError(
            f"learner must have the steps of its theorem for a rate; got {learner.name} with others."
        )
    if isinstance(learner, RRM) and learner.sample is not None:
        raise ValueError(
            "learner must retrain on the whole population for a rate: on as many rows in every "
            f"round noise stays, and regret is linear; got {learner.name}."
        )
    if r is not None and kind is not LazySGD:
        raise ValueError(f"r must go with lazy SGD; got r={r:g} for {learner.name}.")
    if kind is GreedySGD:
        return _greedy(b, moving)
    if isinstance(learner, LazySGD) and kind is LazySGD:
        grows = float(learner.growth) if r is None else _checks.number("r", r, low=0.0)
        return _lazy(b, grows, moving)
    if kind in (RRM, RGD):
        return _retraining(b, moving)
    raise ValueError(
        f"learner must be RRM, RGD, greedy SGD or lazy SGD for a rate; got {learner.name}."
    )


def power_sum(*powers: float) -> tuple[float, bool]:
    """The growth of Σ_t (t^-p + t^-q + …): an exponent, and whether there is a logarithm."""
    slowest = min(powers)
    return max(1.0 - slowest, 0.0), slowest == 1.0


def _retraining(b: float, moving: bool) -> Rate:
    if not moving:
        why = "the path Σ|α_t − α_{t+1}| is bounded (Proposition 3.4)"
        return Rate(Growth(0.0, False, why), Growth(0.0, False, why))
    return Rate(
        Growth(*power_sum(b), "Σ α_t, by Proposition 3.4"),
        Growth(*power_sum(2 * b), "Σ α_t², in a quadratic world"),
    )


def _greedy(b: float, moving: bool) -> Rate:
    # With steps of order 1/t the model is an average of the past: it lags by O(α_t) on a fixed P too.
    still = not moving and b == 0
    paths = np.inf if still else b if moving else b + 1.0  # Δ_t = O(t^−paths)
    if paths <= 1.0:
        paper = Growth(1.0, False, "no sublinear guarantee: the bound is T^(2−b), for b ≤ 1")
    elif paths < 1.5:
        paper = Growth(2.0 - paths, False, "Proposition 4.2 with Δ_t ≤ M t^−p, 1 < p < 3/2")
    else:
        paper = Growth(0.5, False, "Proposition 4.2: the noise, σ√T")
    sharper = power_sum(1.0) if still else power_sum(2 * b, 1.0)
    return Rate(paper, Growth(*sharper, "Σ (α_t² + 1/t), in a quadratic world"))


def _lazy(b: float, r: float, moving: bool) -> Rate:
    if moving:
        return Rate(
            Growth(*power_sum(r / 2, b), "Σ (t^−r/2 + α_t), Propositions 4.4 and 3.4"),
            Growth(*power_sum(r, 2 * b), "Σ (t^−r + α_t²), in a quadratic world"),
        )
    return Rate(
        Growth(*power_sum(r / 2), "Σ t^−r/2, Proposition 4.4; the path is bounded"),
        Growth(*power_sum(r), "Σ t^−r, in a quadratic world"),
    )


class Slope(NamedTuple):
    """A measured log–log slope, and its standard error."""

    value: float
    error: float
    how: str


def slope(curve: Any, first: float = 0.1, points: int = POINTS) -> Slope:
    r"""The slope of log R against log t, by least squares over log-spaced points of [T/10, T].

    Args:
        curve: cumulative regret or a bound: (round), or (run, round), whose mean is then fitted.
        first: where the fit begins, as a part of T.
        points: how many points.

    Returns:
        The slope and its standard error: over runs by leaving out one at a time, where there are
        several; else from the residuals of the fit, which are correlated, so that it is too small.

    >>> import numpy as np
    >>> import performative as pp
    >>> round(pp.theory.slope(3 * np.arange(1, 10_001) ** 0.5).value, 12)
    0.5
    """
    if isinstance(curve, xr.DataArray):
        curve = curve.transpose(..., "round").values
    values = _checks.numbers("curve", curve, ndim=(1, 2))
    first = _checks.number("first", first, low=0.0, high=1.0, open_high=True)
    rounds = values.shape[-1]
    where = np.geomspace(max(first * rounds, 1.0), rounds, _checks.integer("points", points, low=3))
    where = np.unique(where.round().astype(int))
    if len(where) < 3:
        raise ValueError(f"curve must have more rounds for a slope; got {rounds}.")
    runs = np.atleast_2d(values)[:, where - 1]
    average = runs.mean(axis=0)
    if average.min() <= 0:
        t = int(where[np.argmin(average)])
        raise ValueError(
            f"curve must be above 0 from round {where[0]} on for a log–log slope; "
            f"got {average.min():.3g} in round {t}."
        )
    value, error = _fit(np.log(where), np.log(average))
    if len(runs) == 1:
        return Slope(value, error, "residuals of the fit")
    others = (runs.sum(axis=0) - runs) / (len(runs) - 1)
    if others.min() <= 0:
        return Slope(value, np.nan, "one run alone makes the mean positive")
    left_out = np.array([_fit(np.log(where), np.log(other))[0] for other in others])
    spread = np.sqrt((len(runs) - 1) * np.mean((left_out - left_out.mean()) ** 2))
    return Slope(value, float(spread), f"leaving out each of {len(runs)} runs")


def _fit(x: np.ndarray, y: np.ndarray) -> tuple[float, float]:
    """Slope of least squares, and its standard error."""
    centred = x - x.mean()
    square = centred @ centred
    value = centred @ y / square
    residual = y - y.mean() - value * centred
    variance = residual @ residual / max(len(x) - 2, 1)
    return float(value), float(np.sqrt(variance / square))
