"""The atlas: every learner in every ready-made world, and what it lost there to both targets.

Sections 2 to 5 of the paper side by side, on common random numbers. A learner that has no business in a
world, because a theorem gives it no step there or a domain no room, is shown as such, with the reason.
It knows no learner or world by name: it asks `pp.learners` and `pp.worlds` what there is.
"""

from __future__ import annotations

import inspect
import os
import textwrap
import time
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import xarray as xr
from matplotlib import colormaps
from matplotlib.backends.backend_agg import FigureCanvasAgg

from performative import __version__, _checks, plots
from performative import learners as learner_room
from performative import worlds as world_room
from performative._parallel import progress as progress_bar
from performative.learners.learner import Learner
from performative.simulation.engine import check_learner, problem_of
from performative.simulation.sweep import sweep
from performative.world.world import World

ROUNDS, RUNS = 1000, 5
TARGETS = ("stable", "optimal")


def worlds(rounds: int = ROUNDS) -> dict[str, World]:
    """Every ready-made world, with its defaults.

    >>> list(worlds(rounds=2))[:3]
    ['credit', 'quadratic', 'biased_coin']
    """
    return {name: make(rounds=rounds) for name, make in _factories(world_room)}


def learners() -> dict[str, Learner]:
    """Every learner that needs no arguments, by the name it gives itself.

    >>> "RRM" in learners()
    True
    """
    made = [make() for _, make in _factories(learner_room) if not _required(make)]
    return {learner.name: learner for learner in made}


_every_world, _every_learner = worlds, learners  # `measure` has arguments of these names


def _factories(room: Any) -> list[tuple[str, Any]]:
    named = [(name, getattr(room, name)) for name in room.__all__]
    return [(name, thing) for name, thing in named if inspect.isfunction(thing)]


def _required(factory: Any) -> list[str]:
    """Names of the arguments without a default."""
    parameters = inspect.signature(factory).parameters.values()
    variable = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    return [p.name for p in parameters if p.default is p.empty and p.kind not in variable]


def measure(
    worlds: Mapping[str, World] | None = None,
    learners: Mapping[str, Learner] | None = None,
    *,
    rounds: int = ROUNDS,
    runs: int = RUNS,
    seed: int = 0,
    progress: bool | None = None,
) -> xr.Dataset:
    """Final stability and optimality regret of every learner in every world.

    Args:
        worlds: by name, with one number of rounds; every ready-made one unless given.
        learners: by name; every one that needs no arguments unless given. To add your own:
            ``{**pp.atlas.learners(), "mine": mine}``.
        rounds: T of the ready-made worlds.
        runs: of learners that throw dice, or see samples.
        seed: of the runs.
        progress: whether to show a bar after two seconds; None where somebody can see it.

    Returns:
        A Dataset (world, learner): for each target `…_regret`, the mean over runs, and `…_error`, its
        standard error; `why_not`, the reason where a learner was not played, else empty. Coordinates
        say each learner's feedback, each world's rung and how many of its targets are flagged.

    >>> import performative as pp
    >>> table = measure({"mean": pp.worlds.gaussian_mean(rounds=5)}, {"RRM": pp.learners.rrm()})
    >>> float(table.stable_regret[0, 0].round(4))
    0.666
    """
    worlds = _every_world(_checks.integer("rounds", rounds, low=1)) if worlds is None else worlds
    learners = _every_learner() if learners is None else learners
    for name, pieces in (("worlds", worlds), ("learners", learners)):
        if not isinstance(pieces, Mapping) or not pieces:
            raise TypeError(
                f"{name} must be a dictionary of names and {name}; got {_checks.shown(pieces)}."
            )
    for world in worlds.values():
        _checks.instance("worlds", world, World, "a dictionary of pp.World")
    lengths = sorted({world.rounds for world in worlds.values()})
    if len(lengths) > 1:
        raise ValueError(
            "worlds must all have the same number of rounds, after which regrets are compared; got "
            f"{' and '.join(f'{length:,}' for length in lengths)}."
        )
    for learner in learners.values():
        check_learner(learner)
    runs, seed = _checks.integer("runs", runs, low=1), _checks.integer("seed", seed, low=0)
    grid = Grid.of(list(worlds), list(learners))
    title = f"{len(worlds)} worlds × {len(learners)} learners"
    with progress_bar(title, len(worlds), progress) as advance:
        for place, world in worlds.items():
            reasons = {name: _refusal(learner, world) for name, learner in learners.items()}
            grid.why_not.update({(place, name): reason for name, reason in reasons.items()})
            able = {name: learners[name] for name, reason in reasons.items() if not reason}
            _play(grid, {place: world}, able, runs, seed)
            advance(1)
    return grid.labelled(worlds, learners, runs, seed)


