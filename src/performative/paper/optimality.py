"""Section 5 of the paper put to the test, which it does not do itself: regret to the optimal points.

ZGD2 and ZGD, each run tuned to its own horizon as Theorems 5.2 and 5.3 ask, beside learners that aim at
the stable points, over the paper's schedules α_t = t^-b, moving and fixed drift, and the dimension. Each
slope is measured over horizons, and stands next to that of the bound on the same horizons.
"""

from __future__ import annotations

import dataclasses
import warnings
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.ticker import FixedLocator, LogFormatterMathtext, LogLocator, NullFormatter

from performative import learners, plots
from performative._precision import double
from performative.paper.claims import SD, Claim, of_the_mean
from performative.paper.experiments import CREDIT_B, DRIFTS, QUADRATIC_B, Settings, credit_world
from performative.paper.figures import NAMES, blank, label, legend
from performative.plots import COLOURS, DASHES, FONT, WIDTH, Picture
from performative.simulation.engine import Player, problem_of
from performative.simulation.run import Record
from performative.targets.optimal import optimal_points
from performative.targets.points import STATUSES, Found
from performative.theory import zgd, zgd2
from performative.theory.case import Case
from performative.world.world import World
from performative.worlds.quadratic import quadratic

DIMENSION = 4
"""Of the quadratic world. Theorem 5.3's strongly convex case needs more than 1000 rounds for d = 10."""

CHUNK = 2500
"""Rounds of one call of a compiled program, which serves every horizon: rounds past the last are played
in vain."""

AIMED: dict[str, tuple[Callable[..., Any], ModuleType]] = {
    "ZGD2": (learners.zgd2, zgd2),
    "ZGD": (learners.zgd, zgd),
}
STABLE: dict[str, Callable[[], Any]] = {"RRM": learners.rrm, "greedy SGD": learners.greedy_sgd}
LEARNERS = (*AIMED, *STABLE)
"""Those that aim at the optimal points, whose bounds are in `theory`, and those that aim at stable ones."""

SHOWN_B = 1.0
REGRET = r"regret $\mathrm{Reg}_T^{\mathrm{PO}}$"


class Sizes(NamedTuple):
    """Horizons of either world; dimensions, and the horizon of the sweep over them."""

    quadratic: tuple[int, ...]
    credit: tuple[int, ...]
    dimensions: tuple[int, ...]
    swept: int


FULL = Sizes((1000, 3000, 10_000, 30_000, 100_000), (500, 1000, 2000, 4000), (2, 4, 8, 16), 10_000)
QUICK = Sizes((300, 1000, 3000), (500, 1000), (2, 4), 1000)

EXPONENTS = {"quadratic": QUADRATIC_B, "credit": CREDIT_B}


def make(settings: Settings, where: str, drift: str, b: float, rounds: int) -> World:
    """A world of the experiment; for a smaller T, the first rounds of the same."""
    if where == "credit":
        return credit_world(settings, drift, b, rounds)
    return quadratic(DIMENSION, drift, b, rounds, settings.seed)


