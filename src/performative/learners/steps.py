"""Step sizes: as users give them, and as the theorems of section 4 of the paper choose them.

What a user gives, a number, an array or a function, becomes one array of NumPy numbers before the
first round. What a theorem chooses comes from the constants of a `Problem`, and is refused in one
sentence where those are not known or its condition fails.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from performative import _checks
from performative.learners.feedback import Problem

Array = Any


def check_step(name: str, step: Any) -> Any:
    """`step` if it is None, a function, or nonnegative numbers."""
    if step is None or callable(step):
        return step
    return _nonnegative(name, _checks.numbers(name, step, ndim=(0, 1)))


def over_rounds(name: str, step: Any, count: int, *fixed: int) -> np.ndarray:
    """The step at each index 1 … count.

    A function is called as ``step(*fixed, index)``, once with all indices if it can take an array,
    else index by index.

    >>> over_rounds("step", lambda t: 1 / t, 4).tolist()
    [1.0, 0.5, 0.3333333333333333, 0.25]
    >>> over_rounds("step", lambda t: 0.5 if t < 3 else 0.1, 4).tolist()
    [0.5, 0.5, 0.1, 0.1]
    """
    values = _called(step, fixed, count) if callable(step) else step
    values = _nonnegative(name, _checks.numbers(name, values, ndim=(0, 1)))
    if values.ndim == 1 and values.shape != (count,):
        raise ValueError(f"{name} must hold {count} numbers; got {values.size}.")
    return np.broadcast_to(values, (count,)).copy()


def _nonnegative(name: str, values: np.ndarray) -> np.ndarray:
    if values.size and values.min() < 0:
        raise ValueError(f"{name} must not be negative; got {values.min():g}.")
    return values


def _called(step: Any, fixed: tuple[int, ...], count: int) -> Any:
    indices = np.arange(1.0, count + 1)  # whole numbers of 64 bits would overflow in t**8
    try:
        values = np.asarray(step(*fixed, indices), dtype=float)
        if values.shape == (count,):
            return values
    except (TypeError, ValueError, IndexError):
        pass  # made for one index at a time: a comparison, the math module, a table
    return [step(*fixed, index) for index in range(1, count + 1)]


def known(problem: Problem, constant: str) -> float:
    """A constant that a default step needs; refused where it is not known."""
    found = getattr(problem.constants, constant)
    if not np.isfinite(found.value):
        raise ValueError(
            f"step must be given in this world: the theorem's choice needs its "
            f"{constant.replace('_', ' ')}, which is {found.why}."
        )
    return float(found.value)


def coupling(problem: Problem) -> np.ndarray:
    """(1−α_t) ε β_z of every round: how strongly the gradient follows the deployed model."""
    if np.any(problem.alphas < 1.0):
        known(problem, "sensitivity")
        known(problem, "data_smoothness")
    return problem.constants.coupling


class Decreasing(NamedTuple):
    """The steps 4/(A(t + t0)) of Propositions 4.2 and 4.4, and what they are made of."""

    a: float
    b: float
    t0: int

    def steps(self, count: int) -> np.ndarray:
        """η at 1 … count."""
        return 4.0 / (self.a * (np.arange(1, count + 1) + self.t0))


def decreasing(convexity: float, coupled: float, noise_growth: float) -> Decreasing:
    r"""$A = 2(\mu - x)$, $B = C_V^2(1 + x/\mu)^2$ and $t_0 = \max(1, ⌈8B/A^2⌉, ⌈8\mu/A⌉)$.

    Args:
        convexity: μ.
        coupled: x, which is (1−α_min) ε β_z for greedy SGD and 0 inside a round of lazy SGD.
        noise_growth: C_V.

    >>> decreasing(1.0, 0.3, 1.0)
    Decreasing(a=1.4, b=1.6900000000000002, t0=7)
    """
    a = 2.0 * (convexity - coupled)
    if not a > 0.0:
        raise ValueError(
            "step must be given in this world: the theorem has no step unless (1 − α_min) ε β_z is "
            f"below μ; got {coupled:.4g} and {convexity:.4g}."
        )
    b = noise_growth**2 * (1.0 + coupled / convexity) ** 2
    return Decreasing(a, b, max(1, _ceiling(8.0 * b / a**2), _ceiling(8.0 * convexity / a)))


def _ceiling(value: float) -> int:
    """⌈value⌉, where rounding errors do not make one more of a whole number."""
    return int(np.ceil(value * (1.0 - 1e-12)))
