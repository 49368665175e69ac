"""How far the targets travel, and what it costs to be elsewhere: section 2 of the paper."""

from __future__ import annotations

from typing import Any

import numpy as np
import xarray as xr

from performative import _checks


def path_length(points: xr.DataArray, weights: Any = None) -> xr.DataArray:
    r"""The cumulative path length $\sum_{t<T} w_t \|\theta_t - \theta_{t+1}\|$ for every horizon T.

    Args:
        points: targets, (round, parameter).
        weights: None for 1; or an array, or a function of the rounds t = 1 … T−1, such as
            ``lambda t: t`` for the theorems that need Σ tΔ_t.

    >>> import performative as pp
    >>> import xarray as xr
    >>> points = xr.DataArray([[0.0], [3.0], [1.0]], dims=("round", "parameter"))
    >>> pp.path_length(points).values.tolist()
    [0.0, 3.0, 5.0]
    """
    if not isinstance(points, xr.DataArray) or points.dims != ("round", "parameter"):
        raise TypeError(
            "points must be a DataArray with dimensions ('round', 'parameter'), as "
            f"pp.stable_points returns; got {_checks.shown(getattr(points, 'dims', points))}."
        )
    rounds = points.sizes["round"]
    moves = np.linalg.norm(np.diff(points.values, axis=0), axis=1)
    if callable(weights):
        weights = weights(np.arange(1, rounds))
    if weights is not None:
        weights = _checks.numbers("weights", weights, ndim=(0, 1))
        if weights.ndim == 1 and weights.shape != moves.shape:
            raise ValueError(
                f"weights must have one entry for each of the {len(moves)} moves; "
                f"got {weights.size}."
            )
        moves = moves * weights
    total = np.concatenate([[0.0], np.cumsum(moves)])
    return xr.DataArray(
        total,
        dims="round",
        coords={"round": np.arange(1, rounds + 1)},
        name="path_length",
        attrs={key: points.attrs[key] for key in ("target", "world") if key in points.attrs},
    )