def measure(settings: Settings, sizes: Sizes | None = None) -> xr.Dataset:
    """All of it: variables of a world begin with its name, those of the sweep over d with `swept`.

    `<world>_regret` (learner, drift, b, horizon, run) is the final optimality regret of runs tuned to
    their horizon; `_lost` that of the stable points themselves; `_bound` and `_case` are the theorem's.
    """
    sizes = sizes or (QUICK if settings.quick else FULL)
    runs = max(2 * (settings.runs // 4), 2)  # even: two threads, one program
    parts = [prefixed("swept", dimensions(settings, sizes, runs))]
    for where in EXPONENTS:
        parts.append(prefixed(where, horizons(settings, where, getattr(sizes, where), runs)))
    rungs = {part.attrs["rung"] for part in parts}
    attrs = {
        "part": "optimality",
        "rung": ", ".join(sorted(rungs)),
        "seed": settings.seed,
        "runs": runs,
        "rounds": sizes.swept,
        "dimension": DIMENSION,
    }
    return xr.merge(parts, combine_attrs="drop").assign_attrs(attrs)


def prefixed(name: str, sheet: xr.Dataset) -> xr.Dataset:
    shared = ("learner", "aimed", "drift", "run")
    return sheet.rename({key: f"{name}_{key}" for key in sheet.variables if key not in shared})


def sheet_of(data: xr.Dataset, name: str) -> xr.Dataset:
    """The variables of one world, or of the sweep over d, under their own names."""
    mine = {str(key): str(key).removeprefix(f"{name}_") for key in data.variables
            if str(key).startswith(f"{name}_")}  # fmt: skip
    return data[[key for key in mine if key in data.data_vars]].rename(mine)


def horizons(settings: Settings, where: str, lengths: Sequence[int], runs: int) -> xr.Dataset:
    """Final optimality regret in one of the paper's worlds at several horizons."""
    grid = [(drift, b) for drift in DRIFTS for b in EXPONENTS[where]]
    shape = (len(DRIFTS), len(EXPONENTS[where]), len(lengths))
    longest = _Played([make(settings, where, *pair, lengths[-1]) for pair in grid], lengths[-1])
    played = {T: longest.first([make(settings, where, *pair, T) for pair in grid]) for T in lengths}
    data = _empty(("drift", "b", "horizon"), shape, runs)
    for name, (factory, theorem) in AIMED.items():
        rule = factory(case=_common_case(factory, played[lengths[0]].worlds))
        for k, worlds in enumerate(played.values()):
            regret, bound = worlds.aimed(rule, theorem, runs, settings.seed)
            data["regret"].loc[name][:, :, k] = regret.reshape(*shape[:2], runs)
            data["bound"].loc[name][:, :, k] = bound.reshape(shape[:2])
        data["case"].loc[name] = rule.case
    for name, stable in STABLE.items():
        regret, lost = longest.stable(stable(), runs, settings.seed, lengths)
        data["regret"].loc[name] = regret.reshape(*shape, -1)
        data["lost"][:] = lost.reshape(shape)
    data = data.assign_coords(drift=list(DRIFTS), b=list(EXPONENTS[where]), horizon=list(lengths))
    data["predicted"] = xr.full_like(data["bound"].isel(horizon=0, drop=True), np.nan)
    for name in AIMED:
        for drift, b in grid:
            case = str(data["case"].sel(aimed=name).values)
            data["predicted"].loc[{"aimed": name, "drift": drift, "b": b}] = predicted(
                name, b, drift, case
            )
    return data.merge(slopes(data, "horizon")).assign_attrs(rung=longest.worlds[0].rung)


def dimensions(settings: Settings, sizes: Sizes, runs: int) -> xr.Dataset:
    """Final optimality regret over d in quadratic worlds, b = 1, P_t random."""
    data = _empty(("dimension",), (len(sizes.dimensions),), runs)
    worlds = [quadratic(d, "random", SHOWN_B, sizes.swept, settings.seed) for d in sizes.dimensions]
    cases = {name: _common_case(factory, worlds) for name, (factory, _) in AIMED.items()}
    for k, world in enumerate(worlds):
        played = _Played([world], sizes.swept)
        for name, (factory, theorem) in AIMED.items():
            found = played.aimed(factory(case=cases[name]), theorem, runs, settings.seed)
            data["regret"].loc[name][k], data["bound"].loc[name][k] = found[0][0], found[1][0]
        regret, lost = played.stable(learners.rrm(), 1, settings.seed, [sizes.swept])
        data["regret"].loc["RRM"][k], data["lost"][k] = regret[0, 0], lost[0, 0]
    for name, case in cases.items():
        data["case"].loc[name] = case
    data = data.assign_coords(dimension=list(sizes.dimensions))
    return data.merge(slopes(data, "dimension")).assign_attrs(rung=worlds[0].rung)


def _empty(dims: tuple[str, ...], shape: tuple[int, ...], runs: int) -> xr.Dataset:
    return xr.Dataset(
        {
            "regret": (("learner", *dims, "run"), np.full((len(LEARNERS), *shape, runs), np.nan)),
            "lost": (dims, np.full(shape, np.nan)),
            "bound": (("aimed", *dims), np.full((len(AIMED), *shape), np.inf)),
            "case": ("aimed", np.full(len(AIMED), "", dtype="<U16")),
        },
        coords={"learner": list(LEARNERS), "aimed": list(AIMED)},
    )


def _common_case(factory: Callable[..., Any], worlds: Sequence[World]) -> str:
    """The case of the theorem that all these worlds are long enough for."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it says that a world is too short: that is the question
        cases = {factory().prepare(problem_of(world)).case for world in worlds}
    return cases.pop() if len(cases) == 1 else "convex"


class _Found:
    """Optimal points that are known, in the place of a `Finder`."""

    def __init__(self, points: xr.DataArray):
        codes = {name: code for code, name in enumerate(STATUSES)}
        columns = (points.values, points.residual.values, points.certificate.values)
        self.all = Found(*columns, np.array([codes[str(name)] for name in points.status.values]))

    def find(self, first: int, last: int) -> Found:
        return Found(*(column[first - 1 : last] for column in self.all))


class _Played:
    """Worlds of one structure, all learners played in all of them at once; targets are found once."""

    def __init__(self, worlds: list[World], most: int, points: Any = None):
        self.worlds, self.most = worlds, most
        self.points = points or [optimal_points(world, progress=False) for world in worlds]
        self.finders: dict[tuple[int, str], Any] = {
            (id(world), "optimal"): _Found(mine)
            for world, mine in zip(worlds, self.points, strict=True)
        }

    def first(self, worlds: list[World]) -> _Played:
        """The same worlds, shorter: they have the first of the targets."""
        rounds = worlds[0].rounds
        return _Played(worlds, self.most, points=[points[:rounds] for points in self.points])

    def aimed(
        self, rule: Any, theorem: ModuleType, runs: int, seed: int
    ) -> tuple[np.ndarray, np.ndarray]:
        """Final regret (world, run) of a learner with the theorem's parameters, and the bound."""
        prepared, bounds = [], []
        for world, points in zip(self.worlds, self.points, strict=True):
            case = Case(world, rule, None, None)
            case.optimal = points
            bounds.append(theorem.paper(case)[-1])
            # Steps of one length for all horizons: what follows the last round is never used.
            missing = self.most - world.rounds
            steps = np.pad(case.learner.step, (0, missing), mode="edge")
            prepared.append(dataclasses.replace(case.learner, step=steps))
        regrets = self._play(prepared, runs, seed, ("optimal",))
        return regrets[0].sum(axis=-1), np.array(bounds)

    def stable(
        self, rule: Any, runs: int, seed: int, lengths: Sequence[int]
    ) -> tuple[np.ndarray, np.ndarray]:
        """Optimality regret (world, horizon, run), and what of it the stable points lose themselves."""
        prepared = [rule.prepare(problem_of(world)) for world in self.worlds]
        runs = runs if rule.randomised else 1
        each = self._play(prepared, runs, seed, ("optimal", "stable"))
        optimal, stable = np.cumsum(each, axis=-1)[..., np.asarray(lengths) - 1]
        return np.swapaxes(optimal, 1, 2), (optimal - stable).mean(axis=1)

    @double
    def _play(
        self, prepared: list[Any], runs: int, seed: int, targets: tuple[str, ...]
    ) -> np.ndarray:
        """Regret of every round: (target, world, run, round)."""
        starts = np.zeros((runs, len(self.worlds), self.worlds[0].parameters))
        records = [
            Record.of(world, learner, runs, runs, targets, "regret")
            for world, learner in zip(self.worlds, prepared, strict=True)
        ]
        player = Player(
            self.worlds, prepared, starts, seed, 0, records, targets, self.finders, remember=True
        )
        player.chunk = CHUNK
        rounds = self.worlds[0].rounds
        for first in range(1, rounds + 1, CHUNK):
            player.play(first, min(first + CHUNK - 1, rounds))
        return np.array([[r.regrets[target].mean(axis=2) for r in records] for target in targets])


# Slopes


def predicted(learner: str, b: float, drift: str, case: str = "strongly convex") -> float:
    r"""The exponent of T in the bound of Theorem 5.2 or 5.3, for α_t = t^-b and parameters tuned to T.

    Optimal points move by Δ_t = O(α_t) where P_t keeps moving, and by O(|α_t − α_{t+1}|) where it stands
    still. Strongly convex, the path enters as Σ tΔ_t, beside log T or T^{2/3}; convex, as √T ΣΔ_t or
    T^{3/4} ΣΔ_t. Logarithms are left out. An exponent above 1 promises nothing.

    >>> predicted("ZGD2", 1.0, "stationary"), predicted("ZGD", 1.0, "stationary")
    (0.0, 0.6666666666666666)
    >>> predicted("ZGD2", 0.5, "random"), predicted("ZGD2", 0.5, "random", "convex")
    (1.5, 1.0)
    """
    still = drift == "stationary"
    if still and b == 0:
        path, weighted = 0.0, 0.0  # nothing moves
    else:
        speed = b + 1.0 if still else b  # Δ_t = O(t^−speed)
        path, weighted = max(1.0 - speed, 0.0), max(2.0 - speed, 0.0)
    if case == "strongly convex":
        return max({"ZGD2": 0.0, "ZGD": 2 / 3}[learner], weighted)
    return {"ZGD2": 0.5, "ZGD": 0.75}[learner] + path


class Slope(NamedTuple):
    """The slope of log regret in log T over horizons, and its standard error over runs."""

    value: float
    error: float


def slope(horizons: Any, regrets: Any) -> Slope:
    """Least squares on the means; regrets (horizon, run). NaN where a mean is not positive.

    >>> slope([10, 100, 1000], 3.0 * np.sqrt([[10.0], [100.0], [1000.0]])).value
    0.5
    """
    horizons, regrets = np.asarray(horizons, float), np.asarray(regrets, float)
    return Slope(*of_the_mean(regrets.T, lambda mean: _fit(horizons, mean)))


def _fit(horizons: np.ndarray, values: np.ndarray) -> float:
    if np.any(values <= 0) or not np.all(np.isfinite(values)):
        return float("nan")
    return round(float(np.polyfit(np.log(horizons), np.log(values), 1)[0]), 12)


def slopes(data: xr.Dataset, along: str) -> xr.Dataset:
    """Measured slopes of the learners, and those of the bounds on the same grid."""
    x = data[along].values
    regret = data["regret"].transpose(..., along, "run")
    found = [slope(x, sheet) for sheet in regret.values.reshape(-1, len(x), regret.shape[-1])]
    values = np.array(found).reshape(*regret.shape[:-2], 2)
    bound = data["bound"].transpose(..., along)
    fits = np.array([_fit(x, line) for line in bound.values.reshape(-1, len(x))])
    return xr.Dataset(
        {
            "slope": (regret.dims[:-2], values[..., 0]),
            "slope_error": (regret.dims[:-2], values[..., 1]),
            "bound_slope": (bound.dims[:-1], fits.reshape(bound.shape[:-1])),
        }
    )


# What is drawn


def figure(data: xr.Dataset) -> Picture:
    """A row for each world: final regret over horizons, moving and fixed drift; last, over d."""
    picture = blank(2 * WIDTH, 2.2 * (len(EXPONENTS) + 1))
    axes = picture.subplots(len(EXPONENTS) + 1, 2)
    for row, where in zip(axes, EXPONENTS, strict=False):
        sheet = sheet_of(data, where).sel(b=SHOWN_B)
        for axis, drift in zip(row, DRIFTS, strict=True):
            linear = _curves(axis, sheet.sel(drift=drift), "horizon")
            axis.set_title(f"{where}, {NAMES[drift]}", fontsize=FONT)
            label(axis, "horizon $T$", REGRET + linear)
    left, right = axes[-1]
    linear = _curves(left, sheet_of(data, "swept"), "dimension")
    left.set_title(f"quadratic, $T={data.attrs['rounds']:,}$", fontsize=FONT)
    label(left, "dimension $d$", REGRET + linear)
    _slopes_drawn(right, sheet_of(data, "quadratic"))
    handles = [
        Line2D([], [], color=colour, ls=dash, marker="o", ms=3, lw=1.2, label=name)
        for name, colour, dash in zip(LEARNERS, COLOURS, DASHES, strict=False)
    ]
    handles += [
        Line2D([], [], color="0.5", ls=":", lw=1.2, label="the stable points themselves"),
        Line2D([], [], color="0.3", lw=0.7, label="bound (colour of its learner)"),
    ]
    legend(picture, handles, 3)
    return picture


def _curves(axis: Axes, here: xr.Dataset, along: str) -> str:
    x = here[along].values
    drawn = []
    for name, colour, dash in zip(LEARNERS, COLOURS, DASHES, strict=False):
        regret = here["regret"].sel(learner=name).transpose(along, "run").values
        if np.isnan(regret).all():
            continue
        mean, error = regret.mean(axis=1), regret.std(axis=1, ddof=1) / np.sqrt(regret.shape[1])
        axis.errorbar(x, mean, error, color=colour, ls=dash, lw=1.2, marker="o", ms=3, capsize=1.5)
        drawn.append(mean)
        if name in AIMED:
            bound = here["bound"].sel(aimed=name).values
            axis.plot(x, np.where(np.isfinite(bound), bound, np.nan), color=colour, lw=0.7)
            drawn.append(bound)
    lost = here["lost"].values
    axis.plot(x, lost, color="0.5", ls=":", lw=1.2)
    axis.set_xscale("log")
    decades = along == "horizon" and x[-1] >= 10 * x[0]
    axis.xaxis.set_major_locator(LogLocator(10) if decades else FixedLocator(list(map(float, x))))
    axis.xaxis.set_major_formatter(LogFormatterMathtext() if decades else "{x:g}")
    axis.xaxis.set_minor_formatter(NullFormatter())
    return plots.regret_axis(axis, np.concatenate([*drawn, lost]))


def _slopes_drawn(axis: Axes, sheet: xr.Dataset) -> None:
    """Measured slopes at each b, and above them those of the bounds."""
    places = np.arange(sheet.sizes["b"])
    for name, colour, side in zip(AIMED, COLOURS, (-1, 1), strict=False):
        for drift, marker, shift in zip(DRIFTS, "os", (0.09, 0.24), strict=True):
            here = sheet.sel(learner=name, aimed=name, drift=drift)
            fill = colour if drift == "random" else "w"
            style = {"color": colour, "marker": marker, "ms": 4, "mfc": fill, "ls": ""}
            axis.errorbar(places + side * shift, here["slope"], here["slope_error"], **style)
            bound = here["bound_slope"]
            axis.plot(places + side * shift, bound, "_", color=colour, ms=8, mew=1.3)
    axis.set_xticks(places, [f"{b:g}" for b in sheet["b"].values])
    axis.axhline(1.0, color="0.7", lw=0.6, zorder=0)
    axis.set_title("quadratic, slopes in $T$ (dashes: of the bound)", fontsize=FONT)
    label(axis, "$b$ (filled: random, open: stationary)", "slope")


# What is said


def findings(data: xr.Dataset) -> list[Claim]:
    """What the theorems of section 5 promise and what it costs to aim at stability, decided like claims."""
    return [_slopes_below(data), _bounds_above(data), _stable_ahead(data), _growth(data)]


def _slopes_below(data: xr.Dataset) -> Claim:
    excess, names, undecided = [], [], 0
    for where in EXPONENTS:
        sheet = sheet_of(data, where)
        for name in AIMED:
            here = sheet.sel(learner=name, aimed=name)
            above = here["slope"] - here["bound_slope"]
            for drift in DRIFTS:
                for b in sheet["b"].values:
                    at = {"drift": drift, "b": b}
                    gap, error = float(above.loc[at]), float(here["slope_error"].loc[at])
                    if not np.isfinite(gap):
                        undecided += 1
                        continue
                    excess.append((gap, error))
                    names.append(f"{name}, {where}, {drift}, b={b:g}")
    worst = int(np.argmax([gap - SD * error for gap, error in excess]))
    gap, error = excess[worst]
    over = sum(g > SD * e for g, e in excess)
    return Claim(
        "O1",
        "Theorems 5.2 and 5.3: over horizons, final regret of ZGD2 and ZGD grows no faster than the "
        "bound.",
        f"{len(excess) - over} of {len(excess)} slopes are not above that of the bound; nearest: "
        f"{names[worst]}, slope less that of the bound {gap:+.3f} ± {error:.2g}"
        + (f"; {undecided} not decided, for want of a positive regret" if undecided else ""),
        over == 0,
        f"each run tuned to its horizon; above means by more than {SD:g} standard errors",
    )


def _bounds_above(data: xr.Dataset) -> Claim:
    lowest, sure = {}, True
    for where in (*EXPONENTS, "swept"):
        sheet = sheet_of(data, where)
        regret = sheet["regret"].sel(learner=list(AIMED)).mean("run").rename(learner="aimed")
        ratio = sheet["bound"] / np.abs(regret)
        sure &= bool((sheet["bound"] >= regret).all())
        lowest[where] = float(ratio.min())
    return Claim(
        "O2",
        "The bounds of Theorems 5.2 and 5.3 lie above the regret.",
        "smallest bound over regret: "
        + ", ".join(f"{'over d' if n == 'swept' else n} {v:.3g}" for n, v in lowest.items()),
        sure,
        "means over runs, every horizon, schedule, drift and dimension that was played",
    )


def _stable_ahead(data: xr.Dataset) -> Claim:
    parts, ahead, behind = [], [], []
    for where in EXPONENTS:
        last = sheet_of(data, where).isel(horizon=-1)
        regret = last["regret"].mean("run")
        best = regret.sel(learner=list(AIMED)).min("learner")
        less = regret.sel(learner="RRM") < best
        ahead += less.values.ravel().tolist()
        for drift in DRIFTS:
            behind += [f"{where}, {drift}, b={b:g}" for b in last["b"].values
                       if not less.sel(drift=drift, b=b)]  # fmt: skip
        parts.append(
            f"{where}: at most {float(last['lost'].max()):.3g} is lost by the stable points themselves"
        )
    return Claim(
        "O3",
        "In the paper's two worlds RRM, which aims at stability, has the smaller optimality regret.",
        f"smaller than ZGD2's and ZGD's in {sum(ahead)} of {len(ahead)} settings; "
        + "; ".join(parts),
        True if all(ahead) else (None if any(ahead) else False),
        "stable points are nearly optimal in both worlds, and learners that see risks alone pay for "
        "exploring"
        + (f"; not so in {', '.join(behind)}, where RRM is always a round late" if behind else ""),
    )


def _growth(data: xr.Dataset) -> Claim:
    sheet = sheet_of(data, "swept")
    said, sure = [], []
    for name in AIMED:
        here = sheet.sel(learner=name, aimed=name)
        means = here["regret"].mean("run").values
        sure.append(bool(np.all(np.diff(means) > 0) and np.all(here["bound"].values >= means)))
        said.append(
            f"{name} d^{float(here['slope']):.2f} ± {float(here['slope_error']):.2g}, "
            f"its bound d^{float(here['bound_slope']):.2f}"
        )
    said.append(f"RRM d^{float(sheet['slope'].sel(learner='RRM')):.2f}")
    return Claim(
        "O4",
        "Regret of ZGD2 and ZGD grows with the dimension, below the bound.",
        "; ".join(said),
        all(sure),
        f"quadratic worlds, b = {SHOWN_B:g}, P_t random, d = "
        + ", ".join(str(d) for d in sheet["dimension"].values)
        + "; the path's part of the bound, which hardly grows with d, hides its d²",
    )


def slope_rows(data: xr.Dataset) -> list[tuple[str, ...]]:
    """World, learner, case, P_t and α_t; measured slope, that of the bound, the theorem's exponent."""
    rows = []
    for where in EXPONENTS:
        sheet = sheet_of(data, where)
        for name in AIMED:
            for drift in DRIFTS:
                for b in sheet["b"].values:
                    one = sheet.sel(learner=name, aimed=name, drift=drift, b=b)
                    measured = f"{float(one['slope']):.2f} ± {float(one['slope_error']):.2f}"
                    rows.append(
                        (
                            where, name, str(one["case"].values), drift, f"t^-{b:g}" if b else "1",
                            measured if np.isfinite(one["slope"]) else "–",
                            f"{float(one['bound_slope']):.2f}", f"{float(one['predicted']):.2f}",
                        )
                    )  # fmt: skip
    return rows


def regret_rows(data: xr.Dataset) -> list[tuple[str, ...]]:
    """World, T, P_t and α_t; optimality regret of every learner, and of the stable points themselves."""
    rows = []
    for where in EXPONENTS:
        last = sheet_of(data, where).isel(horizon=-1)
        for drift in DRIFTS:
            for b in last["b"].values:
                one = last.sel(drift=drift, b=b)
                means = one["regret"].mean("run")
                errors = one["regret"].std("run", ddof=1) / np.sqrt(one.sizes["run"])
                said = [
                    f"{float(means.sel(learner=n)):.4g}"
                    + (f" ± {float(errors.sel(learner=n)):.2g}" if n != "RRM" else "")
                    for n in LEARNERS
                ]
                rows.append(
                    (
                        where, f"{int(one['horizon']):,}", drift, f"t^-{b:g}" if b else "1",
                        *said, f"{float(one['lost']) + 0.0:.4g}",
                    )
                )  # fmt: skip
    return rows
