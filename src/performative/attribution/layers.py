"""What is computed for every row beside its features: scores, losses, gradients, the outcome's answer.

Each is a layer of columns over the one before, in SQL; the weights of the round's models and the
fitted values come as constants of the row's cell.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import xarray as xr

from performative.attribution.log import Log
from performative.attribution.queries import (
    Moments,
    exponential,
    joined,
    label_expression,
    nested,
    number,
    parameter_columns,
    sigmoid,
    triangle,
)

MOST_CROSS = 50
"""Most features whose covariances are computed; above it, variances only."""


class Layers:
    """Columns to compute for every row, layer upon layer, with the constants of its cell."""

    def __init__(self, log: Log, data: xr.Dataset):
        self.log, self.data = log, data
        self.constants: dict[str, np.ndarray] = {}
        self.layers: list[dict[str, str]] = []
        self.gradient: list[str] = []
        self.hessian: list[str] = []
        self.losses: list[str] = []
        self.tau: list[str] = []
        self.slots = 0

    @property
    def source(self) -> str:
        return nested(joined(self.data, self.constants), *self.layers)

    @property
    def columns(self) -> list[str]:
        return parameter_columns(self.log, self.data)

    def add_slots(self) -> None:
        """u0, u1, …: what every model of the round says of the row."""
        if self.slots:
            return
        data = self.data
        rounds, models = data["round"].values, data["deployed"].values
        self.slots = int(np.bincount(rounds).max())
        names = np.full((len(rounds), self.slots), "", dtype=models.dtype)
        for t in np.unique(rounds):
            here = rounds == t
            names[here, : here.sum()] = models[here]
        known = dict(zip(data["model"].values.tolist(), data["theta"].values, strict=True))
        blank = np.zeros(data.sizes["parameter"])
        weights = np.array([[known.get(str(name), blank) for name in row] for row in names])
        data["slot_model"] = (("cell", "slot"), names)
        columns = self.columns
        for k in range(self.slots):
            for i in range(len(columns)):
                self.constants[f"v{k}_{i}"] = weights[:, k, i]
        self.layers.append(
            {
                f"u{k}": " + ".join(f"v{k}_{i} * {x}" for i, x in enumerate(columns))
                for k in range(self.slots)
            }
        )

    def add_loss(self, reference: Mapping[str, float] | None) -> None:
        """g0, g1, …: the gradient at θ_ref; l0, l1, …: the losses of the round's models."""
        data = self.data
        attrs = data.attrs
        names = data["parameter"].values.tolist()
        if reference is None:
            deployed = sorted(set(data["deployed"].values.tolist()))
            centre = data["theta"].sel(model=deployed).values.mean(axis=0)
        else:
            centre = np.array([reference[name] for name in names])
        data["reference"] = ("parameter", centre)
        columns = self.columns
        score = " + ".join(f"{number(w)} * {x}" for w, x in zip(centre, columns, strict=True))
        slots = range(self.slots)
        self.losses = [f"l{k}" for k in slots]
        if attrs["loss"] == "squared" and not attrs["labelled"]:
            self.layers.append(
                {
                    f"l{k}": "0.5e0 * ("
                    + " + ".join(
                        f"({x} - v{k}_{i}) * ({x} - v{k}_{i})" for i, x in enumerate(columns)
                    )
                    + ")"
                    for k in slots
                }
            )
            return
        if attrs["loss"] == "squared":
            self.layers.append(
                {"pull": f"({score}) - t_outcome", "bend": "1e0"}
                | {f"l{k}": f"0.5e0 * (t_outcome - u{k}) * (t_outcome - u{k})" for k in slots}
            )
        else:
            sign = (
                "(CASE WHEN t_outcome > 0 THEN 1e0 WHEN t_outcome <= 0 THEN -1e0 END)"
                if attrs["labelled"]
                else "1e0"
            )
            self.layers.append({"side": sign, "margin": f"{sign} * ({score})"})
            self.layers.append(
                # Not GREATEST(-side u, 0), which is a number where the outcome is missing.
                {"miss": sigmoid("-margin")}
                | {
                    f"l{k}": f"0.5e0 * (ABS(u{k}) - side * u{k}) + LN(1e0 + {exponential(f'-ABS(u{k})')})"
                    for k in slots
                }
            )
            self.layers.append({"pull": "-side * miss", "bend": "miss * (1e0 - miss)"})
        self.gradient = [f"g{i}" for i in range(len(columns))]
        self.layers.append({f"g{i}": f"pull * {x}" for i, x in enumerate(columns)})
        self.hessian = [f"bend * {a} * {b}" for a, b in triangle(columns)]

    def add_tau(self) -> None:
        """Products of r = f_deployed − f̄ and e = y − ŷ(x), where two models or more met."""
        data, log = self.data, self.log
        rounds = data["round"].values
        shared = np.bincount(rounds)[rounds] > 1
        if not shared.any() or data.sizes["feature"] > MOST_CROSS:
            return
        self.add_slots()
        names = [source.name for source in log.sources]
        slopes, starts = _least_squares(log, data)
        for j in range(len(names)):
            self.constants[f"b{j}"] = slopes[:, j]
        self.constants["start"] = starts
        share, own = np.zeros((2, len(rounds), self.slots))
        for t in np.unique(rounds):
            here = np.flatnonzero(rounds == t)
            weight = data["weight"].values[here]
            share[here, : len(here)] = weight / weight.sum()
            own[here, np.arange(len(here))] = 1.0
        for k in range(self.slots):
            self.constants[f"o{k}"] = own[:, k] - share[:, k]
        logistic = data.attrs["loss"] == "logistic"
        said = [sigmoid(f"u{k}") if logistic else f"u{k}" for k in range(self.slots)]
        fitted = " + ".join(f"b{j} * {x}" for j, x in enumerate(names))
        self.layers.append(
            {
                "r": " + ".join(f"o{k} * {f}" for k, f in enumerate(said)),
                "e": f"({label_expression(data)}) - (start + {fitted})",
            }
        )
        # A row whose outcome is missing has no e; its r must not count either.
        self.tau = [
            "r * r + 0 * e",
            "r * e",
            "r * r * e * e",
            "r * r * r * e",
            "r * r * r * r + 0 * e",
        ]


