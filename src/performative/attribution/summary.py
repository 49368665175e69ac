"""Sufficient statistics of a deployment log: all that attribution reads, and nothing about a row.

A summary holds moments of the rows of every *cell*, the rows that one model of one arm saw in one
round (the z̄_tk, Σ_tk and n_tk of the model z̄ = B_t θ + w_t + noise), and the models' weights. It
can be saved, and added to another, so that weeks of a log are added without keeping their rows. It
knows neither where rows come from nor what is estimated from it.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr

from performative import _checks

Array = Any

BUCKETS = 40
"""Parts into which units are hashed for the jackknife."""

TAU_TERMS = ("rr", "re", "rree", "rrre", "rrrr")
"""Sums of products of r = f_deployed − f̄ and e = y − ŷ(x), from which the outcome response follows."""

ASSIGNMENTS = ("units", "coin-flip", "schedule", "none")
LOSSES = ("squared", "logistic")

_TEXTS = ("arm", "deployed", "round_label", "feature", "feature2", "parameter", "parameter2")
_MODEL_TEXTS = ("model", "trained_through", "role", "perturbation_of")
_CELL = ("round", "arm", "deployed")


class Summary:
    """The moments of every (round, arm, model) cell of a log, as an `xarray.Dataset` in `data`.

    Coordinates along `cell`: `round` (1 … T in the order of time), `round_label` (as the log had
    it), `arm`, `deployed` (the model's id); a round and an arm name one cell. Cells are ordered by
    round, then arm. Variables, with those of the second part only where the log has what they need:

    | variable | dimensions | what it is |
    | --- | --- | --- |
    | `rows` | cell | number of rows |
    | `count` | cell | effective number of rows, (Σw)²/Σw²: that of rows where there are no weights |
    | `mean` | cell, feature | mean of every feature; a level of a category is a feature `col=level` |
    | `covariance` | cell, feature, feature2 | within the cell, divisor n−1, so that `covariance / count` is the covariance of the mean; up to 50 features |
    | `variance` | cell, feature | its diagonal |
    | `weight` | cell | Σw, where rows have weights; else `rows` |
    | | | |
    | `theta` | model, parameter | weights; a parameter is the name of a feature, or `intercept`, last. Coordinates along `model`: `trained_through`, `role`, `perturbation_of` (texts, empty where not given). Models that were never deployed may be among them. Without weights there is no `theta`: version mode |
    | `contrast_variance` | cell | Var of (θ_deployed − θ̄_t)ᵀx, more than 50 features only |
    | `bucket_count` | cell, bucket | Σw of the units of each of 40 buckets |
    | `bucket_sum` | cell, bucket, feature | Σw (x − `mean` of the cell): without bucket b the mean is mean − bucket_sum[b] / (weight − bucket_count[b]) |
    | `gradient` | cell, parameter | mean of ∇ℓ(z, θ_ref), penalty included |
    | `gradient_covariance` | cell, parameter, parameter2 | within the cell, divisor n−1 |
    | `hessian` | cell, parameter, parameter2 | mean of ∇²ℓ(z, θ_ref), penalty included |
    | `bucket_gradient` | cell, bucket, parameter | as `bucket_sum` |
    | `reference` | parameter | θ_ref: the mean of the deployed models unless given |
    | `loss` | cell, slot | mean of ℓ(z, θ_j) of the j-th model of the cell's round, own or other |
    | `loss_covariance` | cell, slot, slot2 | within the cell, divisor n−1 |
    | `bucket_loss` | cell, bucket, slot | as `bucket_sum` |
    | `slot_model` | cell, slot | which model that is, empty where the round has fewer |
    | `outcome_count` | cell | rows whose outcome is not null |
    | `outcome_mean`, `outcome_variance` | cell | over those rows; 0 and 1 for logistic loss |
    | `bucket_outcome_count`, `bucket_outcome_sum` | cell, bucket | Σw of those, Σw (y − `outcome_mean`) |
    | `tau_sums` | cell, term | sums of r², r e, r² e², r³ e, r⁴ over those rows with r = f_deployed(x) − f̄(x), e = y − ŷ(x), ŷ least squares per round on x alone, f the prediction (a probability for logistic loss) |
    | `bucket_tau` | cell, bucket, term | the first two of them |
    | `score_mean`, `score_variance` | cell | of the logged score |

    `data.attrs`: `assignment` (as declared), `immutable` (features), `loss` (None where not
    declared), `l2`, `signed`, `labelled` (an outcome is the loss's label), `every`, `warnings`
    (sentences), `units` (how many different ones, approximately; 0 without a unit column),
    `fingerprint` (of the data's size, columns and sums).
    """

    def __init__(self, data: xr.Dataset):
        self.data = data

    # What is asked often

    @property
    def rounds(self) -> int:
        """T, the number of rounds."""
        return int(self.data["round"].max())

    @property
    def features(self) -> list[str]:
        return [str(name) for name in self.data["feature"].values]

    @property
    def has_weights(self) -> bool:
        """Whether the models' weights are known; else it is a log of versions."""
        return "theta" in self.data

    @property
    def has_units(self) -> bool:
        return "bucket_count" in self.data

    @property
    def warnings(self) -> list[str]:
        return list(self.data.attrs["warnings"])

    def deployed_theta(self) -> np.ndarray:
        """θ of every cell, (cell, parameter)."""
        return self.data["theta"].sel(model=self.data["deployed"].values).values

    def __repr__(self) -> str:
        data = self.data
        arms = len(set(data["arm"].values.tolist()))
        return (
            f"Summary of {int(data['rows'].sum()):,} rows: {self.rounds} rounds, {arms} arms, "
            f"{data.sizes['cell']} cells, {data.sizes['feature']} features"
            + (", models with weights" if self.has_weights else ", versions without weights")
            + (f", about {data.attrs['units']:,} units" if self.has_units else "")
        )

    def __add__(self, other: Summary) -> Summary:
        """The summary of the rows of both, which must be of the same schema and declarations."""
        if not isinstance(other, Summary):
            return NotImplemented
        from performative.attribution.merge import merged

        return Summary(merged(self.data, other.data))

    # Files

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write a NetCDF file; `Summary.load` reads it back."""
        plain = self.data.copy()
        plain.attrs = {"performative_summary": json.dumps(self.data.attrs)}
        plain.to_netcdf(path, engine="h5netcdf")

    @staticmethod
    def load(path: str | os.PathLike[str]) -> Summary:
        """Read what `save` wrote."""
        path = Path(path)
        if not path.exists():
            raise FileNotFoundError(f"{path} is not there.")
        try:
            data = xr.load_dataset(path, engine="h5netcdf")
            attrs = json.loads(data.attrs.get("performative_summary", ""))
        except (ValueError, OSError, KeyError):
            raise ValueError(f"{path} must be a file written by Summary.save; it is not.") from None
        data.attrs = attrs
        for name in (*_TEXTS, *_MODEL_TEXTS, "slot_model", "term"):
            if name in data.variables:
                data[name] = data[name].astype(object).astype(str)
        return Summary(data)

    # From arrays

    @staticmethod
    def from_moments(
        *,
        round: Sequence[Any],
        deployed: Sequence[Any],
        count: Array,
        mean: Array,
        covariance: Array | None = None,
        variance: Array | None = None,
        arm: Sequence[Any] | None = None,
        features: Sequence[str] | None = None,
        theta: Mapping[Any, Array] | None = None,
        parameters: Sequence[str] | None = None,
        models: Mapping[str, Mapping[Any, Any]] | None = None,
        variables: Mapping[str, tuple[tuple[str, ...], Array]] | None = None,
        **declared: Any,
    ) -> Summary:
        """A summary from moments at hand: of a simulation, or of an engine of your own.

        Args:
            round, deployed, arm: of each cell; rounds are put in order and numbered from 1.
            count, mean, covariance, variance: of each cell, (cell, …).
            theta: weights of each model; `parameters` names them (the features unless given).
            models: further columns of the table of models, {"trained_through": {model: value}, …}.
            variables: more of the class's variables, name → (dimensions, values).
            declared: attributes of the class: assignment, immutable, loss, l2, …

        >>> summary = Summary.from_moments(
        ...     round=[1, 1, 2, 2], deployed=["a", "b", "a", "b"], count=[100, 100, 100, 100],
        ...     mean=[[0.0], [0.3], [0.1], [0.4]], variance=[[1.0]] * 4,
        ...     theta={"a": [0.0], "b": [1.0]}, assignment="units")
        >>> summary
        Summary of 400 rows: 2 rounds, 2 arms, 4 cells, 1 features, models with weights
        """
        mean = _checks.numbers("mean", mean, ndim=2)
        labels = np.asarray(round)
        order_of = {label: k + 1 for k, label in enumerate(sorted(set(labels.tolist())))}
        names = list(features) if features is not None else _numbered("x", mean.shape[1])
        data = xr.Dataset(
            coords={
                "round": ("cell", [order_of[label] for label in labels.tolist()]),
                "round_label": ("cell", _texts(labels)),
                "arm": ("cell", _texts(deployed if arm is None else arm)),
                "deployed": ("cell", _texts(deployed)),
                "feature": _texts(names),
            },
            attrs=attributes(**declared),
        )
        size = np.asarray(count, dtype=np.float64)
        data["count"] = ("cell", size)
        data["rows"] = ("cell", np.rint(size).astype(np.int64))
        data["weight"] = ("cell", size.copy())
        data["mean"] = (("cell", "feature"), mean)
        if covariance is not None:
            full = np.asarray(covariance, dtype=np.float64)
            data = data.assign_coords(feature2=_texts(names))
            data["covariance"] = (("cell", "feature", "feature2"), full)
            variance = np.diagonal(full, axis1=1, axis2=2)
        if variance is None:
            raise ValueError("covariance or variance must be given; got neither.")
        data["variance"] = (("cell", "feature"), np.array(variance, dtype=np.float64))
        if theta is not None:
            data = with_models(data, theta, names if parameters is None else parameters, models)
        for name, (dims, values) in (variables or {}).items():
            data[name] = (dims, np.asarray(values))
        return Summary(ordered(data))


def attributes(**declared: Any) -> dict[str, Any]:
    """What a summary says beside its numbers, with the defaults."""
    known: dict[str, Any] = {
        "assignment": "none",
        "immutable": [],
        "loss": None,
        "l2": 0.0,
        "signed": False,
        "labelled": False,
        "every": None,
        "warnings": [],
        "units": 0,
        "fingerprint": "",
    }
    for name in declared:
        _checks.choice("attribute", name, known)
    known |= declared
    _checks.choice("assignment", known["assignment"], ASSIGNMENTS)
    if known["loss"] is not None:
        _checks.choice("loss", known["loss"], LOSSES)
    known["immutable"], known["warnings"] = list(known["immutable"]), list(known["warnings"])
    return known


def with_models(
    data: xr.Dataset,
    theta: Mapping[Any, Array],
    parameters: Sequence[str],
    columns: Mapping[str, Mapping[Any, Any]] | None = None,
) -> xr.Dataset:
    """`data` with the weights of every model, and what else the table of models says."""
    ids = list(theta)
    weights = _checks.numbers("theta", np.array([theta[name] for name in ids]), ndim=2)
    data = data.assign_coords(model=_texts(ids), parameter=_texts(parameters))
    data["theta"] = (("model", "parameter"), weights)
    for name in _MODEL_TEXTS[1:]:
        given = (columns or {}).get(name, {})
        told = ["" if given.get(key) is None else str(given[key]) for key in ids]
        data = data.assign_coords({name: ("model", _texts(told))})
    return data


def ordered(data: xr.Dataset) -> xr.Dataset:
    """Cells by round, then arm."""
    keys = np.lexsort((data["deployed"].values, data["arm"].values, data["round"].values))
    return data.isel(cell=keys)


def _texts(values: Sequence[Any] | np.ndarray) -> np.ndarray:
    return np.array([str(value) for value in values], dtype=str)


def _numbered(stem: str, count: int) -> list[str]:
    return [f"{stem}{k + 1}" for k in range(count)]
