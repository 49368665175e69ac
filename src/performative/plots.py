"""Figures of regret and of trajectories, legible at the width of a column (3.3 inches).

`regret` draws a run, or a panel for each learner of a sweep; `trajectory` draws where a model with
two parameters went, and where its targets were. Both make a figure that shows itself in a notebook,
or draw into the axes they are given; pyplot's windows and settings are left alone.
"""

from __future__ import annotations

import io
import os
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import xarray as xr
from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import Normalize
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import LogLocator, MaxNLocator, NullFormatter

from performative import _checks
from performative.simulation.run import MEASURES, TARGETS, Run

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
"""Okabe and Ito's palette, without its yellow, which a white page swallows."""

DASHES = ("-", (0, (4, 1.2)), (0, (1.2, 0.8)), (0, (5, 1, 1, 1)), (0, (2.5, 2.5)))
"""Line styles change with the colours: lines can be told apart in grey, and one under another."""

WIDTH, HEIGHT, FONT, SMALL = 3.3, 2.4, 8, 7
POINTS = 1000
"""At most about so many rounds are drawn, evenly spaced on a logarithmic axis."""

BANDS = ("quantiles", "standard error", "none")
PANELS = ("learner", "world")
SYMBOLS = {"stable": "PS", "optimal": "PO"}


class Line(NamedTuple):
    """A mean over runs, and the band around it; low = high where there is none."""

    label: str
    rounds: np.ndarray
    mean: np.ndarray
    low: np.ndarray
    high: np.ndarray


class Panel(NamedTuple):
    title: str
    symbol: str
    lines: list[Line]


class Picture(Figure):
    """A figure that belongs to no window: it shows itself in a notebook, and has `savefig`."""

    def _repr_png_(self) -> bytes:
        buffer = io.BytesIO()
        self.savefig(buffer, format="png", dpi=160)
        return buffer.getvalue()


def regret(
    source: Run | xr.Dataset,
    target: str | None = None,
    *,
    ax: Axes | Sequence[Axes] | None = None,
    cumulative: bool = True,
    arms: str = "mean",
    bands: str = "quantiles",
    quantiles: tuple[float, float] = (0.1, 0.9),
    panels: str | None = None,
) -> Any:
    """Regret over rounds: the mean of the runs as a line, their spread as a band.

    Both axes are logarithmic where all that is drawn is positive; elsewhere the vertical one is
    linear near zero, and its label says how far, so that negative regret is seen.

    Args:
        source: a `Run`, or the Dataset of `pp.sweep`.
        target: "stable" or "optimal"; None draws all that the source was measured against.
        ax: where to draw, instead of a figure of its own; for several panels, as many axes.
        cumulative: summed up to each round; False for round by round.
        arms: of a run with two models a round, their "mean" or the "worst".
        bands: "quantiles" of the runs, two "standard error"s wide in all, or "none".
        quantiles: which ones.
        panels: of a sweep, "learner" for a panel each with a line for each world, "world" for the
            reverse; None takes the one that compares something.

    Returns:
        The figure, which has `savefig`; the axes if `ax` was given.

    >>> import performative as pp
    >>> world = pp.World(response=pp.responses.location(0.5, pp.Gaussian([1.0], 1.0)),
    ...                  loss=pp.losses.squared(), domain=pp.domains.ball(5.0), rounds=8)
    >>> figure = pp.simulate(world, pp.learners.rrm()).plot()
    >>> figure.axes[0].get_xscale(), figure.axes[0].get_yscale()
    ('log', 'log')
    """
    _checks.choice("bands", bands, BANDS)
    low, high = (_checks.number("quantiles", q, low=0.0, high=1.0) for q in quantiles)
    if low > high:
        raise ValueError(f"quantiles must be in increasing order; got {quantiles}.")
    if target is not None:
        _checks.choice("target", target, TARGETS)
    band = _Band(bands, low, high)
    if isinstance(source, Run):
        targets = [target] if target else _measured(source.dataset, "run") or ["stable"]
        values = {t: source.regret(t, arms=arms, cumulative=cumulative) for t in targets}
        drawn = [_of_run(values, str(source.dataset.attrs["learner"]), cumulative, band)]
        runs = source.dataset.sizes["run"]
    elif isinstance(source, xr.Dataset) and {"world", "learner", "run", "round"} <= set(
        source.sizes
    ):
        _checks.choice("arms", arms, MEASURES[:1])
        targets = [target] if target else _measured(source, "sweep")
        drawn = [p for t in targets for p in _of_sweep(source, t, cumulative, panels, band)]
        runs = source.sizes["run"]
    else:
        raise TypeError(
            f"source must be a Run or the Dataset of pp.sweep; got {type(source).__name__}."
        )
    horizontal = "horizon $T$" if cumulative else "round $t$"
    key = band.described(runs)
    if ax is None:
        figure, axes = _figure(len(drawn))
    else:
        figure, axes = None, np.ravel(np.asarray(ax, dtype=object))
        if len(axes) != len(drawn):
            raise ValueError(f"ax must be {len(drawn)} axes, one a panel; got {len(axes)}.")
    for axis, panel in zip(axes, drawn, strict=True):
        _draw(axis, panel, horizontal)
        axis.set_title(panel.title, fontsize=FONT if figure else None)
    handles = _handles(drawn, key)
    if figure is None:
        if handles:
            axes[0].legend(handles=handles, frameon=False)
        return ax
    _finish(figure, axes, handles)
    return figure


