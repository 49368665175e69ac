"""Logs whose truth is known: what a design, a size and a world could have told.

Rows come from D_t(θ) = (1−α) N(Aθ + m, Σ) + α N(m_t, Σ), section 2 of the paper, under models that are
retrained on the round just seen. `world` of a log is the `pp.World` they come from; for α = 0 the
drift m_t moves the responding part itself, so that the world still moves.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from performative import _checks
from performative.attribution.summary import BUCKETS, Summary

DESIGNS = ("single", "pair", "canary", "holdout", "dither", "switchback", "event", "segments")
WORLDS = ("none", "iid", "ball", "ar", "rw", "season", "trend", "momentum", "step")
KINDS = ("scalar", "quadratic", "credit")

ASSIGNED = {
    "pair": "units",
    "canary": "units",
    "holdout": "units",
    "dither": "coin-flip",
    "switchback": "coin-flip",
}
"""What a user would truthfully declare; "none" for the others."""

DEVIATION = 0.2
"""The stationary standard deviation of the world's path, a coordinate."""

STEP = 0.2
"""The length of perturbations."""


class Arm(NamedTuple):
    """One arm of one round."""

    name: str
    model: str
    theta: np.ndarray
    share: float
    group: int = 0


class Truth(NamedTuple):
    """What the log's estimates should find."""

    response: np.ndarray
    kappa: float
    share: float
    model: np.ndarray
    world: np.ndarray
    radius: float

    @property
    def cause(self) -> str:
        """The verdict on the cause, were everything known."""
        if not np.any(self.model) and not np.any(self.world):
            return "no drift"
        return "mostly the model" if self.share > 0.5 else "mostly the world"


@dataclasses.dataclass
class SimulatedLog:
    """A log, its summary and its truth. `rows` and `models` are tables by column, as in a file."""

    summary: Summary
    truth: Truth
    rows: dict[str, np.ndarray] | None
    models: dict[str, np.ndarray]
    world_parts: tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, float, str]

    @cached_property
    def world(self) -> Any:
        """The `pp.World` that the rows come from."""
        return _as_world(*self.world_parts)


def simulate_log(
    design: str = "pair",
    *,
    kappa: Any = 0.3,
    alpha: float = 0.3,
    world: str = "ar",
    kind: str = "scalar",
    rounds: int = 24,
    rows: int = 10_000,
    dim: int = 5,
    seed: int = 0,
    keep_rows: bool = False,
    units: int = 0,
    unit_share: float = 0.5,
    respond: Callable[[np.ndarray], np.ndarray] | None = None,
    carry: float = 0.0,
) -> SimulatedLog:
    """A deployment log of a world whose truth is known.

    Args:
        design: "pair" (θ ± 0.2u, u a random unit direction each round), "canary" (outgoing and new
            model, half each), "holdout" (10 % at θ = 0), "single" (one arm), "dither" (one arm, θ + 0.2u,
            logged), "switchback" (two models by coin flip), "event" (one arm, held six rounds) or
            "segments" (two segments with models of their own).
        kappa: A = κI for kind "scalar", or A itself as a matrix; the operator norm of a random A for
            "quadratic"; the credit applicants' strength a for "credit".
        alpha: the world's part of the mixture; at 0 the world moves the responding part.
        world: the path of m_t, of standard deviation 0.2: "none", "iid", "ball", "ar", "rw",
            "season", "trend", "momentum" or "step".
        kind: "scalar", "quadratic" or "credit" (17 signed features, logistic loss).
        rounds, rows: T, and rows a round.
        dim: d.
        seed: of everything.
        keep_rows: draw rows; otherwise moments are drawn from their own law, which is far quicker.
        units: if given, so many units are seen in every round, each always in the same arm, and
            `unit_share` of the variance is theirs.
        respond: instead of θ ↦ Aθ, any function of a model.
        carry: the part of the response that answers the arm's model of the round before.

    >>> log = simulate_log("holdout", kappa=0.3, alpha=0.0, rounds=4, rows=1000)
    >>> log.truth.kappa, log.summary.data.sizes["cell"]
    (0.3, 8)
    """
    _checks.choice("design", design, DESIGNS)
    _checks.choice("world", world, WORLDS)
    _checks.choice("kind", kind, KINDS)
    rounds = _checks.integer("rounds", rounds, low=1)
    rows = _checks.integer("rows", rows, low=2)
    alpha = _checks.number("alpha", alpha, low=0.0, high=1.0, open_high=True)
    rng = np.random.default_rng(_checks.integer("seed", seed, low=0))
    matrix, base, spread = _response(kind, kappa, dim, rng)
    path = _path(world, rounds, len(base), rng)
    retrain = _logistic if kind == "credit" else None
    carry = _checks.number("carry", carry, low=0.0, high=1.0)
    play = _Play(matrix, base, spread, path, alpha, retrain, rng, respond, carry)
    play.run(design, rounds, rows, keep_rows or bool(units) or kind == "credit", units, unit_share)
    summary = play.summary(ASSIGNED.get(design, "none"), kind, bool(units))
    return SimulatedLog(
        summary,
        play.truth(),
        play.table() if keep_rows else None,
        play.model_table(),
        (matrix, base, spread, path, alpha, kind),
    )


