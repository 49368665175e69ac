"""The paper's empirical claims, each a small function from measured data to a verdict.

Section 6 and the appendix on experiments say what the curves show. Here every sentence is decided by
the numbers that were measured: it holds, it does not, or it depends, and on what. Nothing is
simulated here, and no verdict is written down beforehand.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import xarray as xr

from performative.paper.experiments import moving_average
from performative.plots import growth_exponent

SD = 2.0
"""Means closer than so many standard errors of their difference are not told apart."""

VISIBLE, STEEP, LEVEL, SLIGHT = 1.2, 0.8, 10.0, 0.1
"""A curve is visibly above another by this factor; a slope near 1 is not below this; a bound of the right
level is within this factor; slopes that differ by less differ slightly."""


class Claim(NamedTuple):
    """A sentence of the paper, what was measured, and whether it holds (None: it depends)."""

    id: str
    claim: str
    measured: str
    holds: bool | None
    why: str

    @property
    def verdict(self) -> str:
        """In one word or two."""
        return {True: "holds", False: "does not hold", None: "depends"}[self.holds]


class Measured(NamedTuple):
    """All that the claims are decided by: the Datasets of `experiments`, as far as they were made."""

    credit: Any = None
    quadratic: Any = None  # d = 10
    credit_bounds: Any = None
    quadratic_bounds: Any = None
    trajectories: Any = None


class Order(NamedTuple):
    """Final regrets over exponents b: means, and the paired differences of neighbours."""

    b: np.ndarray
    means: np.ndarray
    steps: np.ndarray
    errors: np.ndarray

    @staticmethod
    def of(curves: xr.DataArray, exponents: Sequence[float]) -> Order:
        last = curves.sel(b=list(exponents)).isel({curves.dims[-1]: -1})
        values = last.values if "run" in last.dims else last.values[:, None]
        steps = np.diff(values, axis=0)
        runs = steps.shape[1]
        errors = steps.std(axis=1, ddof=1) / np.sqrt(runs) if runs > 1 else np.zeros(len(steps))
        return Order(np.asarray(exponents), values.mean(axis=1), steps.mean(axis=1), errors)

    def decreasing(self) -> bool | None:
        """Strictly; None where the only steps the wrong way are within their errors."""
        return _all_positive(-self.steps, self.errors)

    def increasing(self) -> bool | None:
        return _all_positive(self.steps, self.errors)

    def __str__(self) -> str:
        parts = [f"b={b:g}: {mean:.4g}" for b, mean in zip(self.b, self.means, strict=True)]
        return ", ".join(parts)

    def steps_said(self) -> str:
        """The differences of neighbours with their standard errors."""
        pairs = zip(self.b[:-1], self.b[1:], self.steps, self.errors, strict=True)
        return ", ".join(f"b={a:g}→{b:g}: {s:+.3g} ± {e:.2g}" for a, b, s, e in pairs)


def _all_positive(steps: np.ndarray, errors: np.ndarray) -> bool | None:
    if np.all(steps > 0):
        return True
    wrong = ~(steps > 0)  # what is not a number is no evidence either
    return None if np.all(np.abs(steps[wrong]) < SD * errors[wrong]) else False


def _one_is_smallest(curves: xr.DataArray) -> tuple[bool | None, str]:
    """Whether α = 1 (b = 0) has the smallest final regret, from paired differences."""
    last = curves.isel({curves.dims[-1]: -1})
    values = last.values if "run" in last.dims else last.values[:, None]
    above = values[1:] - values[0]
    runs = above.shape[1]
    errors = above.std(axis=1, ddof=1) / np.sqrt(runs) if runs > 1 else np.zeros(len(above))
    means = above.mean(axis=1)
    said = f"b=0: {values[0].mean():.4g}; above it " + ", ".join(
        f"b={b:g}: {m:+.3g}" + (f" ± {e:.2g}" if runs > 1 else "")
        for b, m, e in zip(curves["b"].values[1:], means, errors, strict=True)
    )
    return _all_positive(means, errors), said


def of_the_mean(runs: np.ndarray, measure: Callable[[np.ndarray], float]) -> tuple[float, float]:
    """A number measured on the mean of runs (run, …), and its standard error: one run left out at a time.

    >>> of_the_mean(np.array([[1.0, 2.0], [3.0, 6.0]]), lambda mean: float(mean[1] / mean[0]))
    (2.0, 0.0)
    """
    count, total = len(runs), runs.sum(axis=0)
    value = measure(total / count)
    if count == 1:
        return value, 0.0
    others = [measure((total - one) / (count - 1)) for one in runs]
    return value, float(np.sqrt((count - 1) * np.var(others)))


def _said(value: float, error: float) -> str:
    return f"{value:.3g}" + (f" ± {error:.2g}" if error else "")


LEARNERS = {"RRM": "rrm", "RGD": "rgd", "greedy SGD": "greedy_sgd", "lazy SGD": "lazy_sgd"}
PAPER_B = (0.0, 0.25, 0.5, 1.0, 2.0)


# Credit scoring, random P_t


def c1(data: Measured) -> Claim:
    order = Order.of(data.credit["rrm"].sel(drift="random"), PAPER_B)
    return Claim(
        "C1",
        "Random P_t, RRM: the faster α_t decays, the smaller the stability regret.",
        f"final regret {order}",
        order.decreasing(),
        "strictly decreasing in b is what is asked for",
    )


def c2(data: Measured) -> Claim:
    curves = data.credit["rgd"].sel(drift="random")
    order = Order.of(curves, (0.0, 0.25, 0.5, 1.0))
    beyond = float(curves.sel(b=2.0)[-1])
    return Claim(
        "C2",
        "Random P_t, RGD: the faster α_t decays, the smaller the stability regret.",
        f"final regret {order}; b=2: {beyond:.4g}",
        order.decreasing(),
        "decided over b ≤ 1; between b = 1 and b = 2 the first rounds decide, hence θ_1",
    )


def c3(data: Measured) -> Claim:
    orders = {
        name: Order.of(data.credit[LEARNERS[name]].sel(drift="random"), PAPER_B)
        for name in ("greedy SGD", "lazy SGD")
    }
    verdicts = [order.decreasing() for order in orders.values()]
    said = "; ".join(f"{name} {o} (paired {o.steps_said()})" for name, o in orders.items())
    return Claim(
        "C3",
        "Random P_t, greedy and lazy SGD: the faster α_t decays, the smaller the regret.",
        said,
        _both(verdicts),
        "means over runs on common random numbers; a step the wrong way that is within two "
        "standard errors counts as undecided",
    )


def c4(data: Measured) -> Claim:
    ratios, errors = {}, {}
    for name, key in LEARNERS.items():
        last = _final(data.credit[key].sel(drift="random", b=[0.5, 1.0]))
        ratios[name], errors[name] = of_the_mean(last, lambda mean: float(mean[0] / mean[1]))
    least = np.min([ratios["RRM"], ratios["RGD"]])
    noisy = ("greedy SGD", "lazy SGD")
    return Claim(
        "C4",
        "Random P_t: the stochastic learners separate the decaying schedules less.",
        "regret at b=1/2 over that at b=1: "
        + ", ".join(f"{n} {_said(r, errors[n])}" for n, r in ratios.items()),
        _all_positive(
            np.array([least - ratios[n] for n in noisy]), np.array([errors[n] for n in noisy])
        ),
        "both ratios of the SGDs must be below those of RRM and RGD; one above them by less than "
        "two standard errors counts as undecided",
    )


def _final(curves: xr.DataArray) -> np.ndarray:
    """Final regret, (run, b)."""
    last = curves.isel({curves.dims[-1]: -1})
    return last.transpose("run", "b").values if "run" in last.dims else last.values[None]


def c5(data: Measured) -> Claim:
    said, over, errors, ends = [], [], [], []
    for name in ("greedy SGD", "lazy SGD"):
        curves = data.credit[LEARNERS[name]].sel(drift="random")
        rounds = curves[curves.dims[-1]].values
        factor = of_the_mean(
            _final(curves.sel(b=list(PAPER_B))), lambda mean: float(mean[0] / mean[1:].max())
        )
        slope = of_the_mean(curves.sel(b=0.0).values, partial(growth_exponent, rounds))
        ends.append(_last_slope(curves.sel(b=0.0)))
        said.append(
            f"{name}: {_said(*factor)} times the next schedule, slope {_said(*slope)} over the last "
            f"decade, {ends[-1]:.2g} from T/2 to T"
        )
        over.append([factor[0] - VISIBLE, slope[0] - STEEP])
        errors.append([factor[1], slope[1]])
    worse, steep = map(_all_positive, np.transpose(over), np.transpose(errors))
    if steep is False and np.min(ends) >= STEEP:
        steep = None
    return Claim(
        "C5",
        "Random P_t, SGDs: the constant schedule is visibly worse, with a slope near 1.",
        "; ".join(said),
        _both([worse, steep]),
        f"a factor of at least {VISIBLE:g}, and a slope of at least {STEEP:g} over the last decade; "
        "it depends on T where only the slope at the end is that steep, for the linear part lies on "
        "top of one that grows like log T",
    )


def _last_slope(curves: xr.DataArray) -> float:
    """Of the mean regret (run, round), from T/2 to T."""
    rounds, mean = curves[curves.dims[-1]].values, curves.mean("run").values
    half = np.searchsorted(rounds, rounds[-1] / 2)
    if not np.all(mean[[half, -1]] > 0):
        return float("nan")
    return float(np.log(mean[-1] / mean[half]) / np.log(rounds[-1] / rounds[half]))


# Credit scoring, stationary P_t


def c6(data: Measured) -> Claim:
    order = Order.of(data.credit["rrm"].sel(drift="stationary"), PAPER_B)
    return Claim(
        "C6",
        "Stationary P_t, RRM: the order is reversed, and α_t = 1 is best.",
        f"final regret {order}",
        order.increasing(),
        "strictly increasing in b is what is asked for",
    )


def c7(data: Measured) -> Claim:
    here, said = _one_is_smallest(data.credit["rgd"].sel(drift="stationary"))
    there, also = _one_is_smallest(data.credit["rgd_from_stable"])
    return Claim(
        "C7",
        "Stationary P_t, RGD: the constant schedule is slightly better.",
        f"from this θ_1: {said}. From θ_1 = θ_1^PS: {also}",
        here if here == there else None,
        "the start decides: RGD is slow, and a start that lies nearer to the limit of the decaying "
        "schedules than to that of α = 1 favours them"
        if here != there
        else "the same from both starts",
    )


def c8(data: Measured) -> Claim:
    smallest, said = _one_is_smallest(data.credit["greedy_sgd"].sel(drift="stationary"))
    order = Order.of(data.credit["greedy_sgd"].sel(drift="stationary"), PAPER_B)
    ordered = "are" if order.increasing() else "are not"
    return Claim(
        "C8",
        "Stationary P_t, greedy SGD: the constant schedule is best.",
        said,
        smallest,
        f"paired differences of runs; all schedules together {ordered} ordered",
    )


def c9(data: Measured) -> Claim:
    curves = data.credit["lazy_sgd"].sel(drift="stationary")
    smallest, said = _one_is_smallest(curves)
    order = Order.of(curves, PAPER_B)
    ordered = order.increasing()
    n0 = data.credit.attrs["n0"]
    holds = True if smallest and ordered else (None if smallest else smallest)
    return Claim(
        "C9",
        "Stationary P_t, lazy SGD: the order is reversed, and α_t = 1 is best.",
        f"n0 = {n0}: {said} (paired steps {order.steps_said()})",
        holds,
        "both parts hold"
        if holds
        else "α_t = 1 is best; the full order needs more samples a round (a larger n0), because the "
        "spread between the two components, α(1−α)‖Aθ+m−m_t‖², makes slow decay noisier"
        if smallest
        else "α_t = 1 is not the best here",
    )


# The path of the targets


def c10(data: Measured) -> Claim:
    last = data.credit["path_length"].sel(drift="stationary").isel(round=-1)
    still, moved = float(last.sel(b=0.0)), last.sel(b=list(PAPER_B[1:])).values
    said = ", ".join(f"b={b:g}: {m:.3f}" for b, m in zip(PAPER_B[1:], moved, strict=True))
    return Claim(
        "C10",
        "With fixed P_t the path length is zero.",
        f"path length at T: b=0: {still:.2g}, {said}",
        bool(np.all(moved < 1e-9) and still < 1e-9),
        "it is zero only where α_t does not change: elsewhere the mixture moves although P_t does "
        "not. It stays bounded",
    )


def c11(data: Measured) -> Claim:
    here = data.credit.sel(drift="random", b=list(PAPER_B))
    ratios = (here["path_length"].isel(round=-1) / here["first_distance"]).values
    fastest = "also" if ratios[-1] > 1.0 else "not"
    return Claim(
        "C11",
        "Random P_t: the path length is the dominant term of the bound.",
        "path length over the first distance: "
        + ", ".join(f"b={b:g}: {r:.3g}" for b, r in zip(PAPER_B, ratios, strict=True)),
        bool(np.all(ratios[:-1] > 1.0)),
        f"the bound is L/(1−γ) times the sum of the two; decided over b ≤ 1, and {fastest} so at "
        "b = 2, where P_t is gone after a few rounds",
    )


# Bounds


def c12(data: Measured) -> Claim:
    lowest = {
        name: float(d["tightest"].sel(kind="paper").values.min())
        for name, d in (("credit", data.credit_bounds), ("quadratic", data.quadratic_bounds))
    }
    return Claim(
        "C12",
        "The finite upper bounds lie above the regret.",
        "smallest bound over regret, any horizon: "
        + ", ".join(f"{n} {v:.4g}" for n, v in lowest.items()),
        bool(np.min(list(lowest.values())) >= 1.0),
        f"RRM and RGD at every horizon; credit {_grid_said(data.credit_bounds)}; quadratic "
        f"{_grid_said(data.quadratic_bounds)}; {data.credit_bounds.attrs['constants']} constants",
    )


def _grid_said(table: xr.Dataset) -> str:
    exponents = ", ".join(f"{b:g}" for b in table["b"].values)
    return f"with P_t {' and '.join(table['drift'].values)}, b = {exponents}"


def c13(data: Measured) -> Claim:
    here = data.credit_bounds.sel(drift="random", b=[0.5, 1.0]).isel(round=-1)
    bound, regret = here["bound"].sel(kind="paper"), here["regret"]
    same_order = bool(
        np.all((bound.diff("b").values < 0) == (regret.diff("b").values < 0))
        and np.all(regret.diff("b").values < 0)
    )
    ratios = (bound / regret).values
    level = bool(ratios.max() <= LEVEL)
    return Claim(
        "C13",
        "The bounds are qualitatively right in ordering and level.",
        f"b=1 below b=1/2 in both: {'yes' if same_order else 'no'}; bound over regret at T: "
        f"{ratios.min():.3g} to {ratios.max():.3g}",
        same_order and level,
        f"the ordering {'is' if same_order else 'is not'} right; the level "
        f"{'is' if level else 'is not'} (within a factor of {LEVEL:g} would be)",
    )


def _slopes(table: xr.Dataset) -> tuple[np.ndarray, np.ndarray]:
    """Slopes of regret and of the paper's bound: (learner, b), random P_t, b = 1/2 and 1."""
    here = table.sel(drift="random", b=[0.5, 1.0])
    rounds = here["round"].values

    def of(curves: Any) -> np.ndarray:
        values = curves.transpose("learner", "b", "round").values
        return np.apply_along_axis(lambda c: growth_exponent(rounds, c), -1, values)

    return of(here["regret"]), of(here["bound"].sel(kind="paper"))