def grid(panels: Sequence[Panel], horizontal: str = "horizon $T$", key: str = "") -> Picture:
    """Panels of your own, two in a row, with one legend: for curves that come from no single sweep.

    Args:
        panels: titles, names of the vertical axis, and lines, which `line` makes.
        horizontal: the name of the horizontal axis.
        key: what the bands are, for the legend.
    """
    figure, axes = _figure(len(panels))
    for axis, panel in zip(axes, panels, strict=True):
        _draw(axis, panel, horizontal)
        axis.set_title(panel.title, fontsize=FONT)
    _finish(figure, axes, _handles(panels, key))
    return figure


def line(label: str, rounds: Any, values: Any) -> Line:
    """The mean of curves (run, round), with a band of one standard error; one curve has none.

    >>> line("two runs", [1], [[1.0], [3.0]]).high
    array([3.])
    """
    rounds, values = np.asarray(rounds), np.atleast_2d(np.asarray(values, dtype=float))
    return _Band("standard error", 0.0, 1.0).line(label, rounds, values)


def trajectory(
    run: Run,
    *,
    index: int = 0,
    targets: Sequence[str] | None = None,
    rounds: int | None = None,
    ax: Axes | None = None,
) -> Any:
    """The path of the deployed models, and of the targets, in a world of two parameters.

    Args:
        run: a run that kept what was deployed.
        index: which of the runs.
        targets: "stable", "optimal" or both; None draws those the run was measured against.
        rounds: only the first so many; all unless given.
        ax: where to draw, instead of a figure of its own.

    Returns:
        The figure, which has `savefig`; the axes if `ax` was given.

    >>> import performative as pp
    >>> world = pp.worlds.quadratic(dim=2, rounds=20)
    >>> pp.plots.trajectory(pp.simulate(world, pp.learners.rrm())).axes[0].get_xlabel()
    '$\\\\theta_1$'
    """
    _checks.instance("run", run, Run, "a pp.Run, as pp.simulate returns")
    deployed = run.deployed
    if deployed.sizes["parameter"] != 2:
        raise ValueError(
            "run must have models of two parameters for a trajectory; "
            f"got {deployed.sizes['parameter']}."
        )
    index = _checks.integer("index", index, low=0)
    if index >= deployed.sizes["run"]:
        raise IndexError(f"index must be a run below {deployed.sizes['run']}; got {index}.")
    names = _measured(run.dataset, "run") if targets is None else list(targets)
    names = [_checks.choice("targets", name, TARGETS) for name in names]
    numbers = deployed["round"].values
    if rounds is not None:
        numbers = numbers[numbers <= _checks.integer("rounds", rounds, low=1)]
        if not len(numbers):
            raise ValueError(f"rounds must reach the first kept round; got {rounds}.")
    shown = _thinned(numbers, POINTS)
    models = deployed.isel(run=index, round=shown).mean("arm").values
    figure = None
    if ax is None:
        figure, (axis,) = _figure(1, height=3.0)
    else:
        axis = ax
    for name, colour, marker in zip(names, COLOURS[1:], "sD", strict=False):
        points = _points(run, name).sel(round=numbers[shown]).values
        symbol = rf"$\theta_t^{{\mathrm{{{SYMBOLS[name]}}}}}$, {name}"
        axis.plot(*points.T, color=colour, lw=0.7, alpha=0.7, zorder=1)
        axis.plot(*points.T, marker, color=colour, ms=2.2, mew=0, zorder=2, label=symbol)
    size = FONT if figure else None
    axis.plot(*models.T, color="0.55", lw=0.6, zorder=3)
    dots = axis.scatter(
        *models.T, c=numbers[shown], s=6, cmap="viridis", zorder=4, label=r"$\theta_t$, deployed"
    )
    axis.plot(*models[0], "o", ms=7, mfc="none", mec="k", mew=0.8, zorder=5, label="start")
    axis.set_xlabel(r"$\theta_1$", fontsize=size)
    axis.set_ylabel(r"$\theta_2$", fontsize=size)
    axis.set_aspect("equal", adjustable="datalim")
    bar = axis.figure.colorbar(dots, ax=axis, pad=0.02)
    bar.set_label("round $t$", fontsize=size)
    if figure is None:
        axis.legend(frameon=False)
        return axis
    bar.ax.tick_params(labelsize=SMALL)
    bar.outline.set_linewidth(0.5)
    _finish(figure, [axis], axis.get_legend_handles_labels()[0])
    return figure