class Grid(NamedTuple):
    """What is known of each pair so far."""

    worlds: list[str]
    learners: list[str]
    why_not: dict[tuple[str, str], str]
    values: dict[str, np.ndarray]
    flagged: dict[str, np.ndarray]

    @staticmethod
    def of(worlds: list[str], learners: list[str]) -> Grid:
        shape = (len(worlds), len(learners))
        names = [f"{target}_{what}" for target in TARGETS for what in ("regret", "error")]
        values = {name: np.full(shape, np.nan) for name in names}
        return Grid(worlds, learners, {}, values, {t: np.zeros(len(worlds), int) for t in TARGETS})

    def enter(self, table: xr.Dataset) -> None:
        """Take in the result of a sweep."""
        at = np.ix_(
            [self.worlds.index(str(name)) for name in table["world"].values],
            [self.learners.index(str(name)) for name in table["learner"].values],
        )
        for target in TARGETS:
            last = table[f"{target}_regret"].isel(round=-1).transpose("world", "learner", "run")
            runs = last.sizes["run"]
            error = last.std("run", ddof=1).values / np.sqrt(runs) if runs > 1 else np.nan
            self.values[f"{target}_regret"][at] = last.mean("run").values
            self.values[f"{target}_error"][at] = error
            self.flagged[target][at[0][:, 0]] = table[f"{target}_flagged"].values

    def labelled(
        self, worlds: Mapping[str, World], learners: Mapping[str, Learner], runs: int, seed: int
    ) -> xr.Dataset:
        reasons = [[self.why_not[w, name] for name in self.learners] for w in self.worlds]
        return xr.Dataset(
            {
                **{name: (("world", "learner"), values) for name, values in self.values.items()},
                "why_not": (("world", "learner"), np.array(reasons, dtype=str)),
            },
            coords={
                "world": self.worlds,
                "learner": self.learners,
                "feedback": ("learner", [shown_feedback(learner) for learner in learners.values()]),
                "rung": ("world", [world.rung for world in worlds.values()]),
                **{f"{t}_flagged": ("world", flagged) for t, flagged in self.flagged.items()},
            },
            attrs={
                "rounds": next(iter(worlds.values())).rounds,
                "runs": runs,
                "seed": seed,
                "version": __version__,
            },
        )


def shown_feedback(learner: Learner) -> str:
    """What a learner sees each round, in words.

    >>> import performative as pp
    >>> shown_feedback(pp.learners.rrm(rows=50))
    'samples, 50 rows'
    """
    words = learner.feedback
    if words == "samples":
        rows = learner.rows
        words += f", {rows} row{'s' if rows != 1 else ''}" if isinstance(rows, int) else ""
    return words + (f", {learner.arms} arms" if learner.arms > 1 else "")