def c14(data: Measured) -> Claim:
    regret, bound = _slopes(data.credit_bounds)
    gaps = bound - regret
    return Claim(
        "C14",
        "The slopes of the regret are slightly smaller than those of the bounds.",
        "slope of regret / of bound: "
        + _by_learner_and_b(regret, bound, data.credit_bounds["learner"].values),
        bool(gaps.min() > 0 and gaps.max() <= SLIGHT),
        f"they are smaller by {gaps.min():.2f} to {gaps.max():.2f}; {SLIGHT:g} would be slight",
    )


def _by_learner_and_b(first: np.ndarray, second: np.ndarray, names: Any) -> str:
    return ", ".join(
        f"{name} b={b:g} {first[i, j]:.3f} / {second[i, j]:.3f}"
        for i, name in enumerate(names)
        for j, b in enumerate((0.5, 1.0))
    )


def c15(data: Measured) -> Claim:
    gaps = {}
    for name, table in (("credit", data.credit_bounds), ("quadratic", data.quadratic_bounds)):
        regret, bound = _slopes(table)
        gaps[name] = bound - regret
    wider = gaps["quadratic"] > gaps["credit"]
    holds = True if wider.all() else (False if not wider.any() else None)
    return Claim(
        "C15",
        "The difference of slopes is more pronounced in the quadratic-Gaussian world.",
        "slope of bound less slope of regret, credit / quadratic: "
        + _by_learner_and_b(
            gaps["credit"], gaps["quadratic"], data.credit_bounds["learner"].values
        ),
        holds,
        "for b=1/2 "
        + ("yes" if wider[:, 0].all() else "no" if not wider[:, 0].any() else "in part")
        + ", for b=1 "
        + ("yes" if wider[:, 1].all() else "no" if not wider[:, 1].any() else "in part"),
    )


