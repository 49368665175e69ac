"""The loss ℓ(z, θ) of one row: squared, logistic, a user's function of the margin, or of the row.

Rows are *signed* (z = yx, as in the paper), or *labelled* (x, y) with the label as last column and,
on request, an intercept as last parameter. A loss knows which exact expectation it admits:
`expected` from a mean and a covariance, or a `link` of a linear margin. It knows no world.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from performative import _checks
from performative.world.distributions import Distribution, Empirical, Gaussian, Mixture

Array = Any


class Loss(eqx.Module):
    """What all losses offer."""

    labelled: bool = eqx.field(static=True)
    intercept: bool = eqx.field(static=True)
    penalise_intercept: bool = eqx.field(static=True)
    l2: Array

    def parameters(self, dimension: int) -> int | None:
        """Length of a model for rows of this length; None if the loss does not tell."""
        return dimension - int(self.labelled) + int(self.intercept)

    def value(self, row: Array, theta: Array) -> Array:
        """ℓ(z, θ) of one row; pure, to be traced."""
        raise NotImplementedError

    def gradient(self, row: Array, theta: Array) -> Array:
        """∇_θ ℓ(z, θ) of one row; pure, to be traced."""
        return jax.grad(self.value, argnums=1)(row, theta)

    def penalty(self, theta: Array) -> Array:
        """The part of the loss that does not depend on the row."""
        penalised = theta[:-1] if self.intercept and not self.penalise_intercept else theta
        return 0.5 * self.l2 * jnp.sum(penalised**2)

    def penalised(self, parameters: int) -> np.ndarray:
        """One for every parameter that the penalty holds back, else zero."""
        mask = np.ones(parameters)
        if self.intercept and not self.penalise_intercept:
            mask[-1] = 0.0
        return mask

    def check_rows(self, name: str, distribution: Distribution) -> None:
        """Refuse data that this loss is not made for."""


def _split(row: Array) -> tuple[Array, Array]:
    return row[..., :-1], row[..., -1]


class Squared(Loss):
    """Half the squared distance; its expectation needs the mean and the covariance alone."""

    def value(self, row: Array, theta: Array) -> Array:
        if not self.labelled:
            return 0.5 * jnp.sum((row - theta) ** 2) + self.penalty(theta)
        x, y = _split(row)
        weights, bias = self._weights(theta)
        return 0.5 * (y - x @ weights - bias) ** 2 + self.penalty(theta)

    def expected(self, mean: Array, covariance: Array, theta: Array) -> Array:
        """E ℓ(z, θ) for any law of z with this mean and covariance."""
        if not self.labelled:
            spread = jnp.trace(covariance)
            return 0.5 * (jnp.sum((mean - theta) ** 2) + spread) + self.penalty(theta)
        weights, bias = self._weights(theta)
        residual = jnp.concatenate([-weights, jnp.ones(1)])
        centre = residual @ mean - bias
        return 0.5 * (centre**2 + residual @ covariance @ residual) + self.penalty(theta)

    def _weights(self, theta: Array) -> tuple[Array, Array]:
        return (theta[:-1], theta[-1]) if self.intercept else (theta, jnp.zeros(()))


class Margin(Loss):
    """φ(u) of the margin u = θᵀz, or u = y(θᵀx + b); `link(k, u)` is the k-th derivative of φ."""

    link: Callable[[int, Array], Array] = eqx.field(static=True)

    def value(self, row: Array, theta: Array) -> Array:
        return self.link(0, self.margins(row, theta)) + self.penalty(theta)

    def gradient(self, row: Array, theta: Array) -> Array:
        margin, direction = jax.value_and_grad(self.margins, argnums=1)(row, theta)
        return self.link(1, margin) * direction + jax.grad(self.penalty)(theta)

    def margins(self, rows: Array, theta: Array) -> Array:
        """u of one row, or of many."""
        if not self.labelled:
            return rows @ theta
        x, y = _split(rows)
        return y * (x @ theta[:-1] + theta[-1] if self.intercept else x @ theta)

    def direction(self, mean: Array, theta: Array) -> Array:
        """How the margin of rows with the mean row's label grows with the row."""
        if not self.labelled:
            return theta
        weights = theta[:-1] if self.intercept else theta
        return jnp.concatenate([mean[-1] * weights, jnp.zeros(1)])

    def check_rows(self, name: str, distribution: Distribution) -> None:
        if not self.labelled:
            return
        if isinstance(distribution, Mixture):
            for component in distribution.components:
                self.check_rows(name, component)
            return
        if isinstance(distribution, Empirical):
            labels = distribution.points[..., -1] + distribution.offset[-1]
        elif isinstance(distribution, Gaussian):
            labels = np.atleast_1d(distribution.mean[..., -1])
            if np.any(distribution.covariance[..., -1, :] != 0):
                raise ValueError(
                    f"{name} must have labels of -1 or 1 in the last column for this loss; "
                    "got a Gaussian whose label varies: use a pp.Mixture with one for each label."
                )
        else:
            return
        wrong = labels[np.abs(np.abs(labels) - 1.0) > 1e-9]
        if wrong.size:
            raise ValueError(
                f"{name} must have labels of -1 or 1 in the last column for this loss; "
                f"got {wrong.flat[0]:g}."
            )


