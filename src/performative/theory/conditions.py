"""`conditions`: the constants of a world, how far each is proved, and which theorems they satisfy.

Sections 2 to 5 of the paper. Conditions are tested in the form that the proofs use, on expectations;
where only the form for single rows fails (Remark 2.1), that is said.
"""

from __future__ import annotations

import functools
import html
import math
import re
import textwrap
import unicodedata
from typing import NamedTuple

import numpy as np
import xarray as xr

from performative import _checks
from performative.learners.steps import Decreasing, decreasing
from performative.targets.stable import stable_points
from performative.theory.pointwise import Pointwise, pointwise
from performative.theory.surrogates import surrogates
from performative.world.constants import Constant, Constants, least_trusted
from performative.world.losses import Margin, Squared, logistic_link
from performative.world.responses import Lagged, Location
from performative.world.world import World

WIDTH = 80
SYMBOLS = {
    "sensitivity": ("ε", "sensitivity of D(θ)"),
    "strong_convexity": ("μ", "strong convexity in θ"),
    "smoothness": ("β_θ", "smoothness in θ"),
    "data_smoothness": ("β_z", "smoothness in the data"),
    "lipschitz": ("L", "slope of PR_t"),
    "lipschitz_judged": ("L_θ", "slope in the model judged"),
    "lipschitz_data": ("L_z", "slope in the data"),
    "noise": ("σ²", "variance of one gradient"),
    "noise_growth": ("C_V", "growth off the minimum"),
    "loss_scale": ("F", "root mean square loss"),
    "risk_convexity": ("μ′", "strong convexity of PR_t"),
    "risk_smoothness": ("β_PR", "smoothness of PR_t"),
    "alpha_min": ("α_min", "least exogenous part"),
    "diameter": ("D", "diameter of Θ"),
    "inradius": ("r", "largest ball about 0 in Θ"),
}
"""The paper's symbol for every constant, and what it is."""


class Theorem(NamedTuple):
    """Whether a theorem applies; None where a constant that decides is not known."""

    name: str
    says: str
    holds: bool | None
    why: str
    kind: str


