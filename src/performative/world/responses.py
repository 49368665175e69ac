"""How the population responds to the model that is deployed: D(θ), section 2 of the paper.

A response turns a deployed model into a distribution, and knows nothing of the exogenous drift, of
the loss, or of time. `lagged` marks a population that needs several rounds to respond.
"""

from __future__ import annotations

import functools
import logging
import operator
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from performative import _checks
from performative.world.distributions import Distribution, Empirical, Gaussian, Mixture, Sampled

Array = Any


class Response(eqx.Module):
    """What all responses offer."""

    @property
    def dimension(self) -> int:
        """Length of one row of data."""
        raise NotImplementedError

    @property
    def parameters(self) -> int | None:
        """Length of a model, where the response knows it."""
        raise NotImplementedError

    def at(self, theta: Array) -> Distribution:
        """D(θ); pure, to be traced."""
        raise NotImplementedError

    def for_loss(self, loss: Any) -> Response:
        """The response once the loss is known, which says which columns are features."""
        return self


UNROLLED = 20
"""Up to so many parameters, Aθ is written out column by column: XLA then fuses a whole round."""


class Location(Response):
    matrix: Array  # (d, p), or a number before the loss is known
    base: Distribution
    columns: Array  # the matrix transposed, in memory too

    def __init__(self, matrix: Array, base: Distribution):
        self.matrix, self.base = matrix, base
        self.columns = np.ascontiguousarray(np.transpose(matrix))

    @property
    def dimension(self) -> int:
        return self.base.dimension

    @property
    def parameters(self) -> int | None:
        return None if np.ndim(self.matrix) == 0 else self.matrix.shape[1]

    def at(self, theta: Array) -> Distribution:
        return self.base.shifted(self.move(theta))

    def move(self, theta: Array) -> Array:
        """Aθ; pure, to be traced."""
        if theta.shape[0] > UNROLLED:
            return self.matrix @ theta
        if jax.default_backend() != "cpu":  # where a slice of many lanes is a pass over all of them
            return jnp.sum(self.matrix * theta, axis=1)
        return functools.reduce(
            operator.add, [c * x for c, x in zip(self.columns, theta, strict=True)]
        )

    def for_loss(self, loss: Any) -> Response:
        if np.ndim(self.matrix) != 0:
            return self
        parameters = loss.parameters(self.dimension)
        if parameters not in (None, self.dimension):
            raise ValueError(
                f"matrix must have shape ({self.dimension}, {parameters}) for this loss; "
                f"got the number {float(self.matrix):g}."
            )
        return Location(self.matrix * np.eye(self.dimension), self.base)


def location(matrix: Any, base: Distribution) -> Response:
    r"""The base distribution moved by a matrix: $D(\theta)$ is the law of $z_0 + A\theta$.

    Args:
        matrix: A, of shape (d, p); a number stands for that multiple of the identity.
        base: the law of $z_0$.

    >>> import performative as pp
    >>> response = pp.responses.location(0.5, pp.Gaussian([1.0], 1.0))
    >>> world = pp.World(response=response, loss=pp.losses.squared(),
    ...                  domain=pp.domains.ball(9.0), rounds=1)
    >>> float(world.distribution(1, [2.0]).mean[0])
    2.0
    """
    base = _base(base)
    matrix = _checks.numbers("matrix", matrix, ndim=(0, 2))
    if matrix.ndim == 2 and matrix.shape[0] != base.dimension:
        raise ValueError(
            f"matrix must have one row for each of the {base.dimension} columns of base; "
            f"got shape {matrix.shape}."
        )
    return Location(matrix, base)


class LocationScale(Response):
    matrix: Array  # (d, p)
    scales: Array  # (p, d, d)
    base: Distribution

    @property
    def dimension(self) -> int:
        return self.base.dimension

    @property
    def parameters(self) -> int | None:
        return self.matrix.shape[1]

    def at(self, theta: Array) -> Distribution:
        matrix = jnp.eye(self.dimension) + jnp.tensordot(theta, self.scales, axes=1)
        return self.base.spread(matrix).shifted(self.matrix @ theta)


def location_scale(matrix: Any, scales: Any, base: Distribution) -> Response:
    r"""Mean and spread respond: $z = m + A\theta + (I + \sum_k \theta_k S_k)(z_0 - m)$.

    Here m is the mean of the base. Location-scale families are those for which Miller, Perdomo and
    Zrnic (2021) show when the performative risk is convex.

    Args:
        matrix: A, of shape (d, p); a number stands for that multiple of the identity.
        scales: the S_k, of shape (p, d, d), or (p, d) for diagonal ones.
        base: the law of $z_0$.
    """
    base = _base(base)
    d = base.dimension
    matrix = _checks.numbers("matrix", matrix, ndim=(0, 2))
    if matrix.ndim == 0:
        matrix = matrix * np.eye(d)
    scales = _checks.numbers("scales", scales, ndim=(2, 3))
    if scales.ndim == 2:
        scales = scales[:, :, None] * np.eye(scales.shape[1])
    if matrix.shape[0] != d:
        raise ValueError(
            f"matrix must have one row for each of the {d} columns of base; "
            f"got shape {matrix.shape}."
        )
    if scales.shape != (matrix.shape[1], d, d):
        raise ValueError(
            f"scales must have shape {(matrix.shape[1], d, d)} or {(matrix.shape[1], d)}; "
            f"got shape {scales.shape}."
        )
    return LocationScale(matrix, scales, base)