def c16(data: Measured) -> Claim:
    parts, verdicts = [], []
    for name in ("RRM", "RGD"):
        order = Order.of(data.quadratic[LEARNERS[name]].sel(drift="random"), (0.5, 1.0))
        verdicts.append(order.decreasing())
        parts.append(f"{name} {order}")
    beyond = Order.of(data.quadratic["rrm"].sel(drift="random"), (1.0, 1.5, 2.0))
    return Claim(
        "C16",
        "The quadratic-Gaussian world shows the same ordering.",
        "; ".join(parts) + f"; RRM beyond: {beyond}",
        _both(verdicts),
        "b=1/2 against b=1, as in the paper's figure; for larger b the fall of α_t from 1 to 2^-b in "
        "the first rounds decides",
    )


# Trajectories


def c17(data: Measured) -> Claim:
    share = data.trajectories["share_lagging"]
    steps = data.trajectories.sizes["step"] - 1
    # A share that a fair coin would exceed one time in 40.
    enough = 0.5 + SD * 0.5 / np.sqrt(steps)
    seen = {str(name): float(share.sel(learner=name)) for name in share["learner"].values}
    above = [value > enough for value in seen.values()]
    return Claim(
        "C17",
        "Two dimensions: the iterates track the target with a slight lag.",
        f"share of the first {steps} steps in which θ_t+1 is nearer to θ_t^PS than to θ_t+1^PS: "
        + ", ".join(f"{name} {value:.2f}" for name, value in seen.items()),
        True if all(above) else (None if any(above) else False),
        "visible for "
        + (", ".join(n for n, v in seen.items() if v > enough) or "none")
        + "; for the others noise hides it"
        if not all(above)
        else f"all above {enough:.2f}",
    )