class Conditions:
    """The constants of a world and the theorems that apply; prints as two tables.

    Attributes:
        constants: all of them, as `Constant`s (value, kind, why); also by the paper's names, as
            attributes (`epsilon`, `mu`, `beta_theta`, `beta_z`, `L`, `sigma2`, `C_V`, `F`, `D`, `r`).
        theorems: which apply, with the figures, as `Theorem`s.
    """

    def __init__(self, world: World, constants: Constants):
        self.world, self.constants = world, constants

    def __getitem__(self, name: str) -> Constant:
        return getattr(self.constants, _checks.choice("name", name, SYMBOLS))

    epsilon = property(lambda self: self.constants.sensitivity)
    mu = property(lambda self: self.constants.strong_convexity)
    beta_theta = property(lambda self: self.constants.smoothness)
    beta_z = property(lambda self: self.constants.data_smoothness)
    L = property(lambda self: self.constants.lipschitz)
    sigma2 = property(lambda self: self.constants.noise)
    C_V = property(lambda self: self.constants.noise_growth)
    F = property(lambda self: self.constants.loss_scale)
    mu_prime = property(lambda self: self.constants.risk_convexity)
    D = property(lambda self: self.constants.diameter)
    r = property(lambda self: self.constants.inradius)

    @functools.cached_property
    def gamma(self) -> Constant:
        """γ = (1−α_min) ε β_z / μ, the contraction of Theorem 3.2."""
        used = [self.mu, self.constants.response_strength]
        value = float(self.constants.contraction.max())
        return Constant(value, least_trusted(used), "(1−α_min) ε β_z / μ")

    @functools.cached_property
    def gamma_bar(self) -> Constant:
        """γ̄ of Theorem 4.1, at its own steps."""
        x, mu = float(self.constants.coupling.max()), self.mu.value
        factor = 1 - (mu - x) ** 2 / (4 * (self.beta_theta.value**2 + x**2)) if x < mu else np.inf
        kind = least_trusted([self.gamma, self.beta_theta])
        return Constant(float(factor), kind, "1 − (μ−x)²/4(β_θ²+x²), x = (1−α_min) ε β_z")

    @functools.cached_property
    def rounds(self) -> xr.Dataset:
        """What changes from round to round: α_t, γ_t, L_t of Lemma A.5, and μ′ of PR_t."""
        values = {
            "alpha": self.world.alphas,
            "contraction": self.constants.contraction,
            "lipschitz": self.constants.lipschitz_rounds,
            "risk_convexity": self.constants.risk_convexities,
        }
        coords = {"round": np.arange(1, self.world.rounds + 1)}
        return xr.Dataset({k: ("round", v) for k, v in values.items()}, coords)

    @functools.cached_property
    def local_contraction(self) -> xr.DataArray:
        """‖H⁻¹J‖ at every stable point: how retraining contracts near it, computed."""
        points = stable_points(self.world, progress=False)
        rounds, models = points["round"].values, points.values
        curvature = self.world.hessian(rounds, models, models)
        named = ("theta", models), ("deployed", models)
        follows = self.world._evaluate("gradient_response", rounds, *named)
        norms = np.linalg.norm(np.linalg.solve(curvature, follows), 2, axis=(-2, -1))
        return xr.DataArray(norms, dims="round", coords={"round": rounds}, name="local_contraction")

    @functools.cached_property
    def pointwise(self) -> Pointwise:
        """The least and the largest curvature of the loss of single rows, where they were looked at."""
        return pointwise(self.world)

    @functools.cached_property
    def table(self) -> dict[str, Constant]:
        """Every constant by name."""
        found = {name: getattr(self.constants, name) for name in SYMBOLS}
        return {**found, "contraction": self.gamma, "descent_contraction": self.gamma_bar}

    @functools.cached_property
    def theorems(self) -> tuple[Theorem, ...]:
        """Whether each theorem applies, with its figures."""
        return _theorems(self)

    def theorem(self, name: str) -> Theorem:
        """The one with this name, such as "Theorem 3.2"."""
        names = [theorem.name for theorem in self.theorems]
        return self.theorems[names.index(_checks.choice("name", name, names))]

    @functools.cached_property
    def remark(self) -> str:
        """What holds in expectation but not for every row (Remark 2.1); empty if nothing."""
        least, largest = self.pointwise
        parts = []
        if self.mu.value > 0 and least < self.mu.value - 1e-6 * (1 + abs(self.mu.value)):
            parts.append(f"strong convexity (a row has curvature {least:.4g}, below μ)")
        beyond = self.beta_theta.value * (1 + 1e-6)
        if self.beta_theta.value < np.inf and largest > beyond:
            parts.append(f"smoothness (a row has curvature {largest:.4g}, above β_θ)")
        if not parts:
            return ""
        return "only the expected risk, not the loss of every row, has " + " and ".join(parts)

    def __repr__(self) -> str:
        lines = [*textwrap.wrap(self.world.description, WIDTH, subsequent_indent="  "), ""]
        lines += _text(("", "constant", "value", "kind", "why"), self._constant_rows())
        lines += ["", *_text(("theorem", "holds", "because"), self._theorem_rows())]
        if self.remark:
            lines += ["", *textwrap.wrap(f"Remark 2.1: {self.remark}.", WIDTH)]
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        parts = [
            f"<p><code>{html.escape(self.world.description)}</code></p>",
            _html(("", "constant", "value", "kind", "why"), self._constant_rows()),
            _html(("theorem", "holds", "because"), self._theorem_rows()),
        ]
        if self.remark:
            parts.append(f"<p>Remark 2.1: {html.escape(self.remark)}.</p>")
        return "\n".join(parts)

    def _constant_rows(self) -> list[tuple[str, ...]]:
        known = {**SYMBOLS, "contraction": ("γ", "contraction of RRM")}
        known["descent_contraction"] = ("γ̄", "contraction of RGD")
        rows = [(*known[name], constant) for name, constant in self.table.items()]
        return [(s, words, f"{c.value:.4g}", c.kind, c.why) for s, words, c in rows]

    def _theorem_rows(self) -> list[tuple[str, ...]]:
        words = {True: "yes", False: "no", None: "not known"}
        rows = []
        for found in self.theorems:
            trust = "" if found.kind == "rigorous" else f", {found.kind}"
            because = f"{found.says}: {found.why}"
            rows.append((found.name, words[found.holds] + trust, because))
        return rows


def conditions(
    world: World, surrogate: float | None = None, *, printed: bool = False
) -> Conditions:
    r"""Every constant of the paper's assumptions, and whether each theorem's condition holds.

    Args:
        world: any world.
        surrogate: instead of population-level constants, the paper's high-probability ones for rows
            with $\|z\|$ up to this (`pp.theory.surrogates`).
        printed: with a surrogate, the smoothness constants as the paper's appendix prints them.

    >>> import performative as pp
    >>> found = pp.theory.conditions(pp.worlds.credit(b=1.0, rounds=100))
    >>> round(found.epsilon.value, 3), found.beta_z.kind, found.theorem("Theorem 3.2").holds
    (0.1, 'rigorous', True)
    """
    _checks.instance("world", world, World, "a pp.World")
    if surrogate is None:
        if printed:
            raise ValueError("printed must go with surrogate=; got printed=True alone.")
        return Conditions(world, Constants(world))
    surrogate = _checks.number("surrogate", surrogate, low=0.0, open_low=True)
    return Conditions(world, surrogates(world, surrogate, printed=printed))


