"""The pictures of a report, as SVG: where the data went, what the arms showed, where the loop is.

Drawn from a report's aggregates; text inside is selectable, sizes are the reader's, and colours are
those of a palette that colour-blind readers can tell apart.
"""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING, Any

import numpy as np

from performative.attribution.estimate import Estimate
from performative.attribution.screen import lines, number

if TYPE_CHECKING:
    from performative.attribution.attribute import Report

Array = Any

MODEL, WORLD, TOTAL = "#0072B2", "#D55E00", "#333333"
"""Okabe and Ito's blue and vermilion; dark grey."""

MOST_PANELS = 12
MOST_POINTS = 1500


class Axes:
    """A box of data coordinates inside a picture."""

    def __init__(
        self,
        place: tuple[float, float, float, float],
        across: tuple[float, float],
        up: tuple[float, float],
    ):
        self.left, self.top, self.width, self.height = place
        self.across, self.up = _room(*across), _room(*up)

    def x(self, value: float) -> float:
        low, high = self.across
        return self.left + (value - low) / (high - low) * self.width

    def y(self, value: float) -> float:
        low, high = self.up
        return self.top + (high - value) / (high - low) * self.height

    def path(self, xs: Array, ys: Array) -> str:
        return " ".join(
            f"{self.x(x):.1f},{self.y(y):.1f}"
            for x, y in zip(xs, ys, strict=True)
            if np.isfinite(y)
        )

    def line(self, xs: Array, ys: Array, colour: str, width: float = 1.6) -> str:
        return (
            f'<polyline points="{self.path(xs, ys)}" fill="none" stroke="{colour}" '
            f'stroke-width="{width}" stroke-linejoin="round"/>'
        )

    def band(self, xs: Array, low: np.ndarray, high: np.ndarray, colour: str) -> str:
        kept = np.isfinite(low) & np.isfinite(high)
        if not kept.any():
            return ""
        there = np.asarray(xs)[kept]
        around = self.path(there, high[kept]) + " " + self.path(there[::-1], low[kept][::-1])
        return f'<polygon points="{around}" fill="{colour}" fill-opacity="0.18"/>'

    def frame(self, ticks: int = 3) -> str:
        """Grid lines with their numbers, and the zero line."""
        parts = []
        for value in _ticks(*self.up, ticks):
            y = self.y(value)
            colour = "#999" if value == 0 else "#e4e4e4"
            parts.append(
                f'<line x1="{self.left}" x2="{self.left + self.width}" y1="{y:.1f}" y2="{y:.1f}" '
                f'stroke="{colour}"/><text x="{self.left - 5}" y="{y + 3.5:.1f}" '
                f'class="tick" text-anchor="end">{_plain(value)}</text>'
            )
        return "".join(parts)

    def feet(self, ticks: int = 4, whole: bool = False) -> str:
        """Numbers below."""
        values = _ticks(*self.across, ticks)
        if whole:
            values = [value for value in values if value == round(value)]
        return "".join(
            f'<text x="{self.x(value):.1f}" y="{self.top + self.height + 13}" class="tick" '
            f'text-anchor="middle">{_plain(value)}</text>'
            for value in values
        )


def _room(low: float, high: float) -> tuple[float, float]:
    if not (np.isfinite(low) and np.isfinite(high)):
        return -1.0, 1.0
    return (low, high) if high > low else (low - 1.0, high + 1.0)


def _ticks(low: float, high: float, count: int) -> list[float]:
    """Round numbers between two."""
    raw = (high - low) / max(count, 1)
    scale = 10.0 ** np.floor(np.log10(raw))
    step = next(s * scale for s in (1, 2, 2.5, 5, 10) if s * scale >= raw * 0.999)
    first = np.ceil(low / step - 1e-9)
    values = [float(k * step) for k in np.arange(first, np.floor(high / step + 1e-9) + 1)]
    return [0.0 if abs(value) < step * 1e-6 else value for value in values]


def _plain(value: float) -> str:
    return f"{value:.6g}".replace("-", "−")


def _picture(width: int, height: int, title: str, body: str) -> str:
    return (
        f'<svg viewBox="0 0 {width} {height}" role="img" xmlns="http://www.w3.org/2000/svg">'
        f"<title>{escape(title)}</title>{body}</svg>"
    )


