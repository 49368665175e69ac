"""The one place that switches double precision on.

Everything public that computes is wrapped by `double`: it enters JAX's 64-bit context for the
duration of the call, so that a program which uses JAX in float32 before and after is not touched,
and hands back NumPy arrays and floats. The pure functions beneath never enter the context
themselves: they call `require_double` while they are traced.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeVar

import equinox as eqx
import jax
import jax.core
import jax.numpy as jnp
import numpy as np

F = TypeVar("F", bound=Callable[..., Any])


def is_traced(*values: Any) -> bool:
    """Whether any leaf of `values` is a JAX tracer, so that its numbers are not known yet."""
    return any(isinstance(leaf, jax.core.Tracer) for leaf in jax.tree.leaves(values))


def to_numpy(tree: Any) -> Any:
    """Every `jax.Array` leaf of `tree` as NumPy; everything else as it is."""
    return jax.tree.map(lambda leaf: np.asarray(leaf) if eqx.is_array(leaf) else leaf, tree)


def double(function: F) -> F:
    """Run `function` in double precision and return NumPy instead of JAX arrays."""

    @functools.wraps(function)
    def in_double(*args: Any, **kwargs: Any) -> Any:
        if is_traced(args, kwargs):
            raise TypeError(
                "The public functions take plain numbers and NumPy arrays and cannot be traced "
                "by jax.jit, jax.grad or jax.vmap; use the pure functions of "
                "performative.world.rounds.Round inside jax.enable_x64(True) instead."
            )
        with jax.enable_x64(True):
            try:
                return to_numpy(function(*args, **kwargs))
            except jax.errors.JaxRuntimeError as error:
                raise _of_the_user(error) from None

    return in_double  # pyright: ignore[reportReturnType]


def _of_the_user(error: Exception) -> Exception:
    """The error of a user's NumPy function that compiled code called, in one sentence."""
    lines = str(error).strip().splitlines()
    if "callback" not in lines[0].lower():
        return error
    what = lines[-1].removeprefix("SamplerError: ").rstrip(".")
    return ValueError(f"sampler must return rows for every model; it failed with {what}.")


def require_double(value: Any) -> None:
    """Refuse to trace in single precision: its digits would be wrong without a warning."""
    if jnp.result_type(value) != jnp.float64:
        raise TypeError(
            "This pure function was traced outside double precision; "
            "call it inside `with jax.enable_x64(True):`."
        )