def keep(figure: Figure, table: xr.Dataset, folder: str | os.PathLike, name: str) -> list[Path]:
    """Write the figure as PNG and PDF and its data as NetCDF, each file whole or not at all.

    Args:
        figure: from `regret`.
        table: what it shows.
        folder: is made if it is not there.
        name: of the files, without an ending.

    Returns:
        The files: NetCDF, PNG, PDF.
    """
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    return [keep_data(table, folder / f"{name}.nc"), *keep_picture(figure, folder, name)]


def keep_data(table: xr.Dataset, path: Path) -> Path:
    """Write a Dataset as NetCDF, whole or not at all."""
    # By way of memory: where the disk is full, the HDF5 library may crash.
    return _whole(path, lambda draft: draft.write_bytes(table.to_netcdf(engine="h5netcdf")))


def keep_picture(figure: Figure, folder: Path, name: str, dpi: int = 300) -> list[Path]:
    """Write a figure as PNG and PDF, each file whole or not at all."""
    writers: dict[str, Callable[[Path], Any]] = {
        "png": lambda path: figure.savefig(path, dpi=dpi, format="png"),
        "pdf": lambda path: figure.savefig(path, format="pdf", metadata={"CreationDate": None}),
    }
    layout, files = figure.get_layout_engine(), []
    for ending, write in writers.items():
        files.append(_whole(folder / f"{name}.{ending}", write))
        figure.set_layout_engine("none")  # everything has its place now
    figure.set_layout_engine(layout)
    return files


def _whole(path: Path, write: Callable[[Path], Any]) -> Path:
    draft = path.with_name(path.name + ".part")
    try:
        write(draft)
        os.replace(draft, path)
    finally:
        draft.unlink(missing_ok=True)
    return path


def growth_exponent(rounds: Any, values: Any) -> float:
    """The slope of log regret in log T over the last decade: 1 is linear growth, 0 no more growth.

    Least squares over some 60 horizons, evenly spaced in log T, from T/10 to T; NaN where regret is
    not positive there, or where that decade holds fewer than three rounds.

    >>> growth_exponent(np.arange(1, 1001), 2.0 * np.sqrt(np.arange(1, 1001)))
    0.5
    """
    rounds, values = np.asarray(rounds, dtype=float), np.asarray(values, dtype=float)
    late = np.flatnonzero(rounds >= rounds[-1] / 10)
    chosen = late[_thinned(rounds[late], 60)]
    if len(chosen) < 3 or np.any(values[chosen] <= 0) or not np.all(np.isfinite(values[chosen])):
        return float("nan")
    return float(np.polyfit(np.log(rounds[chosen]), np.log(values[chosen]), 1)[0])


# What is drawn


class _Band(NamedTuple):
    kind: str
    low: float
    high: float

    def line(self, label: str, rounds: np.ndarray, values: np.ndarray) -> Line:
        """A line of values (run, round)."""
        mean = values.mean(axis=0)
        if self.kind == "quantiles":
            low, high = np.quantile(values, (self.low, self.high), axis=0)
        elif self.kind == "standard error" and len(values) > 1:
            error = values.std(axis=0, ddof=1) / np.sqrt(len(values))
            low, high = mean - error, mean + error
        else:
            low = high = mean
        return Line(label, rounds, mean, low, high)

    def described(self, runs: int) -> str:
        """What the band is, for the legend; nothing where there is none."""
        if runs == 1 or self.kind == "none":
            return ""
        if self.kind == "quantiles":
            return f"{100 * self.low:.3g}–{100 * self.high:.3g} % of {runs} runs"
        return f"± standard error, {runs} runs"