def _response(
    kind: str, kappa: Any, dim: int, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """A, m and Σ."""
    if kind == "credit":
        from performative.worlds import credit_data

        mean, spread = credit_data.moments(0)
        strength = _checks.number("kappa", kappa, low=0.0)
        return strength * np.diag(credit_data.MODIFIABLE.astype(float)), mean, spread
    given = _checks.numbers("kappa", kappa, ndim=(0, 2))
    dim = given.shape[0] if given.ndim == 2 else _checks.integer("dim", dim, low=1)
    base, spread = rng.normal(size=dim) * 0.5 / np.sqrt(dim), 0.25 * np.eye(dim)
    if given.ndim == 2:
        return given, base, spread
    if kind == "scalar":
        return float(given) * np.eye(dim), base, spread
    matrix = rng.normal(size=(dim, dim))
    return float(given) * matrix / np.linalg.norm(matrix, 2), base, spread


def _path(name: str, rounds: int, dim: int, rng: np.random.Generator) -> np.ndarray:
    """m_t, (round, d), of standard deviation DEVIATION."""
    shape = (rounds, dim)
    time = np.arange(rounds)[:, None]
    if name == "none":
        return np.zeros(shape)
    if name == "iid":
        return DEVIATION * rng.normal(size=shape)
    if name == "ball":
        points = rng.normal(size=shape)
        points *= rng.uniform(size=(rounds, 1)) ** (1 / dim) / np.linalg.norm(
            points, axis=1, keepdims=True
        )
        return DEVIATION * np.sqrt(dim + 2) * points
    if name == "season":
        phase = rng.uniform(0, 2 * np.pi, size=dim)
        return DEVIATION * np.sqrt(2) * np.sin(2 * np.pi * time / 12 + phase)
    sign = rng.choice([-1.0, 1.0], size=dim)
    if name == "trend":
        return DEVIATION * np.sqrt(12) * sign * (time / max(rounds - 1, 1) - 0.5)
    if name == "step":
        return DEVIATION * sign * np.where(time >= rounds / 2, 1.0, -1.0)
    persistence = 0.9
    noise = rng.normal(size=shape) * np.sqrt(1 - persistence**2)
    if name == "rw":
        return DEVIATION * np.cumsum(noise, axis=0)
    walk = np.zeros(shape)
    walk[0] = rng.normal(size=dim)
    for t in range(1, rounds):
        walk[t] = persistence * walk[t - 1] + noise[t]
    if name == "ar":
        return DEVIATION * walk
    total = np.cumsum(walk, axis=0)
    scale = np.std(total, axis=0)
    return DEVIATION * (total - total.mean(axis=0)) / np.where(scale > 0, scale, 1.0)


def _logistic(rows: np.ndarray, start: np.ndarray, l2: float = 1.0) -> np.ndarray:
    """The regularised logistic fit on signed rows, by Newton's method."""
    theta = start.copy()
    for _ in range(30):
        s = 1.0 / (1.0 + np.exp(rows @ theta))
        gradient = l2 * theta - s @ rows / len(rows)
        weighted = rows * (s * (1 - s))[:, None]
        step = np.linalg.solve(weighted.T @ rows / len(rows) + l2 * np.eye(len(theta)), gradient)
        theta = theta - step
        if np.linalg.norm(step) < 1e-12:
            break
    return theta


class _Play:
    """A log being made, round by round."""

    def __init__(
        self,
        matrix: np.ndarray,
        base: np.ndarray,
        spread: np.ndarray,
        path: np.ndarray,
        alpha: float,
        retrain: Callable | None,
        rng: np.random.Generator,
        respond: Callable[[np.ndarray], np.ndarray] | None,
        carry: float,
    ):
        self.matrix, self.base, self.spread, self.path = matrix, base, spread, path
        self.alpha, self.retrain, self.rng = alpha, retrain, rng
        self.respond = respond or (lambda theta: matrix @ theta)
        self.root = np.linalg.cholesky(spread)
        self.models: dict[str, np.ndarray] = {}
        self.columns: dict[str, dict[str, str]] = {"role": {}, "perturbation_of": {}}
        self.cells: list[dict[str, Any]] = []
        self.carry, self.before = carry, {}

    # The rounds

    def run(
        self, design: str, rounds: int, rows: int, draw_rows: bool, units: int, unit_share: float
    ) -> None:
        dim = len(self.base)
        self.people = _People(units, unit_share, self.rng, self.root) if units else None
        current, previous = self.start(dim), None
        segments = [np.zeros(dim), np.zeros(dim)]
        flips = self.rng.integers(0, 2, size=rounds)
        ends = 0.5 * _unit(self.rng, dim)
        for t in range(rounds):
            arms = self._arms(design, t, current, previous, segments, flips, ends)
            seen = [self._deploy(t, arm, rows, draw_rows) for arm in arms]
            pooled = np.average(
                [cell["mean"] for cell in seen], axis=0, weights=[cell["count"] for cell in seen]
            )
            if design == "segments":
                segments = [
                    self._retrained([cell], cell["mean"], segments[k])
                    for k, cell in enumerate(seen)
                ]
            elif design == "event" and (t + 1) % 6:
                continue
            else:
                previous = current
                current = self._retrained(seen, pooled, current)

    def start(self, dim: int) -> np.ndarray:
        """The first model: trained before anything was deployed."""
        return np.zeros(dim) if self.retrain else self.base.copy()

    def _arms(
        self, design: str, t: int, current: np.ndarray, previous: np.ndarray | None,
        segments: list[np.ndarray], flips: np.ndarray, ends: np.ndarray,
    ) -> list[Arm]:  # fmt: skip
        name = f"v{t + 1}"
        step = STEP * _unit(self.rng, len(self.base))
        if design == "pair":
            sign = self.rng.choice([-1.0, 1.0])
            arms = [Arm("a", f"{name}a", current + sign * step, 0.5)]
            return [*arms, Arm("b", f"{name}b", current - sign * step, 0.5)]
        if design == "canary":
            if previous is None:
                return [Arm(name, name, current, 1.0)]
            old = f"v{t}"
            return [Arm(old, old, previous, 0.5), Arm(name, name, current, 0.5)]
        if design == "holdout":
            self.columns["role"]["v0"] = "holdout"
            return [
                Arm("deployed", name, current, 0.9),
                Arm("holdout", "v0", np.zeros(len(self.base)), 0.1),
            ]
        if design == "dither":
            self.models[name] = current
            self.columns["perturbation_of"][f"{name}u"] = name
            return [Arm("all", f"{name}u", current + step, 1.0)]
        if design == "switchback":
            model = "A" if flips[t] else "B"
            return [Arm("all", model, ends if flips[t] else -ends, 1.0)]
        if design == "segments":
            return [
                Arm(side, f"{name}{side}", segments[k], 0.5, group=k)
                for k, side in enumerate(("north", "south"))
            ]
        if design == "event":
            name = f"v{t // 6 + 1}"
        return [Arm("all", name, current, 1.0)]

    def _deploy(self, t: int, arm: Arm, rows: int, draw_rows: bool) -> dict[str, Any]:
        self.models[arm.model] = arm.theta
        count = round(rows * arm.share)
        met = arm.theta + self.carry * (self.before.get(arm.name, arm.theta) - arm.theta)
        self.before[arm.name] = arm.theta
        responds = self.base + self.respond(met)
        world = self.path[t] * (1.0 if arm.group == 0 else -1.0)
        means = (responds + world, world) if self.alpha == 0 else (responds, world)
        cell: dict[str, Any] = {
            "round": t,
            "arm": arm.name,
            "model": arm.model,
            "theta": arm.theta,
            "met": met,
        }
        cell["truth"] = (1 - self.alpha) * means[0] + self.alpha * means[1]
        between = self.alpha * (1 - self.alpha) * (means[0] - means[1]) ** 2
        cell["variance"] = np.diag(self.spread) + between
        if draw_rows:
            unit, drawn = None, None
            if self.people:
                unit, drawn = self.people.rows(arm)
                count = len(unit)
            drawn = (
                self.rng.normal(size=(count, len(self.base))) @ self.root.T
                if drawn is None
                else drawn
            )
            responding = self.rng.uniform(size=count) >= self.alpha
            cell["rows"] = drawn + np.where(responding[:, None], means[0], means[1])
            cell["unit"] = unit
            cell["mean"] = cell["rows"].mean(axis=0)
            cell["covariance"] = np.atleast_2d(np.cov(cell["rows"].T))
        else:
            cell["mean"], cell["covariance"] = self._moments(count, *means)
        cell["count"] = float(count)
        self.cells.append(cell)
        return cell

    def _moments(
        self, count: int, first: np.ndarray, second: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Mean and covariance of `count` rows of the mixture, drawn from their joint law."""
        few = int(self.rng.binomial(count, self.alpha))
        sizes = [(n, mean) for n, mean in ((count - few, first), (few, second)) if n > 0]
        means = [
            mean + self.root @ self.rng.normal(size=len(mean)) / np.sqrt(n) for n, mean in sizes
        ]
        total = np.average(means, axis=0, weights=[n for n, _ in sizes])
        scatter = _wishart(self.rng, self.root, count - len(sizes))
        for (n, _), mean in zip(sizes, means, strict=True):
            scatter = scatter + n * np.outer(mean - total, mean - total)
        return total, scatter / (count - 1)

    def _retrained(
        self, seen: list[dict[str, Any]], pooled: np.ndarray, start: np.ndarray
    ) -> np.ndarray:
        if self.retrain is None:
            return pooled
        return self.retrain(np.concatenate([cell["rows"] for cell in seen]), start)

    # What it leaves

    def truth(self) -> Truth:
        """Shares from the populations' means, at the models that were deployed."""
        rounds = np.array([cell["round"] for cell in self.cells])
        count = np.array([cell["count"] for cell in self.cells])
        moved = (1 - self.alpha) * np.array([self.respond(cell["met"]) for cell in self.cells])
        means = np.array([cell["truth"] for cell in self.cells])
        paths = []
        for values in (moved, means):
            sums = np.zeros((rounds[-1] + 1, values.shape[1]))
            np.add.at(sums, rounds, count[:, None] * values)
            path = sums / np.bincount(rounds, count)[:, None]
            paths.append(path - path[0])
        model, total = paths
        variances = np.array([cell["variance"] for cell in self.cells])
        weight = 1.0 / np.average(variances, axis=0, weights=count)
        size = float(np.sum(weight * total**2))
        response = (1 - self.alpha) * self.matrix
        dim = len(self.base)
        return Truth(
            response,
            float(response[0, 0])
            if np.allclose(response, response[0, 0] * np.eye(dim))
            else np.nan,
            float(np.sum(weight * model * total)) / size if size else np.nan,
            model,
            total - model,
            float(np.abs(np.linalg.eigvals(response)).max()),
        )

    def table(self) -> dict[str, np.ndarray]:
        """The rows by column, shuffled."""
        sizes = [len(cell["rows"]) for cell in self.cells]
        order = self.rng.permutation(sum(sizes))
        columns = {
            "round": np.repeat([cell["round"] + 1 for cell in self.cells], sizes),
            "model": np.repeat([cell["model"] for cell in self.cells], sizes),
            "arm": np.repeat([cell["arm"] for cell in self.cells], sizes),
        }
        if self.people:
            columns["unit"] = np.concatenate([cell["unit"] for cell in self.cells])
        rows = np.concatenate([cell["rows"] for cell in self.cells])
        columns |= {f"x{k + 1}": rows[:, k] for k in range(rows.shape[1])}
        return {name: values[order] for name, values in columns.items()}

    def model_table(self) -> dict[str, np.ndarray]:
        """The models by column."""
        names = list(self.models)
        weights = np.array([self.models[name] for name in names])
        table = {"model": np.array(names)}
        table |= {f"x{k + 1}": weights[:, k] for k in range(weights.shape[1])}
        for column, told in self.columns.items():
            if told:
                table[column] = np.array([told.get(name, "") for name in names])
        return table

    def summary(self, assignment: str, kind: str, clustered: bool) -> Summary:
        """The log's moments."""
        variables: dict[str, tuple[tuple[str, ...], np.ndarray]] = {}
        declared: dict[str, Any] = {"assignment": assignment}
        if kind == "credit":
            declared |= {"loss": "logistic", "l2": 1.0, "signed": True}
            variables |= self._gradients()
        if clustered:
            variables |= self._buckets()
            declared["units"] = self.people.units if self.people else 0
        return Summary.from_moments(
            round=[cell["round"] for cell in self.cells],
            deployed=[cell["model"] for cell in self.cells],
            arm=[cell["arm"] for cell in self.cells],
            count=np.array([cell["count"] for cell in self.cells]),
            mean=np.array([cell["mean"] for cell in self.cells]),
            covariance=np.array([cell["covariance"] for cell in self.cells]),
            theta=self.models,
            models=self.columns,
            variables=variables,
            **declared,
        )

    def _buckets(self) -> dict[str, tuple[tuple[str, ...], np.ndarray]]:
        counts, sums = [], []
        for cell in self.cells:
            bucket = cell["unit"] % BUCKETS
            total = np.zeros((BUCKETS, len(self.base)))
            np.add.at(total, bucket, cell["rows"] - cell["mean"])
            counts.append(np.bincount(bucket, minlength=BUCKETS))
            sums.append(total)
        return {
            "bucket_count": (("cell", "bucket"), np.array(counts, dtype=float)),
            "bucket_sum": (("cell", "bucket", "feature"), np.array(sums)),
        }

    def _gradients(self) -> dict[str, tuple[tuple[str, ...], np.ndarray]]:
        """Moments of the signed logistic gradient at the mean deployed model."""
        reference = np.mean([cell["theta"] for cell in self.cells], axis=0)
        means, spreads, hessians = [], [], []
        for cell in self.cells:
            rows = cell["rows"]
            s = 1.0 / (1.0 + np.exp(rows @ reference))
            gradients = reference - s[:, None] * rows
            means.append(gradients.mean(axis=0))
            spreads.append(np.cov(gradients.T))
            weighted = rows * (s * (1 - s))[:, None]
            hessians.append(weighted.T @ rows / len(rows) + np.eye(len(reference)))
        return {
            "gradient": (("cell", "parameter"), np.array(means)),
            "gradient_covariance": (("cell", "parameter", "parameter2"), np.array(spreads)),
            "hessian": (("cell", "parameter", "parameter2"), np.array(hessians)),
            "reference": (("parameter",), reference),
        }


class _People:
    """Units that come back every round, always to the same arm."""

    def __init__(self, units: int, share: float, rng: np.random.Generator, root: np.ndarray):
        self.units, self.rng, self.root, self.share = units, rng, root, share
        self.own = np.sqrt(share) * rng.normal(size=(units, len(root))) @ root.T
        self.place = rng.uniform(size=units)

    def rows(self, arm: Arm) -> tuple[np.ndarray, np.ndarray]:
        """The arm's units, and their deviations from the population's mean."""
        low = 0.0 if arm.name in ("a", "deployed", "all", "north") else 1.0 - arm.share
        who = np.flatnonzero((self.place >= low) & (self.place < low + arm.share))
        fresh = self.rng.normal(size=(who.size, len(self.root))) @ self.root.T
        return who, self.own[who] + np.sqrt(1 - self.share) * fresh


def _unit(rng: np.random.Generator, dim: int) -> np.ndarray:
    direction = rng.normal(size=dim)
    return direction / np.linalg.norm(direction)


def _wishart(rng: np.random.Generator, root: np.ndarray, freedom: int) -> np.ndarray:
    """The scatter of `freedom` rows, by Bartlett's decomposition."""
    dim = len(root)
    if freedom < dim:
        drawn = root @ rng.normal(size=(dim, max(freedom, 0)))
        return drawn @ drawn.T
    lower = np.tril(rng.normal(size=(dim, dim)), -1)
    lower[np.diag_indices(dim)] = np.sqrt(rng.chisquare(freedom - np.arange(dim)))
    drawn = root @ lower
    return drawn @ drawn.T


def _as_world(
    matrix: np.ndarray,
    base: np.ndarray,
    spread: np.ndarray,
    path: np.ndarray,
    alpha: float,
    kind: str,
) -> Any:
    import performative as pp

    loss = pp.losses.logistic(l2=1.0) if kind == "credit" else pp.losses.squared()
    domain = pp.domains.ball(radius=1e3)
    if alpha == 0:
        from performative.attribution.laboratory import moving_location

        return moving_location(matrix, base + path, spread, loss, domain)
    return pp.World(
        response=pp.responses.location(matrix, pp.Gaussian(base, spread)),
        drift=pp.drifts.recorded(pp.Gaussian(path, spread)),
        mixing=pp.mixing.constant(alpha),
        loss=loss,
        domain=domain,
        rounds=len(path),
    )
