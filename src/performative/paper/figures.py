"""The paper's figures, drawn from what `experiments` measured: same panels, axes and schedules.

Regret may be negative, and no axis here hides it; bands are standard errors over runs.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator

from performative import plots
from performative.paper.claims import LEARNERS
from performative.paper.experiments import DRIFTS, moving_average
from performative.plots import COLOURS, FONT, SMALL, WIDTH, Panel, Picture

NAMES = {"random": "random $P_t$", "stationary": "stationary $P_t$"}
REGRET = r"regret $\mathrm{Reg}_T^{\mathrm{PS}}$"
LAZY = "lazy SGD"


def schedule(b: float) -> str:
    """α_t = t^-b as a formula.

    >>> schedule(0.0)
    '$\\\\alpha_t=1$'
    """
    return r"$\alpha_t=1$" if b == 0 else rf"$\alpha_t=t^{{-{b:g}}}$"


def stability(credit: xr.Dataset) -> Picture:
    """Figure 1: RRM and lazy SGD, random above, stationary below."""
    panels = [
        _regret_panel(credit, learner, drift, f"{learner}, {NAMES[drift]}")
        for drift in DRIFTS
        for learner in ("RRM", LAZY)
    ]
    return plots.grid(panels, key=_key(credit))


def learners(data: xr.Dataset, drift: str) -> Picture:
    """Figures 2 and 3, and their likes for the quadratic world: all four learners, one kind of P_t."""
    panels = [_regret_panel(data, learner, drift, learner) for learner in LEARNERS]
    return plots.grid(panels, key=_key(data))


def _regret_panel(data: xr.Dataset, learner: str, drift: str, title: str) -> Panel:
    curves = data[LEARNERS[learner]].sel(drift=drift)
    rounds = data[curves.dims[-1]].values
    lines = [plots.line(schedule(b), rounds, curves.sel(b=b).values) for b in data["b"].values]
    return Panel(title, REGRET, lines)


def _key(data: xr.Dataset) -> str:
    return f"± standard error, {data.sizes['run']} runs"


def bounds(table: xr.Dataset) -> Picture:
    """Figures 4 and 5: regret against the theorems, and against what is tighter than they are."""
    figure = blank(2 * WIDTH, 2.9)
    styles = {"paper": (0, (4, 1.5)), "recursion": (0, (1, 1.2)), "second_order": (0, (4, 1, 1, 1))}
    for axis, learner in zip(figure.subplots(1, 2), table["learner"].values, strict=True):
        here = table.sel(learner=learner, drift="random")
        for colour, b in zip(COLOURS, (0.5, 1.0), strict=False):
            one = here.sel(b=b)
            axis.plot(one["round"], one["regret"], color=colour, lw=1.4)
            for kind, dash in styles.items():
                values = _finite(one["bound"].sel(kind=kind).values)
                axis.plot(one["round"], values, color=colour, lw=0.9, ls=dash)
        axis.set_xscale("log")
        drawn = here.sel(b=[0.5, 1.0])
        everything = np.append(drawn["regret"].values.ravel(), drawn["bound"].values.ravel())
        linear = plots.regret_axis(axis, everything)
        axis.set_title(str(learner), fontsize=FONT)
        label(axis, "horizon $T$", REGRET + linear)
    handles = [
        Line2D([], [], color=colour, lw=1.4, label=f"regret, {schedule(b)}")
        for colour, b in zip(COLOURS, (0.5, 1.0), strict=False)
    ]
    names = ("bound of the theorem", "its recursion, round by round", "second-order certificate")
    handles += [
        Line2D([], [], color="0.3", lw=0.9, ls=dash, label=name)
        for dash, name in zip(styles.values(), names, strict=True)
    ]
    legend(figure, handles, 3)
    return figure


def _finite(values: np.ndarray) -> np.ndarray:
    """Gaps where there is no bound."""
    return np.where(np.isfinite(values), values, np.nan)


def trajectories(data: xr.Dataset) -> Picture:
    """Figure 6: where four learners went in two dimensions, and their distance from the target."""
    figure = blank(2 * WIDTH, 9.0)
    grid = figure.subplots(len(LEARNERS), 2)
    for (left, right), (name, key) in zip(grid, LEARNERS.items(), strict=True):
        here = data.sel(learner=name)
        _path(left, here["stable"].values, here["deployed"].values)
        left.set_title(f"{name}, the first {data.sizes['step']} rounds", fontsize=FONT)
        distance = data[key]
        rounds = distance[distance.dims[0]].values
        shown = np.unique(np.geomspace(1, len(rounds), 2000).astype(int)) - 1
        raw, smooth = distance.values, moving_average(distance.values)
        right.plot(rounds[shown], raw[shown], color="0.65", lw=0.5)
        right.plot(rounds[shown], smooth[shown], color=COLOURS[0], lw=1.2)
        right.set_xscale("log")
        right.set_yscale("log")
        right.set_title(f"{name}, distance from the target", fontsize=FONT)
        label(right, "round $t$", r"$\|\theta_t-\theta_t^{\mathrm{PS}}\|$")
    handles = [
        Line2D([], [], color=COLOURS[0], lw=0.8, marker="o", ms=2.5, label=r"$\theta_t$, deployed"),
        Line2D(
            [], [], color=COLOURS[1], lw=0.8, marker="s", ms=2.5, label=r"$\theta_t^{\mathrm{PS}}$"
        ),
        Line2D([], [], color="0.65", lw=0.5, label="distance"),
        Line2D([], [], color=COLOURS[0], lw=1.2, label="its mean over the last 50 rounds"),
    ]
    legend(figure, handles, 4)
    return figure


def _path(axis: Axes, target: np.ndarray, deployed: np.ndarray) -> None:
    axis.plot(*target.T, color=COLOURS[1], lw=0.5, marker="s", ms=1.6, mew=0, alpha=0.8)
    axis.plot(*deployed.T, color=COLOURS[0], lw=0.5, marker="o", ms=1.6, mew=0, alpha=0.8)
    axis.plot(*deployed[0], "o", ms=6, mfc="none", mec="k", mew=0.8)
    axis.annotate("start", deployed[0], xytext=(5, 4), textcoords="offset points", fontsize=SMALL)
    axis.set_aspect("equal", adjustable="datalim")
    axis.xaxis.set_major_locator(MaxNLocator(5))
    label(axis, r"$\theta_1$", r"$\theta_2$")


def recipes(table: xr.Dataset) -> Picture:
    """The same curves, exact and by the paper's Monte Carlo recipe, and what mixing them gives."""
    panels = []
    for b in table["b"].values:
        here = table.sel(b=b)
        lines = [
            plots.line(str(name), table["round"].values, here["regret"].sel(recipe=name).values)
            for name in table["recipe"].values
        ]
        panels.append(Panel(f"RRM, random $P_t$, {schedule(b)}", REGRET, lines))
    return plots.grid(panels)


def blank(width: float, height: float) -> Picture:
    figure = Picture(figsize=(width, height), dpi=100, layout="constrained")
    FigureCanvasAgg(figure)
    return figure


def label(axis: Axes, horizontal: str, vertical: str) -> None:
    axis.set_xlabel(horizontal, fontsize=FONT)
    axis.set_ylabel(vertical, fontsize=FONT)
    axis.tick_params(which="both", labelsize=SMALL)
    axis.spines[["top", "right"]].set_visible(False)


def legend(figure: Picture, handles: list[Any], columns: int) -> None:
    figure.legend(
        handles=handles,
        loc="outside lower center",
        ncols=columns,
        fontsize=SMALL,
        frameon=False,
        handlelength=2.4,
    )