def _least_squares(log: Log, data: xr.Dataset) -> tuple[np.ndarray, np.ndarray]:
    """ŷ of every round: slopes and intercept, of the outcome on all features, over all arms."""
    names = [source.name for source in log.sources]
    constants = {f"c{j}": data["mean"].values[:, j] for j in range(len(names))}
    constants["cy"] = np.nan_to_num(data["outcome_mean"].values)
    layer = {f"z{j}": f"{x} - c{j}" for j, x in enumerate(names)}
    layer["zy"] = f"({label_expression(data)}) - cy"
    listed = list(layer)
    found = Moments(
        log,
        nested(joined(data, constants), layer),
        len(data.cell),
        listed,
        triangle(listed),
        where="t_outcome IS NOT NULL",
    )
    centre = np.stack(list(constants.values()), axis=1) + np.nan_to_num(found.mean)
    weight = np.nan_to_num(found.weight)
    inner = np.nan_to_num(found.covariance() * ((found.count - 1) / found.count)[:, None, None])
    rounds, size = data["round"].values, len(names)
    slopes, starts = np.zeros((len(rounds), size)), np.zeros(len(rounds))
    for t in np.unique(rounds):
        here = rounds == t
        total = max(weight[here].sum(), 1.0)
        mean = weight[here] @ centre[here] / total
        apart = centre[here] - mean
        full = np.einsum("c,cij->ij", weight[here], inner[here])
        full += np.einsum("c,ci,cj->ij", weight[here], apart, apart)
        scale = np.sqrt(np.diag(full)[:size])
        scale[scale == 0] = 1.0
        scaled = full[:size, :size] / np.outer(scale, scale)
        slope = np.linalg.lstsq(scaled, full[:size, size] / scale, rcond=1e-10)[0] / scale
        slopes[here], starts[here] = slope, mean[size] - slope @ mean[:size]
    return slopes, starts