def _refusal(learner: Learner, world: World) -> str:
    """Why a learner cannot be prepared for a world; nothing if it can."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            learner.prepare(problem_of(world))
    except Exception as error:
        return _sentence(error)
    return ""


def _sentence(error: Exception) -> str:
    text = " ".join(str(error).split())
    kind = "" if isinstance(error, ValueError) else f"{type(error).__name__}: "
    return (kind + text)[:300] or type(error).__name__


def _play(
    grid: Grid,
    world: Mapping[str, World],
    learners: Mapping[str, Learner],
    runs: int,
    seed: int,
) -> None:
    """One world; where that fails, learner by learner, so that one failure costs one pair."""
    if not learners:
        return
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # flags are counted in the table
            table = sweep(world, learners, runs, seed, against=TARGETS, progress=False)
        grid.enter(table)
    except Exception as error:
        if len(learners) == 1:
            grid.why_not[next(iter(world)), next(iter(learners))] = _sentence(error)
            return
        for name, learner in learners.items():
            _play(grid, world, {name: learner}, runs, seed)


# What is said and drawn


class Atlas(NamedTuple):
    """The table, where it was written, and how long it took."""

    table: xr.Dataset
    files: list[Path]
    seconds: float

    def __str__(self) -> str:
        return described(self.table)


def run(
    out: str | os.PathLike,
    *,
    rounds: int = ROUNDS,
    runs: int = RUNS,
    seed: int = 0,
    progress: bool | None = None,
) -> Atlas:
    """Measure, and write the figure and its data.

    Args:
        out: the folder for `atlas.nc`, `.png` and `.pdf`.
        rounds, runs, seed, progress: as for `measure`.
    """
    begun = time.monotonic()
    table = measure(rounds=rounds, runs=runs, seed=seed, progress=progress)
    files = plots.keep(figure(table), table, out, "atlas")
    return Atlas(table, files, time.monotonic() - begun)


def described(table: xr.Dataset, width: int = 80) -> str:
    """The table as text: world by world who saw what and lost how much, then who was not played and why.

    Args:
        table: from `measure`.
        width: of a line; what does not fit is wrapped, and what is a number is never cut.
    """
    played = table.attrs
    heads = [f"to the {target}" for target in TARGETS]
    cells = {
        target: [[_cell(table, w, n, target) for n in table["learner"]] for w in table["world"]]
        for target in TARGETS
    }
    spans = [
        max(len(head), *(len(cell) for row in cells[target] for cell in row)) + 2
        for head, target in zip(heads, TARGETS, strict=True)
    ]
    first = width - sum(spans)
    names = [f"  {name} ({seen})" for name, seen in zip(*_names(table), strict=True)]
    lines = [
        *_wrapped(
            f"Regret after T = {played['rounds']:,} rounds, {played['runs']} runs, ± standard error: "
            "to the stable points, and to the optimal points. In brackets, what a learner sees each "
            "round.",
            width,
        )
    ]
    for i, world in enumerate(table["world"].values):
        marks = ["*" * bool(table[f"{target}_flagged"][i]) for target in TARGETS]
        columns = zip(heads, marks, spans, strict=True)
        lines += ["", f"{world:<{first}}" + "".join(f"{h + m:>{c}}" for h, m, c in columns)]
        for j, name in enumerate(names):
            numbers = zip((cells[target][i][j] for target in TARGETS), spans, strict=True)
            *above, last = _wrapped(name, first, "    ")
            lines += [*above, f"{last:<{first}}" + "".join(f"{cell:>{c}}" for cell, c in numbers)]
    lines += [""]
    if any(np.any(table[f"{target}_flagged"]) for target in TARGETS):
        flags = (
            "* the target of some rounds is not unique, not certain or not there: see its status"
        )
        lines += _wrapped(flags, width)
    absent = _absent(table)
    lines += ["– not played, because:"] if absent else []
    for reason, pairs in absent.items():
        lines += _wrapped(f"  {pairs}: {reason}", width, "    ")
    return "\n".join(lines).rstrip()


def _names(table: xr.Dataset) -> tuple[list[str], list[str]]:
    """The learners, and what each sees."""
    return table["learner"].values.tolist(), table["feedback"].values.tolist()


def _absent(table: xr.Dataset) -> dict[str, str]:
    """Reasons why pairs were not played, and those pairs in words: learners of one world together."""
    pairs: dict[str, dict[str, list[str]]] = {}
    for name in table["learner"].values:
        for world in table["world"].values:
            if reason := table["why_not"].sel(world=world, learner=name).item():
                pairs.setdefault(reason, {}).setdefault(world, []).append(name)
    return {
        reason: "; ".join(f"{', '.join(names)} in {world}" for world, names in where.items())
        for reason, where in pairs.items()
    }


def _wrapped(text: str, width: int, indent: str = "") -> list[str]:
    return textwrap.wrap(text, max(width, 24), subsequent_indent=indent, break_on_hyphens=False)


def _cell(table: xr.Dataset, world: Any, learner: Any, target: str) -> str:
    """Regret ± standard error, or a dash."""
    pair = table.sel(world=world, learner=learner)
    value, error = float(pair[f"{target}_regret"]), float(pair[f"{target}_error"])
    if pair["why_not"].item():
        return "–"
    if not error > 1e-9 * abs(value):  # rounding, of runs that are all alike
        return f"{value:.3g}"
    return f"{value:.3g}±{float(f'{error:.1g}'):g}"  # twice, so that 60 is not 6e+01


def figure(table: xr.Dataset) -> plots.Picture:
    """Both tables side by side; in each row, the darker the cell, the better the learner's place."""
    rows, columns = table.sizes["world"], table.sizes["learner"]
    size = (2.2 + 1.1 * columns, 1.1 + 0.26 * rows)
    picture = plots.Picture(figsize=(size[0], 2 * size[1]), dpi=100, layout="constrained")
    FigureCanvasAgg(picture)
    for axis, target in zip(picture.subplots(2, 1), TARGETS, strict=True):
        _draw(axis, table, target)
    return picture