def c18(data: Measured) -> Claim:
    slopes, rises = {}, {}
    for name, key in LEARNERS.items():
        distance = data.trajectories[key]
        values, rounds = distance.values, distance[distance.dims[0]].values
        smooth = moving_average(values)
        chosen = np.unique(np.geomspace(50, rounds[-1], 60).astype(int)) - 1
        positive = np.maximum(smooth[chosen], 1e-300)
        slopes[name] = float(np.polyfit(np.log(rounds[chosen]), np.log(positive), 1)[0])
        rises[name] = float(np.mean(np.diff(values) > 0))
    return Claim(
        "C18",
        "The tracking error contracts over time and is repeatedly perturbed.",
        ", ".join(
            f"{n}: slope of the moving average {slopes[n]:.2f}, rises in {100 * rises[n]:.0f} % of "
            "rounds"
            for n in slopes
        ),
        bool(np.max(list(slopes.values())) < 0 and np.min(list(rises.values())) > 0.05),
        "one run of each; a falling moving average, and a raw distance that rises in at least one round "
        "in twenty",
    )


# What need not be judged by eye


def c19(data: Measured) -> Claim:
    share = data.credit["share_negative"]
    most = share.max(("drift", "b"))
    return Claim(
        "C19",
        "It is possible for the regret to decrease.",
        "largest share of rounds with negative regret: "
        + ", ".join(f"{n} {float(most.sel(learner=n)):.3f}" for n in share["learner"].values),
        bool(share.values.max() > 0),
        "single rounds; θ_t may be nearer to θ_t^PO than θ_t^PS is",
    )