def logistic_link(k: int, u: Array) -> Array:
    """log(1 + e^-u) and its first four derivatives."""
    if k == 0:
        return jnp.logaddexp(0.0, -u)
    s = jax.nn.sigmoid(u)
    if k == 1:
        return s - 1.0
    curvature = s * (1.0 - s)
    if k == 2:
        return curvature
    if k == 3:
        return curvature * (1.0 - 2.0 * s)
    if k == 4:
        return curvature * (1.0 - 6.0 * curvature)
    raise NotImplementedError(f"derivative {k} of the logistic link")


class _Link:
    """A user's φ and its derivatives by automatic differentiation; equal if φ is."""

    def __init__(self, function: Callable[[Array], Array]):
        self.function = function

    def __call__(self, k: int, u: Array) -> Array:
        function = jnp.vectorize(self.function)
        for _ in range(k):
            function = _derivative(function)
        return function(u)

    def __hash__(self) -> int:
        return hash(self.function)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Link) and self.function == other.function


def _derivative(function: Callable[[Array], Array]) -> Callable[[Array], Array]:
    return lambda u: jax.jvp(function, (u,), (jnp.ones_like(u),))[1]


class Custom(Loss):
    """A user's function of one row and a model; derivatives by automatic differentiation."""

    function: Callable[[Array, Array], Array] = eqx.field(static=True)
    count: int | None = eqx.field(static=True)

    def parameters(self, dimension: int) -> int | None:
        return self.count

    def value(self, row: Array, theta: Array) -> Array:
        return self.function(row, theta)


def squared(
    l2: float = 0.0,
    *,
    labelled: bool = False,
    intercept: bool = False,
    penalise_intercept: bool = False,
) -> Loss:
    r"""$\frac12\|z-\theta\|^2$, or on labelled rows $\frac12(y-\theta^\top x-b)^2$.

    Args:
        l2: adds $\frac{\lambda}{2}\|\theta\|^2$.
        labelled: rows are (x, y), the label last.
        intercept: the last parameter is an intercept b (labelled rows only).
        penalise_intercept: whether λ holds back the intercept too.
    """
    return Squared(*_settings(l2, labelled, intercept, penalise_intercept))


def logistic(
    l2: float = 0.0,
    *,
    labelled: bool = False,
    intercept: bool = False,
    penalise_intercept: bool = False,
) -> Loss:
    r"""$\log(1+e^{-\theta^\top z})+\frac{\lambda}{2}\|\theta\|^2$, with $z=yx$ or on rows (x, y).

    Args:
        l2: λ.
        labelled: rows are (x, y), the label last, −1 or 1.
        intercept: the last parameter is an intercept b (labelled rows only).
        penalise_intercept: whether λ holds back the intercept too.

    >>> import performative as pp
    >>> loss = pp.losses.logistic(l2=1.0, labelled=True, intercept=True)
    >>> loss.parameters(dimension=18)
    18
    """
    return Margin(*_settings(l2, labelled, intercept, penalise_intercept), link=logistic_link)


def margin(
    function: Callable[[Array], Array],
    l2: float = 0.0,
    *,
    labelled: bool = False,
    intercept: bool = False,
    penalise_intercept: bool = False,
) -> Loss:
    r"""A function of your own of the margin $u=\theta^\top z$ (or $y(\theta^\top x+b)$), plus l2.

    Because the loss sees the row through one number, expectations under normal data are
    one-dimensional integrals and stay exact; prefer this to `custom` where it applies. `function`
    takes a number u, in jax.numpy, and must be smooth.
    """
    _checks.function("function", function, "a function of the margin")
    return Margin(*_settings(l2, labelled, intercept, penalise_intercept), link=_Link(function))


def custom(
    function: Callable[[Array, Array], Array],
    parameters: int | None = None,
    *,
    labelled: bool = False,
) -> Loss:
    """A loss of your own: ``function(row, theta)`` in jax.numpy returns one number.

    Args:
        function: gradients and Hessians come by automatic differentiation.
        parameters: length of a model, where the response does not tell.
        labelled: the last column of a row is a label, which a strategic response leaves alone.
    """
    _checks.function("function", function, "a function of a row and a model")
    count = None if parameters is None else _checks.integer("parameters", parameters, low=1)
    return Custom(bool(labelled), False, False, np.zeros(()), function, count)


def _settings(l2: float, labelled: bool, intercept: bool, penalise_intercept: bool) -> Any:
    l2 = _checks.number("l2", l2, low=0.0)
    if intercept and not labelled:
        raise ValueError("intercept must go with labelled=True; got intercept=True on signed rows.")
    if penalise_intercept and not intercept:
        raise ValueError("penalise_intercept must go with intercept=True; got intercept=False.")
    return bool(labelled), bool(intercept), bool(penalise_intercept), np.asarray(l2)
