"""Sufficient statistics of a deployment log: all that attribution reads, and nothing about a row.

A summary holds moments of the rows of every *cell*, the rows that one model of one arm saw in one
round (the z̄_tk, Σ_tk and n_tk of the model z̄ = B_t θ + w_t + noise), and the models' weights. It
can be saved, and added to another, so that weeks of a log are added without keeping their rows. It
knows neither where rows come from nor what is estimated from it.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable, Mapping, Sequence
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
    round, then arm. Summaries of rows have `round_key`, by which rounds are in order, too.

    Always there:

    - `rows`, `count`, `weight` (cell): the number of rows; the effective number (Σw)²/Σw²; Σw. All
      three are equal where rows have no weights.
    - `mean` (cell, feature); a level of a category is a feature `column=level`.
    - `covariance` (cell, feature, feature2), of up to 50 features, and `variance` (cell, feature):
      within the cell, divisor n−1, so that covariance / count is the covariance of the mean.

    Where the models' weights are known (else it is a log of versions):

    - `theta` (model, parameter): a parameter is the name of a feature or, last, `intercept`. Models
      that were never deployed may be among them. Along `model`: `trained_through`, `role`,
      `perturbation_of`, texts, empty where not given.
    - `contrast_variance` (cell): Var of (θ_deployed − θ̄_t)ᵀx, for more than 50 features only.

    Where units are named:

    - `bucket_count` (cell, bucket): Σw of the units of each of 40 buckets.
    - `bucket_sum` (cell, bucket, feature): Σw (x − `mean` of the cell), so that the mean without
      bucket b is mean − bucket_sum[b] / (weight − bucket_count[b]). Likewise `bucket_gradient`,
      `bucket_loss`, `bucket_outcome_sum` (with `bucket_outcome_count`) below.

    Where a loss was declared:

    - `gradient` (cell, parameter), `hessian` (cell, parameter, parameter2): means of ∇ℓ(z, θ_ref)
      and ∇²ℓ(z, θ_ref), penalty included; `gradient_covariance`, as `covariance`.
    - `reference` (parameter): θ_ref, the mean of the deployed models unless `like` gives one.
    - `loss` (cell, slot), `loss_covariance` (cell, slot, slot2): of ℓ(z, θ_j) for the models of the
      cell's round, own and other; `slot_model` (cell, slot) names them, empty where there are fewer.

    Where there is an outcome, over the rows that have one:

    - `outcome_count`, `outcome_mean`, `outcome_variance` (cell); 0 and 1 for the logistic loss.
    - `tau_sums` (cell, term): sums of r², r e, r² e², r³ e, r⁴, where r = f_deployed(x) − f̄(x),
      e = y − ŷ(x), ŷ least squares per round on x alone, f the prediction θᵀx + b (its probability
      for the logistic loss), f̄ its mean over the round's arms; `bucket_tau` (cell, bucket, term2):
      the first two of them.

    `score_count`, `score_mean`, `score_variance` (cell): of a logged score.

    `data.attrs`: `assignment` (as declared), `immutable` (features), `loss` (None where not
    declared), `l2`, `signed`, `labelled` (an outcome is the loss's label), `every`, `levels` of
    categories (the first is the one left out), `constants` (features left out, with their value),
    `warnings` (sentences), `units` (how many different ones, about; 0 without a unit column),
    `fingerprint` (changes when rows, columns or cells do).
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
        data.attrs = attributes(**attrs)
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
        "levels": {},
        "constants": {},
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


def fingerprint(data: xr.Dataset) -> str:
    """A short name of a log: changes when its rows, columns or cells do."""
    digest = hashlib.sha256()
    for name in ("round_label", "arm", "deployed", "feature"):
        digest.update("\0".join(data[name].values.tolist()).encode())
    digest.update(data["rows"].values.astype(np.int64).tobytes())
    for name in ("mean", "variance"):
        rounded = np.char.mod("%.6e", data[name].values)  # engines add up in different orders
        digest.update("\0".join(rounded.ravel().tolist()).encode())
    return digest.hexdigest()[:16]


def ordered(data: xr.Dataset) -> xr.Dataset:
    """Cells by round, then arm."""
    keys = np.lexsort((data["deployed"].values, data["arm"].values, data["round"].values))
    return data.isel(cell=keys)


def _texts(values: Sequence[Any] | np.ndarray) -> np.ndarray:
    return np.array([str(value) for value in values], dtype=str)


def _numbered(stem: str, count: int) -> list[str]:
    return [f"{stem}{k + 1}" for k in range(count)]


def summarize(
    log: Any,
    *,
    models: Any = None,
    every: str | None = None,
    features: Iterable[str] | None = None,
    assignment: str | None = None,
    immutable: Iterable[str] | None = None,
    loss: str | None = None,
    l2: float = 0.0,
    signed: bool = False,
    round: str | None = None,
    model: str | None = None,
    arm: str | None = None,
    unit: str | None = None,
    outcome: str | None = None,
    score: str | None = None,
    weight: str | None = None,
    like: Summary | None = None,
) -> Summary:
    """The sufficient statistics of a deployment log; rows stay where they are.

    A row of the log is one served prediction: when (`round`), by which model (`model`), and the
    features of whoever it was for. All numbers beside the columns named below are features, unless
    `features` are listed; a column of texts becomes one feature for each of its levels but the most
    frequent (at most 30).

    Args:
        log: a path (Parquet, CSV), a table (pandas, Polars, Arrow, a dict of columns), a DuckDB
            relation, an Ibis table; or a `Summary`, or the path of a saved one.
        models: the same, with a row for each model: `model`, a weight for each feature, perhaps
            `intercept`, `trained_through`, `role` (baseline or holdout), `perturbation_of`.
        every: the length of a round where rounds are timestamps: 1w, 2d, 6h, 1mo, …
        assignment: how rows got their model: "units" (drawn at random), "coin-flip" (one model at a
            time, drawn at random), "schedule", or "none" (nobody can say).
        immutable: features that no model can move: the negative control.
        loss, l2: "squared" or "logistic", and its penalty ½ l2 ‖θ‖².
        signed: rows are z = yx. With an outcome column, features are multiplied by it (as −1, 1).
        round, model, arm, unit, outcome, score, weight: names of columns, where they differ from
            these words.
        like: an earlier summary of the same log; its features, levels, θ_ref and declarations are
            used, so that the two can be added.

    >>> import numpy as np
    >>> log = {"round": np.repeat([1, 2], 100), "model": np.tile(["old", "new"], 100),
    ...        "balance": np.arange(200.0)}
    >>> summary = summarize(log, assignment="units")
    >>> summary.data["mean"].values.ravel()
    array([ 50.,  49., 150., 149.])
    """
    given = {"assignment": assignment, "immutable": immutable}
    given = {name: value for name, value in given.items() if value is not None}
    if isinstance(log, (str, os.PathLike)) and str(log).endswith(".nc"):
        log = Summary.load(log)
    if isinstance(log, Summary):
        return _declared_anew(log, given)
    from performative.attribution import log as logs
    from performative.attribution.aggregate import aggregate

    reference, levels, constants = None, None, None
    if like is not None:
        attrs = _checks.instance("like", like, Summary, "a Summary").data.attrs
        levels, every, constants = attrs["levels"], attrs["every"], attrs["constants"]
        features = [*like.features, *constants]
        given = {"assignment": attrs["assignment"], "immutable": attrs["immutable"]} | given
        loss, l2, signed = attrs["loss"], attrs["l2"], attrs["signed"]
        if "reference" in like.data:
            names = like.data["parameter"].values.tolist()
            reference = dict(zip(names, like.data["reference"].values.tolist(), strict=True))
    if loss is not None:
        _checks.choice("loss", loss, LOSSES)
    l2 = _checks.number("l2", l2, low=0.0)
    named = {"round": round, "model": model, "arm": arm, "unit": unit}
    named |= {"outcome": outcome, "score": score, "weight": weight}
    read = logs.read(
        log, models=models, every=every, features=features, signed=signed, levels=levels, **named
    )
    if read.models is not None:
        logs.check_intercept(read, loss, signed)
    given["immutable"] = logs.immutable(given.get("immutable", ()), read.features)
    data = aggregate(
        read,
        loss=loss,
        l2=l2,
        signed=bool(signed),
        reference=reference,
        constants=constants,
        **given,
    )
    return Summary(data)


def _declared_anew(summary: Summary, given: dict[str, Any]) -> Summary:
    """The same numbers under other declarations."""
    from performative.attribution import log as logs

    if "immutable" in given:
        given["immutable"] = logs.immutable(given["immutable"], summary.features)
    if "assignment" in given:
        _checks.choice("assignment", given["assignment"], ASSIGNMENTS)
    data = summary.data.copy()
    data.attrs = data.attrs | given
    return Summary(data)