def c20(data: Measured) -> Claim:
    gammas = {
        "credit": data.credit_bounds.attrs["contraction"],
        "quadratic": data.quadratic_bounds.attrs["contraction"],
    }
    return Claim(
        "C20",
        "The sensitivity condition ε < μ/((1−α_min)β_z) is satisfied.",
        "largest γ_t with rigorous constants: "
        + ", ".join(f"{name} {value:.4g}" for name, value in gammas.items()),
        bool(np.max(list(gammas.values())) < 1.0),
        "by constants of the expected risk under normal data; the smoothness printed in the "
        "appendix would not show it for the credit world",
    )


def c21(data: Measured) -> Claim:
    gap = float(data.credit["moves_match"])
    return Claim(
        "C21",
        "W1(D(θ), D(θ′)) = ‖A(θ − θ′)‖.",
        f"largest difference over random pairs of models {gap:.2g}",
        bool(gap < 1e-12),
        "equal covariances: the distance of the means, from below by Jensen and from above by moving "
        "every point alike",
    )


def c22(data: Measured) -> Claim:
    largest = float(data.quadratic["largest_coordinate"].values.max())
    gap = float(data.quadratic["closed_form_gap"])
    return Claim(
        "C22",
        "The stable point of the quadratic-Gaussian world is the solution of a linear system.",
        f"largest coordinate {largest:.3f} < 5; largest distance to the closed form {gap:.2g}",
        bool(largest < 5.0 and gap < 1e-10),
        "true as long as the box is not active, and it is not, in any round",
    )