def _measured(dataset: xr.Dataset, what: str) -> list[str]:
    """The targets whose regret is in the dataset."""
    names = [f"{{}}{part}_regret" for part in ("", "_cumulative")]
    found = [t for t in TARGETS if any(name.format(t) in dataset for name in names)]
    if what == "sweep" and not found:
        raise ValueError("source must hold regret; got a sweep that was measured against nothing.")
    return found


def _regret_in(table: xr.Dataset, target: str) -> xr.DataArray:
    name = f"{target}_regret"
    if name not in table:
        raise ValueError(
            f"target must be one that the sweep was measured against; got {target!r}: "
            f"sweep with against=({target!r},)."
        )
    return table[name]


def _of_run(values: dict[str, xr.DataArray], learner: str, cumulative: bool, band: _Band) -> Panel:
    lines = []
    for target, array in values.items():
        rounds = array["round"].values
        shown = _thinned(rounds, POINTS)
        label = f"{target} points" if len(values) > 1 else ""
        sheet = array.transpose("run", "round").values[:, shown]
        lines.append(band.line(label, rounds[shown], sheet))
    return Panel(learner, _symbol(list(values), cumulative), lines)


def _of_sweep(
    table: xr.Dataset, target: str, cumulative: bool, panels: str | None, band: _Band
) -> list[Panel]:
    values = _regret_in(table, target)
    if panels is None:
        panels = "world" if values.sizes["world"] == 1 else "learner"
    _checks.choice("panels", panels, PANELS)
    within = PANELS[1 - PANELS.index(panels)]
    rounds = values["round"].values
    shown = _thinned(rounds, POINTS)
    sheets = values.transpose(panels, within, "run", "round").values
    before = np.concatenate([np.zeros_like(sheets[..., :1]), sheets[..., :-1]], axis=-1)
    sheets = sheets[..., shown] if cumulative else (sheets - before)[..., shown]
    return [
        Panel(
            str(title),
            _symbol([target], cumulative),
            [
                band.line(str(label), rounds[shown], sheet)
                for label, sheet in zip(values[within].values, block, strict=True)
            ],
        )
        for title, block in zip(values[panels].values, sheets, strict=True)
    ]


def _points(run: Run, target: str) -> xr.DataArray:
    """Where the target was: kept in the run, or found again."""
    if f"{target}_point" in run.dataset:
        return run.dataset[f"{target}_point"]
    if run.world is None:
        raise ValueError(f"targets must be kept in a run that was loaded; {target!r} was not.")
    from performative.targets.optimal import optimal_points
    from performative.targets.stable import stable_points

    return {"stable": stable_points, "optimal": optimal_points}[target](run.world)


def _thinned(rounds: np.ndarray, most: int) -> np.ndarray:
    """Indices of about `most` rounds, evenly spaced in log t, the first and the last among them."""
    if len(rounds) <= most:
        return np.arange(len(rounds))
    wanted = np.geomspace(rounds[0], rounds[-1], most)
    return np.unique(np.append(np.searchsorted(rounds, wanted[:-1]), len(rounds) - 1))


# How it is drawn


def _symbol(targets: Sequence[str], cumulative: bool) -> str:
    """The paper's name for what is on the vertical axis."""
    label = rf"\mathrm{{{SYMBOLS[targets[0]]}}}" if len(targets) == 1 else r"\ast"
    if cumulative:
        return rf"regret $\mathrm{{Reg}}_T^{{{label}}}$"
    return rf"$\mathrm{{PR}}_t(\theta_t)-\mathrm{{PR}}_t(\theta_t^{{{label}}})$"