def _theorems(found: Conditions) -> tuple[Theorem, ...]:
    strict = _contracts(found)
    return tuple(
        _for_lagged(found, theorem)
        for theorem in (
            _lemma_contraction(found),
            _needing(found, strict, "Theorem 3.2", "regret of RRM", ["lipschitz"]),
            strict._replace(name="Proposition 3.4", says="movement of stable points"),
            _needing(found, strict, "Theorem 4.1", "regret of RGD", ["smoothness", "lipschitz"]),
            _greedy(found, strict),
            _lazy(found, strict),
            _proposition_convexity(found),
            _two_point(found),
            _one_point(found),
        )
    )


def _for_lagged(found: Conditions, theorem: Theorem) -> Theorem:
    if not isinstance(found.world.response, Lagged) or theorem.name == "Proposition 5.1":
        return theorem
    return theorem._replace(holds=False, why="the population lags; the theorem's responds at once")


def _contracts(found: Conditions) -> Theorem:
    gamma = found.gamma
    figures = (
        f"ε = {found.epsilon.value:.4g}, β_z = {found.beta_z.value:.4g}, "
        f"μ = {found.mu.value:.4g}, α_min = {found.constants.alpha_min.value:.4g}"
    )
    if found.mu.value <= 0:
        holds, why = False, f"μ must be above 0; it is {found.mu.value:.4g}"
        holds = holds if found.mu.kind == "rigorous" or found.mu.value < 0 else None
    elif gamma.value == np.inf:
        unknown = next(c for c in (found.epsilon, found.beta_z) if c.value == np.inf)
        holds, why = None, unknown.why
    else:
        holds = bool(gamma.value < 1)
        why = f"γ = {gamma.value:.4g} {'<' if holds else '≥'} 1: {figures}"
    return Theorem("", "", holds, why, gamma.kind)


def _lemma_contraction(found: Conditions) -> Theorem:
    gamma, needs = found.gamma, "ε-sensitive, μ-strongly convex, β_z-smooth"
    holds = bool(found.mu.value > 0 and gamma.value < np.inf)
    why = f"γ_t ≤ {gamma.value:.4g}" if holds else f"not known to be {needs}"
    return Theorem("Lemma 3.1", "one step of RRM", holds or None, why, gamma.kind)


def _needing(found: Conditions, base: Theorem, name: str, says: str, needed: list[str]) -> Theorem:
    """A theorem that needs some constants to exist, besides γ < 1."""
    constants = [found[constant] for constant in needed]
    kind = least_trusted([Constant(0.0, base.kind, ""), *constants])
    missing = [(n, c) for n, c in zip(needed, constants, strict=True) if not np.isfinite(c.value)]
    if base.holds and missing:
        symbol, constant = SYMBOLS[missing[0][0]][0], missing[0][1]
        return Theorem(name, says, None, f"{symbol} is {constant.why}", kind)
    values = ", ".join(
        f"{SYMBOLS[n][0]} = {c.value:.4g}" for n, c in zip(needed, constants, strict=True)
    )
    why = f"{base.why}; {values}" if base.holds else base.why
    return Theorem(name, says, base.holds, why, kind)


def _greedy(found: Conditions, strict: Theorem) -> Theorem:
    needed = ["lipschitz", "noise", "noise_growth"]
    theorem = _needing(found, strict, "Proposition 4.2", "regret of greedy SGD", needed)
    if not theorem.holds:
        return theorem
    steps = _schedule(found, float(found.constants.coupling.max()))
    return theorem._replace(why=f"{theorem.why}; A = {steps.a:.4g}, t0 = {steps.t0}")


def _lazy(found: Conditions, strict: Theorem) -> Theorem:
    needed = ["lipschitz", "noise", "noise_growth"]
    theorem = _needing(found, strict, "Proposition 4.4", "regret of lazy SGD", needed)
    if not theorem.holds:
        return theorem
    t0 = _schedule(found, 0.0).t0
    least = math.floor(4 * (1 + t0) / (1 - found.gamma.value) ** 2) + 1
    return theorem._replace(why=f"{theorem.why}; t0 = {t0}, and n0 must be at least {least}")


def _schedule(found: Conditions, coupled: float) -> Decreasing:
    return decreasing(found.mu.value, coupled, found.C_V.value)