def drift(report: Report) -> str:
    """Every feature's way since round 1, split into the model's and the world's part."""
    data = report.drift
    order = [line.name for line in lines(report)][:MOST_PANELS]
    split = report.design.concurrent and not report.objection
    rounds = data["round"].values.astype(float)
    critical = float(data.attrs["critical"])
    across, wide, tall = 3, 230, 130
    body, reach = [], []
    scale = {
        name: float(data["deviation"].sel(feature=name)) or 1.0 for name in data["feature"].values
    }
    for name in order:
        reach.append(np.nanmax(np.abs(data["total"].sel(feature=name).values)) / scale[name])
        if split:
            parts = data.sel(feature=name)
            for part in ("model", "world"):
                high = np.abs(parts[part].values) + critical * parts[f"{part}_se"].values
                reach.append(np.nanmax(high, initial=0.0) / scale[name])
    limit = 1.08 * max([*reach, 1e-3])
    for k, name in enumerate(order):
        place = (48 + (k % across) * (wide + 22), 30 + (k // across) * (tall + 44), wide - 30, tall)
        axes = Axes(place, (rounds[0], rounds[-1]), (-limit, limit))
        here = data.sel(feature=name)
        label = f"{name} (control)" if name in report.immutable else str(name)
        body.append(
            f'<text x="{axes.left}" y="{axes.top - 8}" class="panel">{escape(label[:32])}</text>'
        )
        body.append(axes.frame(4) + axes.feet(whole=True))
        for part, colour in (("model", MODEL), ("world", WORLD)) if split else ():
            value = here[part].values / scale[name]
            error = critical * here[f"{part}_se"].values / scale[name]
            body.append(axes.band(rounds, value - error, value + error, colour))
            body.append(axes.line(rounds, value, colour))
        body.append(axes.line(rounds, here["total"].values / scale[name], TOTAL, 1.2))
    height = 30 + -(-len(order) // across) * (tall + 44)
    return _picture(48 + across * (wide + 22), height, "Drift by feature", "".join(body))


def distance(report: Report) -> str:
    """How far all features together have come: Mahalanobis lengths of the data's way and its parts."""
    data = report.drift
    rounds = data["round"].values.astype(float)
    split = report.design.concurrent and not report.objection
    parts = [("total", TOTAL), ("model", MODEL), ("world", WORLD)] if split else [("total", TOTAL)]
    root = report.cells.whitening.T
    lengths = {name: np.linalg.norm(data[name].values @ root, axis=1) for name, _ in parts}
    top = max(1.08 * float(np.nanmax(list(lengths.values()))), 1e-3)
    axes = Axes((48, 14, 620, 150), (rounds[0], rounds[-1]), (0.0, top))
    drawn = [axes.line(rounds, lengths[name], colour, 2.0) for name, colour in parts]
    body = axes.frame() + axes.feet(8, whole=True) + "".join(drawn)
    return _picture(690, 186, "Distance of all features from the first round", body)


def stories(report: Report) -> str:
    """One model at a time: the feedback that fits the log, for every memory that the world may have."""
    trap = report.trap
    if trap is None or report.design.randomised or not 0 < trap.slope.value < 1:
        return ""
    memory = np.linspace(0.0, 1.0, 101)
    feedback = np.array([trap.curve(rho) for rho in memory])
    axes = Axes((64, 14, 600, 180), (0.0, 1.0), (-1.0, 1.0))
    body = axes.frame(4) + axes.feet(5) + axes.line(memory, feedback, TOTAL, 2.0)
    for x, y, colour in ((0.0, trap.slope.value, MODEL), (trap.slope.value, 0.0, WORLD)):
        body += f'<circle cx="{axes.x(x):.1f}" cy="{axes.y(y):.1f}" r="5" fill="{colour}"/>'
    body += (
        '<text x="364" y="228" class="tick" text-anchor="middle">memory of the world</text>'
        '<text x="14" y="104" class="tick" text-anchor="middle" transform="rotate(-90 14 104)">'
        "feedback</text>"
    )
    return _picture(690, 238, "Pairs of feedback and memory that fit this log", body)


def contrasts(report: Report) -> str:
    """How differently the arms' data moved, against how differently their weights were set."""
    cells, strength = report.cells, report.strength
    if (
        cells.aligned is None
        or strength is None
        or not report.design.concurrent
        or report.objection
    ):
        return ""
    statistics, parameters = cells.aligned
    x = cells.contrast[:, parameters].ravel()
    y = cells.within(cells.mean)[:, statistics].ravel()
    rows = np.repeat(cells.count, len(statistics))
    chosen = np.flatnonzero(x != 0)
    chosen = chosen[np.argsort(-rows[chosen] * x[chosen] ** 2, kind="stable")][:MOST_POINTS]
    if not chosen.size:
        return ""
    x, y, rows = x[chosen], y[chosen], rows[chosen]
    right, top = 1.05 * np.abs(x).max(), 1.1 * np.abs(y).max()
    axes = Axes((64, 14, 600, 300), (-right, right), (-top, top))
    ends = np.array([-right, 0.0, right])
    low = np.minimum(strength.low * ends, strength.high * ends)
    high = np.maximum(strength.low * ends, strength.high * ends)
    size = 1.5 + 2.5 * np.sqrt(rows / rows.max())
    dots = "".join(
        f'<circle cx="{axes.x(a):.1f}" cy="{axes.y(b):.1f}" r="{r:.1f}"/>'
        for a, b, r in zip(x, y, size, strict=True)
    )
    body = axes.frame(5) + axes.feet(6)
    body += f'<g fill="{TOTAL}" fill-opacity="0.35">{dots}</g>'
    body += axes.band(ends, low, high, MODEL)
    body += axes.line(ends, strength.value * ends, MODEL, 2.2)
    body += (
        '<text x="364" y="350" class="tick" text-anchor="middle">difference of the arms\' weights'
        '</text><text x="14" y="164" class="tick" text-anchor="middle" '
        'transform="rotate(-90 14 164)">difference of the arms\' features</text>'
    )
    return _picture(690, 360, "Contrasts of the arms", body)


def dial(report: Report) -> str:
    """The contraction and its interval on a line, with the edge of stability at 1."""
    rho = report.contraction
    if rho is None or report.objection:
        return ""
    rows: list[tuple[str, Estimate]] = [("contraction", rho)]
    if report.loop is not None and report.loop.of <= 8:
        rows += [(f"direction {k + 1}", d) for k, d in enumerate(report.loop.directions)]
    if report.sufficient is not None:
        rows.append(("gamma (theory)", report.sufficient))
    values = [v for _, found in rows for v in found if np.isfinite(v)]
    low, high = min(0.0, *values), min(max(1.15, *values), 4.0)
    axes = Axes((150, 12, 520, 26 * len(rows)), (max(low, -4.0), high * 1.03), (0, len(rows)))
    body = [axes.feet(6)]
    for edge in (-1.0, 1.0):
        if axes.across[0] <= edge <= axes.across[1]:
            x = axes.x(edge)
            body.append(
                f'<line x1="{x:.1f}" x2="{x:.1f}" y1="6" y2="{axes.top + axes.height}" '
                f'stroke="{WORLD}" stroke-width="2"/>'
            )
    for k, (name, found) in enumerate(rows):
        y = axes.top + 26 * k + 13
        a, b = (axes.x(np.clip(v, *axes.across)) for v in (found.low, found.high))
        at = axes.x(np.clip(found.value, *axes.across))
        weight = "bold" if k == 0 else "normal"
        body.append(
            f'<text x="142" y="{y + 4}" class="tick" text-anchor="end" font-weight="{weight}">'
            f"{escape(name)} {number(found.value)}</text>"
            f'<line x1="{a:.1f}" x2="{b:.1f}" y1="{y}" y2="{y}" stroke="{MODEL}" stroke-width="2.5"/>'
            f'<circle cx="{at:.1f}" cy="{y}" r="{5 if k == 0 else 3.5}" fill="{MODEL}"/>'
        )
    return _picture(690, int(axes.height) + 34, "Contraction of the loop", "".join(body))