def c23(data: Measured) -> Claim:
    worst = float(data.credit["contraction"].values.max())
    return Claim(
        "C23",
        "Lemma 3.1: RRM contracts towards θ_t^PS by γ_t in every round.",
        f"largest ‖θ_t+1 − θ_t^PS‖ over γ_t‖θ_t − θ_t^PS‖: {worst:.3f}",
        bool(worst <= 1.0 + 1e-9),
        "all rounds of the ten credit worlds",
    )


def _both(verdicts: Sequence[bool | None]) -> bool | None:
    if any(v is False for v in verdicts):
        return False
    return None if any(v is None for v in verdicts) else True


CLAIMS: dict[Callable[[Measured], Claim], tuple[str, ...]] = {
    c1: ("credit",),
    c2: ("credit",),
    c3: ("credit",),
    c4: ("credit",),
    c5: ("credit",),
    c6: ("credit",),
    c7: ("credit",),
    c8: ("credit",),
    c9: ("credit",),
    c10: ("credit",),
    c11: ("credit",),
    c12: ("credit_bounds", "quadratic_bounds"),
    c13: ("credit_bounds",),
    c14: ("credit_bounds",),
    c15: ("credit_bounds", "quadratic_bounds"),
    c16: ("quadratic",),
    c17: ("trajectories",),
    c18: ("trajectories",),
    c19: ("credit",),
    c20: ("credit_bounds", "quadratic_bounds"),
    c21: ("credit",),
    c22: ("quadratic",),
    c23: ("credit",),
}
"""Every claim, in the order of the paper, with the parts it is decided by."""


def judge(data: Measured) -> list[Claim]:
    """All claims whose parts were measured."""
    return [
        claim(data)
        for claim, parts in CLAIMS.items()
        if all(getattr(data, part) is not None for part in parts)
    ]