def _proposition_convexity(found: Conditions) -> Theorem:
    name, says = "Proposition 5.1", "convexity of PR_t"
    response, loss = found.world.response, found.world.loss
    response = response.response if isinstance(response, Lagged) else response
    convex = isinstance(loss, Squared) or (isinstance(loss, Margin) and loss.link is logistic_link)
    if (
        found.world.map is not None
        or not isinstance(response, (Location, type(None)))
        or not convex
    ):
        why = "mixture dominance is known for data that only move and losses convex in them"
        return Theorem(name, says, None, why, "rigorous")
    modulus = found.mu.value - 2 * float(found.constants.coupling.max())
    if not np.isfinite(modulus):
        return Theorem(name, says, None, f"β_z is {found.beta_z.why}", "surrogate")
    verdict = "strongly convex" if modulus > 0 else "weakly convex" if modulus < 0 else "convex"
    why = f"μ − 2(1−α_min) ε β_z = {modulus:.4g}: {verdict}"
    if found.mu_prime.value > modulus + 1e-12:
        why += f"; its curvature is at least {found.mu_prime.value:.4g}"
    return Theorem(
        name, says, True, why, least_trusted([found.mu, found.constants.response_strength])
    )


def _two_point(found: Conditions) -> Theorem:
    d, rounds = found.world.parameters, found.world.rounds
    theorem = _zeroth(found, "Theorem 5.2", "regret of ZGD2", ["lipschitz"])
    if not theorem.holds:
        return theorem
    if found.mu_prime.value > 0:
        delta = d**2 * found.L.value / (6 * found.mu_prime.value * rounds)
    else:
        delta = d * found.D.value / (6 * math.sqrt(rounds))
    return _with_room(found, theorem, delta)


def _one_point(found: Conditions) -> Theorem:
    d, rounds = found.world.parameters, found.world.rounds
    theorem = _zeroth(found, "Theorem 5.3", "regret of ZGD", ["lipschitz", "loss_scale"])
    if not theorem.holds:
        return theorem
    scale, unit = found.F.value, 3 * found.L.value + 2 * found.F.value / found.r.value
    if found.mu_prime.value > 0:
        spread = (d * scale) ** 2 * (1 + math.log(rounds)) / (2 * found.mu_prime.value)
        delta = (spread / (unit * rounds)) ** (1 / 3)
    else:
        delta = math.sqrt(d * found.D.value * scale / (unit * math.sqrt(rounds)))
    return _with_room(found, theorem, delta)


def _zeroth(found: Conditions, name: str, says: str, needed: list[str]) -> Theorem:
    convexity, kind = found.mu_prime, least_trusted([found.mu_prime])
    if convexity.value < 0:
        why = f"PR_t is not known to be convex: μ′ ≥ {convexity.value:.4g}"
        return Theorem(name, says, None, why, kind)
    if not found.r.value > 0:
        return Theorem(name, says, False, "Θ must hold a ball about 0; r = 0", kind)
    if not np.isfinite(found.D.value):
        return Theorem(name, says, False, "Θ must be bounded", kind)
    words = "strongly convex" if convexity.value > 0 else "convex"
    base = Theorem("", "", True, f"PR_t is {words}, μ′ = {convexity.value:.4g}", kind)
    return _needing(found, base, name, says, needed)


def _with_room(found: Conditions, theorem: Theorem, delta: float) -> Theorem:
    """ρ = δ/r must not be above one: T must be large enough."""
    shrink = delta / found.r.value
    figures = f"δ = {delta:.4g}, ρ = δ/r = {shrink:.4g}"
    if shrink <= 1:
        return theorem._replace(why=f"{theorem.why}; {figures}")
    return theorem._replace(
        holds=False, why=f"T = {found.world.rounds} is too short: {figures} > 1"
    )


def _text(heads: tuple[str, ...], rows: list[tuple[str, ...]]) -> list[str]:
    """A table whose last column is wrapped, so that it fits the width of a terminal."""
    table = [heads, *rows]
    widths = [max(_columns(row[i]) for row in table) + 2 for i in range(len(heads) - 1)]
    before, lines = sum(widths), []
    for row in table:
        cells = [
            cell + " " * (width - _columns(cell)) for cell, width in zip(row, widths, strict=False)
        ]
        # What is to the left and to the right of a sign stays together.
        joined = re.sub(" ([=<≥]) ", "\u00a0\\1\u00a0", row[-1])
        first, *more = textwrap.wrap(joined, max(WIDTH - before, 24)) or [""]
        lines += ["".join(cells) + first, *(" " * before + line for line in more)]
    return [line.replace("\u00a0", " ").rstrip() for line in lines]


def _columns(cell: str) -> int:
    """How wide it is printed: the bar of γ̄ takes no room."""
    return sum(not unicodedata.combining(letter) for letter in cell)


def _html(heads: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    head = "".join(f"<th>{html.escape(cell)}</th>" for cell in heads)
    body = "".join(
        "<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in row) + "</tr>" for row in rows
    )
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