def _draw(axis: Any, table: xr.Dataset, target: str) -> None:
    values = table[f"{target}_regret"].values
    # Places, not sizes: regrets of one row differ by orders of magnitude, and in sign.
    places = np.array([[np.sum(row < value) for value in row] for row in values], dtype=float)
    places = np.where(np.isnan(values), np.nan, places)
    last = np.maximum(np.nanmax(np.where(np.isnan(places), 0.0, places), axis=1, keepdims=True), 1)
    shades = 0.15 + 0.75 * places / last
    pixels = colormaps["Blues_r"](np.nan_to_num(shades))
    pixels[np.isnan(shades)] = (0.93, 0.93, 0.93, 1.0)
    axis.imshow(pixels, aspect="auto")
    for i, world in enumerate(table["world"].values):
        for j, learner in enumerate(table["learner"].values):
            text = _cell(table, world, learner, target)
            dark = shades[i, j] < 0.5
            axis.text(
                j, i, text, ha="center", va="center", fontsize=plots.SMALL - 1,
                color="w" if dark else "k",
            )  # fmt: skip
    flagged = table[f"{target}_flagged"].values > 0
    labels = [
        f"{world}{'*' if mark else ''}"
        for world, mark in zip(table["world"].values, flagged, strict=True)
    ]
    heads = [
        f"{name}\n{seen}"
        for name, seen in zip(table["learner"].values, table["feedback"].values, strict=True)
    ]
    axis.set_yticks(range(len(labels)), labels, fontsize=plots.SMALL)
    axis.set_xticks(range(len(heads)), heads, fontsize=plots.SMALL - 1)
    axis.xaxis.tick_top()
    axis.tick_params(length=0)
    axis.spines[:].set_visible(False)
    axis.set_title(
        f"Regret to the {target} points, T = {table.attrs['rounds']:,}; the darker, the better "
        "in its row; – not played; * targets flagged",
        fontsize=plots.FONT,
        loc="left",
    )