class Strategic(Response):
    base: Distribution
    modifiable: tuple[float, ...] = eqx.field(static=True)
    is_mask: bool | None = eqx.field(static=True)  # None: the number of columns will tell
    strength: float = eqx.field(static=True)

    @property
    def dimension(self) -> int:
        return self.base.dimension

    @property
    def parameters(self) -> int | None:
        return None

    def for_loss(self, loss: Any) -> Response:
        features = self.dimension - int(getattr(loss, "labelled", False))
        parameters = loss.parameters(self.dimension) or features
        mask = _column_mask(np.array(self.modifiable), self.is_mask, features)
        matrix = np.zeros((self.dimension, parameters))
        np.fill_diagonal(matrix[:features, :features], self.strength * mask)
        return Location(matrix, self.base)


def strategic(base: Distribution, modifiable: Any, strength: float = 0.1) -> Response:
    r"""Agents move their features to raise the score: $x = x_0 + a\,p \circ \theta$.

    Each gains $\theta^\top x$ and pays $|x - x_0|^2 / 2a$, and can change only the modifiable
    columns p. On labelled rows (x, y) it moves x whatever y is, and neither label nor intercept; on
    signed rows z = yx it moves z itself, as the paper's credit experiment does.

    Args:
        base: the law of the rows before anyone responds.
        modifiable: indices of the columns that can change, or a mask over the feature columns, of
            booleans (or of 0 and 1 where these cannot be indices).
        strength: a, how far one unit of weight moves a feature.
    """
    base = _base(base)
    is_mask = True if np.asarray(modifiable).dtype == bool else None
    modifiable = _checks.numbers("modifiable", modifiable, ndim=1)
    strength = _checks.number("strength", strength, low=0.0)
    if modifiable.size > base.dimension:
        raise ValueError(
            f"modifiable must name at most the {base.dimension} columns of base; "
            f"got {modifiable.size} entries."
        )
    if np.any(modifiable != np.round(modifiable)) or modifiable.min(initial=0) < 0:
        raise ValueError(
            f"modifiable must be column indices or a 0/1 mask; got {_checks.shown(modifiable)}."
        )
    if modifiable.max(initial=0) >= base.dimension:
        raise ValueError(
            f"modifiable must be column indices below {base.dimension} or a 0/1 mask; "
            f"got {modifiable.max():g}."
        )
    return Strategic(base, tuple(modifiable.tolist()), is_mask, strength)


def _column_mask(columns: np.ndarray, is_mask: bool | None, features: int) -> np.ndarray:
    if is_mask and columns.size != features:
        raise ValueError(
            f"modifiable must have one boolean for each of the {features} feature columns; "
            f"got {columns.size}."
        )
    repeated = len(set(columns)) != columns.size
    zeros_and_ones = columns.size == features and set(columns) <= {0.0, 1.0}
    if is_mask or (zeros_and_ones and repeated):
        return columns
    if zeros_and_ones and features == 2:
        raise ValueError(
            "modifiable must say which of two columns it means by booleans, such as [True, False]; "
            f"got {columns.astype(int).tolist()}, which could be indices or a mask."
        )
    if columns.size and columns.max() >= features:
        raise ValueError(
            f"modifiable must be indices of the {features} feature columns or a mask over them; "
            f"got {columns.max():g}."
        )
    if repeated:
        raise ValueError(f"modifiable must name each column once; got {_checks.shown(columns)}.")
    mask = np.zeros(features)
    mask[columns.astype(int)] = 1.0
    return mask


class Lagged(Response):
    response: Response
    rate: Array

    @property
    def dimension(self) -> int:
        return self.response.dimension

    @property
    def parameters(self) -> int | None:
        return self.response.parameters

    def at(self, theta: Array) -> Distribution:
        return self.response.at(theta)

    def for_loss(self, loss: Any) -> Response:
        return Lagged(self.response.for_loss(loss), self.rate)


def lagged(response: Response, rate: float) -> Response:
    r"""The population moves only part of the way each round: it carries a state.

    The data of round t come from $D(s_t)$, with $s_{t+1} = (1-k)s_t + k\theta_t$ and $s_1 = \theta_1$,
    as in the geometric decay of Brown, Hod and Kalemaj (2022). Stable and optimal points are those of
    a population that has settled, s = θ.

    Args:
        response: what the population moves towards.
        rate: k in (0, 1], the part of the way it moves in a round.
    """
    _checks.instance("response", response, Response, "a response (pp.responses.…)")
    if isinstance(response, Lagged):
        raise ValueError("response must respond at once; got one that is lagged already.")
    rate = _checks.number("rate", rate, low=0.0, high=1.0, open_low=True)
    return Lagged(response, np.asarray(rate))


