"""The text of a log's queries: rows joined with constants of their cell, and moments of columns.

Plain SQL, of a kind that every engine has or that can be translated for it. What is summed is
centred first, because sums of squares of uncentred columns lose all digits at a mean of 1e6.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import xarray as xr

from performative.attribution.engines import ROWS
from performative.attribution.log import Log


def number(value: float) -> str:
    return f"({float(value):.17e})"  # an exponent makes it a double everywhere


def _text(value: str) -> str:
    return "'" + value.replace("'", "''") + "'"


def joined(data: xr.Dataset, constants: Mapping[str, np.ndarray]) -> str:
    """The rows of the cells of `data`, with `cell`, and constants of each cell as columns."""
    names = list(constants)
    table = np.stack(list(constants.values()), axis=1) if names else np.empty((len(data.cell), 0))
    lines = []
    keys, arms = data["round_key"].values, data["arm"].values
    for cell, (key, arm, row) in enumerate(zip(keys, arms, table, strict=True)):
        first = (lambda text: f"CAST({text} AS DOUBLE)") if cell == 0 else str
        values = [str(int(key)), _text(str(arm)), str(cell), *(first(number(v)) for v in row)]
        lines.append(f"({', '.join(values)})")
    columns = ", ".join(["k_round", "k_arm", "k_cell", *names])
    return (
        f"{ROWS} AS r JOIN (VALUES {', '.join(lines)}) AS k({columns}) "
        "ON r.t_round = k.k_round AND r.t_arm = k.k_arm"
    )


def nested(source: str, *layers: Mapping[str, str]) -> str:
    """SELECTs within each other: every layer may use the names of the one before."""
    text = source
    for depth, layer in enumerate(layers):
        new = ", ".join(f"{expression} AS {name}" for name, expression in layer.items())
        text = f"(SELECT *{', ' + new if new else ''} FROM {text}) AS q{depth}"
    return text


def weighted(log: Log, power: int = 1) -> str:
    return "t_weight * " * power if log.has("weight") else ""


def exponential(text: str) -> str:
    """e to the power, kept from what some engines call an overflow or an underflow."""
    return f"EXP(GREATEST(LEAST({text}, 700e0), -700e0))"


def sigmoid(text: str) -> str:
    return f"(1e0 / (1e0 + {exponential(f'-({text})')}))"


def label_expression(data: xr.Dataset) -> str:
    """The outcome; as 0 and 1 for the logistic loss."""
    if data.attrs["loss"] != "logistic":
        return "t_outcome"
    return "CASE WHEN t_outcome > 0 THEN 1e0 WHEN t_outcome <= 0 THEN 0e0 END"


def parameter_columns(log: Log, data: xr.Dataset) -> list[str]:
    """The expression of each parameter's feature: a column, or 1 for the intercept."""
    columns = {name: source.name for name, source in zip(log.features, log.sources, strict=True)}
    return [columns.get(str(name), "1e0") for name in data["parameter"].values]


def triangle(names: Sequence[str]) -> list[tuple[str, str]]:
    return [(a, b) for k, a in enumerate(names) for b in names[k:]]


class Moments:
    """Weighted moments of some columns within every cell; NaN where a cell has no row."""

    def __init__(
        self,
        log: Log,
        source: str,
        cells: int,
        names: Sequence[str],
        cross: Sequence[tuple[str, str]],
        means: Sequence[str] = (),
        where: str = "",
    ):
        one, two = weighted(log), weighted(log, 2)
        heavy = log.has("weight")
        listed = {"n": "COUNT(*)"}
        listed |= {f"s_{j}": f"SUM({one}{name})" for j, name in enumerate((*names, *means))}
        place = {name: j for j, name in enumerate(names)}
        pairs = [(place[a], place[b]) for a, b in cross]
        for (a, b), (i, j) in zip(cross, pairs, strict=True):
            listed[f"p_{i}_{j}"] = f"SUM({two}{a} * {b})"
        if heavy:
            listed |= {"w1": f"SUM({one}1)", "w2": f"SUM({two}1)"}
            listed |= {f"q_{j}": f"SUM({two}{name})" for j, name in enumerate(names)}
        text = ", ".join(f"{expression} AS {name}" for name, expression in listed.items())
        condition = f" WHERE {where}" if where else ""
        found = log.engine.query(
            f"SELECT k_cell, {text} FROM {source}{condition} GROUP BY k_cell",
            {"k_cell": "whole", **dict.fromkeys(listed, "number")},
        )
        at = found["k_cell"]

        def spread(name: str) -> np.ndarray:
            values = np.full(cells, np.nan)
            values[at] = found[name]
            return values

        self.rows = np.nan_to_num(spread("n"))
        self.weight = spread("w1") if heavy else np.where(self.rows > 0, self.rows, np.nan)
        squares = spread("w2") if heavy else self.weight
        self.count = self.weight**2 / squares
        every = np.stack([spread(f"s_{j}") for j in range(len(names) + len(means))], axis=1)
        every = every / self.weight[:, None]
        self.mean, self.means = every[:, : len(names)], every[:, len(names) :]
        self.pairs = pairs
        first = np.stack([spread(f"q_{j}") for j in range(len(names))], axis=1) if heavy else None
        first = self.mean * self.weight[:, None] if first is None else first
        scale = self.count**2 / (self.count - 1.0) / self.weight**2
        scatter = [
            spread(f"p_{i}_{j}")
            - self.mean[:, i] * first[:, j]
            - first[:, i] * self.mean[:, j]
            + squares * self.mean[:, i] * self.mean[:, j]
            for i, j in pairs
        ]
        self.scatter = [part * scale for part in scatter]

    def covariance(self, start: int = 0, stop: int | None = None) -> np.ndarray:
        """(cell, name, name) of the names from `start` to `stop`."""
        size = (self.mean.shape[1] if stop is None else stop) - start
        full = np.full((len(self.rows), size, size), np.nan)
        for (i, j), values in zip(self.pairs, self.scatter, strict=True):
            if start <= i < start + size and start <= j < start + size:
                full[:, i - start, j - start] = full[:, j - start, i - start] = values
        return full