def _figure(panels: int, height: float = HEIGHT) -> tuple[Picture, np.ndarray]:
    columns = min(panels, 2)
    rows = -(-panels // columns)
    figure = Picture(figsize=(WIDTH * columns, height * rows), dpi=100, layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots(rows, columns, squeeze=False).ravel()
    for spare in axes[panels:]:
        spare.remove()
    return figure, axes[:panels]


def _draw(axis: Axes, panel: Panel, horizontal: str) -> None:
    name = panel.symbol
    for i, line in enumerate(panel.lines):
        colour, dash = _style(i)
        single = "o" if len(line.rounds) == 1 else None
        axis.plot(line.rounds, line.mean, color=colour, ls=dash, lw=1.2, marker=single, ms=3)
        if np.any(line.high > line.low):
            axis.fill_between(line.rounds, line.low, line.high, color=colour, alpha=0.22, lw=0)
    if panel.lines[0].rounds[-1] > 1:
        axis.set_xscale("log")
    everything = np.concatenate([np.concatenate([ln.mean, ln.low]) for ln in panel.lines])
    name += regret_axis(axis, everything)
    axis.set_xlabel(horizontal)
    axis.set_ylabel(name)


def regret_axis(axis: Axes, everything: np.ndarray) -> str:
    """A logarithmic vertical axis, linear near zero where values are not all positive.

    Returns what the axis' label must add: how far it is linear.
    """
    everything = everything[np.isfinite(everything)]
    if everything.size and everything.min() > 0:
        axis.set_yscale("log")
        low, high = everything.min(), everything.max()
        if high < 30 * low and 1e-3 < low < 1e4:  # hardly a decade: 0.5, not 5 × 10⁻¹
            ticks = LogLocator(subs=(1.0, 2.0, 5.0)) if high > 4 * low else MaxNLocator(5)
            axis.yaxis.set_major_locator(ticks)
            axis.yaxis.set_major_formatter(lambda value, _: f"{value:g}")
            axis.yaxis.set_minor_formatter(NullFormatter())
    elif np.any(everything):
        threshold = _linear_within(everything)
        axis.set_yscale("symlog", linthresh=threshold, linscale=1.0)
        axis.axhline(0.0, color="0.6", lw=0.6, zorder=0)
        return f"\n(linear within $\\pm 10^{{{round(np.log10(threshold))}}}$)"
    return ""


def _style(i: int) -> tuple[str, Any]:
    return COLOURS[i % len(COLOURS)], DASHES[i % len(DASHES)]


def _linear_within(values: np.ndarray) -> float:
    """A power of ten below the smaller of the two sides of zero, and not absurdly far below."""
    sides = [side.max() for side in (values, -values) if side.max() > 0]
    smallest = np.abs(values[values != 0]).min()
    wanted = min(sides) / 10 if values.min() < 0 else smallest
    return 10.0 ** np.floor(np.log10(max(wanted, 1e-6 * max(sides))))


def _handles(panels: Sequence[Panel], band: str) -> list[Any]:
    """What the legend shows: the lines of all panels, and what the bands mean."""
    labels = [line.label for line in panels[0].lines]
    handles: list[Any] = []
    for i, label in enumerate(labels):
        colour, dash = _style(i)
        if label:
            handles.append(Line2D([], [], color=colour, ls=dash, lw=1.2, label=label))
    if band and any(np.any(line.high > line.low) for panel in panels for line in panel.lines):
        handles.append(Patch(color="0.6", alpha=0.4, lw=0, label=band))
    return handles


def _finish(figure: Picture, axes: Any, handles: list[Any]) -> None:
    """Sizes for a column, and one legend below."""
    for axis in axes:
        axis.tick_params(which="both", labelsize=SMALL)
        axis.xaxis.label.set_fontsize(FONT)
        axis.yaxis.label.set_fontsize(FONT)
        axis.spines[["top", "right"]].set_visible(False)
    if handles:
        words = [re.sub(r"\\[a-z]+|[${}^_]", "", handle.get_label()) for handle in handles]
        per_row = max(int(figure.get_figwidth() * 18 / (max(map(len, words)) + 6)), 1)
        rows = -(-len(handles) // per_row)
        figure.legend(
            handles=handles,
            loc="outside lower center",
            ncols=-(-len(handles) // rows),
            fontsize=SMALL,
            frameon=False,
            handlelength=1.6,
            columnspacing=1.2,
        )


# The landscape of a round


def landscape(source: Any, run: Run | None = None, **options: Any) -> Any:
    """The landscape DPR(θ, θ′) of a round, and beneath it the risk along its diagonal.

    Across: the deployed model θ′, which shapes the data. Up: the model θ that is judged on them; the
    darker, the better. The curve of the best answers crosses the diagonal at the stable points; the
    optimal point is where the diagonal is lowest. A run is drawn as steps: up to what its learner
    made of the data, across to deploying it.

    Args:
        source: a world, or the Dataset of `pp.landscape.measure`.
        run: whose path is drawn, for a world.
        options: for a world, what `pp.landscape.measure` takes, such as t, direction and reach.

    Returns:
        The figure, which has `savefig`.

    >>> import performative as pp
    >>> figure = pp.plots.landscape(pp.worlds.gaussian_mean(rounds=1), points=21)
    >>> len(figure.axes)
    2
    """
    if isinstance(source, xr.Dataset):
        seen = source
        if "decoupled_risk" not in seen:
            raise TypeError("source must be a world or the Dataset of pp.landscape.measure.")
    else:
        from performative.landscape import measure

        seen = measure(source, run=run, **options)
    figure = Picture(figsize=(WIDTH, 4.4), dpi=100, layout="constrained")
    FigureCanvasAgg(figure)
    above, below = figure.subplots(2, 1, sharex=True, height_ratios=(3.0, 1.0))
    _draw_sheet(above, seen)
    _draw_diagonal(below, seen)
    _finish(figure, [above, below], above.get_legend_handles_labels()[0])
    return figure


def _draw_sheet(axis: Axes, seen: xr.Dataset) -> None:
    places, sheet = seen["deployed"].values, seen["decoupled_risk"].values.T
    # Equal shares of the area for each shade: a few steep corners would else take them all.
    levels = np.unique(np.quantile(sheet, np.linspace(0.0, 1.0, 15)))
    if len(levels) > 2:
        shades = Normalize(0, len(levels) - 2)
        colours = colormaps["Blues_r"](0.25 + 0.75 * shades(np.arange(len(levels) - 1)))
        axis.contourf(places, places, sheet, levels=levels, colors=colours)
    axis.plot(places, places, color="0.25", lw=0.8, ls="--", label=r"$\theta=\theta'$")
    answers = _broken(places, seen["best_response"].values)
    axis.plot(places, answers, color=COLOURS[1], lw=1.4, label="best answer")
    if "path" in seen:
        _draw_steps(axis, seen["path"].values, str(seen["path"].attrs.get("learner", "run")))
    for name, marker in (("stable", "s"), ("optimal", "D")):
        spots = seen[name].values
        _mark(axis, name, spots, spots, marker)
    axis.set_xlim(places[0], places[-1])
    axis.set_ylim(places[0], places[-1])
    axis.set_ylabel(r"judged model $\theta$")
    axis.set_title(r"$\mathrm{DPR}_t(\theta, \theta')$, darker is lower", fontsize=FONT)


def _draw_steps(axis: Axes, path: np.ndarray, learner: str) -> None:
    """From the diagonal up to the next model, and across to its deployment."""
    shown = path[:POINTS]
    corners = np.repeat(shown, 2)
    axis.plot(corners[:-1], corners[1:], color="k", lw=0.7, label=learner)
    axis.plot(shown[0], shown[0], "o", ms=4, mfc="w", mec="k", mew=0.8, zorder=5)


def _draw_diagonal(axis: Axes, seen: xr.Dataset) -> None:
    places, risk = seen["deployed"].values, seen["risk"].values
    axis.plot(places, risk, color="0.25", lw=1.0)
    for name, marker in (("stable", "s"), ("optimal", "D")):
        spots = seen[name].values
        _mark(axis, name, spots, np.interp(spots, places, risk), marker)
    axis.margins(y=0.15)
    symbol = r"\theta'" if seen.sizes["parameter"] == 1 else "w"
    axis.set_xlabel(f"deployed model ${symbol}$, round {seen.attrs['t']:,}")
    axis.set_ylabel(r"$\mathrm{PR}_t$")


def _mark(axis: Axes, name: str, across: np.ndarray, up: np.ndarray, marker: str) -> None:
    """Points of one kind; a whole stretch of them is a line."""
    colour, size = {"stable": (COLOURS[4], 7.0), "optimal": (COLOURS[3], 4.2)}[name]
    label = rf"$\theta^{{\mathrm{{{SYMBOLS[name]}}}}}$, {name}"
    if len(across) > 10:
        axis.plot(across, up, color=colour, lw=3.0, alpha=0.8, zorder=3, label=label)
    elif len(across):
        axis.plot(
            across, up, marker, color=colour, ms=size, mec="k", mew=0.6, zorder=6, label=label,
            clip_on=False,
        )  # fmt: skip


def _broken(places: np.ndarray, values: np.ndarray) -> np.ndarray:
    """The curve with a gap wherever it jumps."""
    jumps = np.abs(np.diff(values)) > 0.25 * (places[-1] - places[0])
    return np.where(np.append(jumps, False), np.nan, values)