class Custom(Response):
    function: Callable = eqx.field(static=True)
    draws: bool = eqx.field(static=True)
    size: int = eqx.field(static=True)
    count: int | None = eqx.field(static=True)

    @property
    def dimension(self) -> int:
        return self.size

    @property
    def parameters(self) -> int | None:
        return self.count

    def at(self, theta: Array) -> Distribution:
        return Sampled(self.function, self.size, theta) if self.draws else self.function(theta)


def custom(
    sampler: Callable | None = None,
    *,
    distribution: Callable | None = None,
    dimension: int,
    parameters: int | None = None,
    backend: str = "jax",
) -> Response:
    """A response of your own: a sampler, or a function that gives the distribution itself.

    Args:
        sampler: ``sampler(key, theta, n)`` in jax.numpy, returning n rows; with
            ``backend="numpy"``, ``sampler(rng, theta, n)`` with a NumPy generator.
        distribution: ``distribution(theta)`` in jax.numpy, returning a `Gaussian`, `Empirical` or
            `Mixture`; then expectations stay exact where the loss allows.
        dimension: length of one row.
        parameters: length of a model, where the loss does not tell.
        backend: "jax" or "numpy".
    """
    function = sampler_or_distribution(sampler, distribution, backend, dimension)
    count = None if parameters is None else _checks.integer("parameters", parameters, low=1)
    return Custom(function, sampler is not None, dimension, count)


def sampler_or_distribution(
    sampler: Callable | None,
    distribution: Callable | None,
    backend: str,
    dimension: int,
) -> Callable:
    """The one of the two that was given; a NumPy sampler is made callable from compiled code."""
    _checks.integer("dimension", dimension, low=1)
    _checks.choice("backend", backend, ("jax", "numpy"))
    if (sampler is None) == (distribution is None):
        raise ValueError(
            "sampler or distribution must be given, one of the two; got "
            + ("neither." if sampler is None else "both.")
        )
    if sampler is None:
        return _checks.function("distribution", distribution, "a function of the model")
    _checks.function("sampler", sampler, "a function that draws rows")
    return sampler if backend == "jax" else NumpySampler(sampler, dimension)


class SamplerError(ValueError):
    """What a user's NumPy sampler did wrong."""


class _Quiet(logging.Filter):
    """Keeps out of JAX's log, and so off the screen, what `_precision.double` tells in a sentence."""

    def filter(self, record: logging.LogRecord) -> bool:
        return not (record.exc_info and isinstance(record.exc_info[1], SamplerError))


logging.getLogger("jax._src.callback").addFilter(_Quiet())


class NumpySampler:
    """A NumPy sampler as a function of (key, [t,] theta, n) that compiled code can call."""

    def __init__(self, sampler: Callable, dimension: int):
        self.sampler, self.dimension = sampler, dimension

    def __call__(self, key: Array, *arguments: Any) -> Array:
        *known, n = arguments
        whole = [jnp.issubdtype(jnp.result_type(value), jnp.integer) for value in known]

        def on_host(seed: Array, *bits: Array) -> np.ndarray:
            generator = np.random.default_rng(np.asarray(seed).ravel())
            given = [
                int(_from_bits(value)) if is_whole else _from_bits(value)
                for value, is_whole in zip(bits, whole, strict=True)
            ]
            try:
                rows = np.asarray(self.sampler(generator, *given, n), dtype=np.float64)
            except Exception as error:
                raise SamplerError(f"{type(error).__name__}: {error}") from error
            if rows.shape != (n, self.dimension):
                raise SamplerError(f"rows of shape {rows.shape} in place of {(n, self.dimension)}")
            return np.ascontiguousarray(rows)[..., None].view(np.uint32)

        # The host's side runs in a thread of its own, outside double precision, where float64
        # would be rounded both ways: numbers travel as bits.
        result = jax.ShapeDtypeStruct((n, self.dimension, 2), jnp.uint32)
        bits = [_to_bits(value) for value in known]
        drawn = jax.pure_callback(
            on_host, result, jax.random.key_data(key), *bits, vmap_method="sequential"
        )
        return jax.lax.bitcast_convert_type(drawn, jnp.float64)

    def __hash__(self) -> int:
        return hash((self.sampler, self.dimension))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, NumpySampler):
            return False
        return self.sampler == other.sampler and self.dimension == other.dimension


def _to_bits(value: Array) -> Array:
    return jax.lax.bitcast_convert_type(jnp.asarray(value, jnp.float64), jnp.uint32)


def _from_bits(bits: Array) -> np.ndarray:
    return np.ascontiguousarray(bits).view(np.float64)[..., 0]


def _base(base: Any) -> Distribution:
    _checks.instance(
        "base", base, (Gaussian, Empirical, Mixture), "a pp.Gaussian, pp.Empirical or pp.Mixture"
    )
    if base.rounds is not None:
        raise ValueError(f"base must be a single distribution; got a sequence of {base.rounds}.")
    return base
