r"""Constants that can be proved: from the moments of the data, over the whole domain and all rounds.

Section 2 of the paper states its assumptions for every row; its proofs use them on expectations alone
(Remark 2.1). In that form they hold for normal data too, on which no pointwise form does: β_z, say,
bounds how far E ∇ℓ moves when all data move by a vector. One class a loss, for data that only move
with the model; everything else is left to `measured.py`.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from performative.world.distributions import Distribution, Empirical, Gaussian, Mixture
from performative.world.domains import Ball, Box
from performative.world.losses import Margin, Squared, logistic_link
from performative.world.responses import Lagged, Location

Array = Any


class Part(NamedTuple):
    """Largest moments of D(θ), or of P_t, over the domain and the rounds; x is what the loss weighs."""

    mean: float  # ‖E x‖
    spread: float  # λ_max(Cov x)
    second: float  # λ_max(E x xᵀ)
    square: float  # E‖x‖²
    fourth: float  # (E‖x‖⁴)^(1/4)
    label: float  # (E y⁴)^(1/4)
    label_mean: float  # |E y|
    normal: bool
    responds: bool = False

    def moved(self, reach: float, label: float) -> Part:
        """The same for data that respond: features can move by `reach`, labels by `label`."""
        mean = self.mean + reach
        return self._replace(
            mean=mean,
            second=min((np.sqrt(self.second) + reach) ** 2, self.spread + mean**2),
            square=self.square + _times(2 * self.mean, reach) + reach**2,
            fourth=self.fourth + reach,
            label=self.label + label,
            label_mean=self.label_mean + label,
            responds=True,
        )


def bounds_of(world: Any) -> Bounds | None:
    """The bounds for this loss and response; None where nothing is proved."""
    loss, response = world.loss, _settled(world.response)
    if world.map is not None or not isinstance(response, (Location, type(None))):
        return None
    if not all(_has_moments(data) for data in _sources(world)):
        return None
    if isinstance(loss, Squared):
        return LabelledSquared(world) if loss.labelled else SignedSquared(world)
    if isinstance(loss, Margin) and loss.link is logistic_link:
        moves_labels = loss.labelled and response is not None and np.any(response.matrix[-1])
        return None if moves_labels else Logistic(world)
    return None


def _settled(response: Any) -> Any:
    """What a lagged population moves towards; its targets and constants are those."""
    return response.response if isinstance(response, Lagged) else response


def _sources(world: Any) -> list[Distribution]:
    """The base of the response and the drift, as far as some round holds any of it."""
    response, exogenous = _settled(world.response), world.at(slice(None)).exogenous
    used = []
    if response is not None and np.any(world.alphas < 1):
        used.append(response.base)
    if exogenous is not None and np.any(world.alphas > 0):
        used.append(exogenous)
    return used


def _has_moments(data: Distribution) -> bool:
    if isinstance(data, Mixture):
        return all(_has_moments(part) for part in data.components)
    return isinstance(data, (Gaussian, Empirical))


class Bounds:
    """What the three losses share: the domain's radius and the moments of what responds and drifts."""

    def __init__(self, world: Any):
        self.world, self.loss = world, world.loss
        self.radius = world.domain.radius
        self.l2 = float(world.loss.l2)
        response = _settled(world.response)
        self.matrix: Any = None if response is None else response.matrix
        features, labels = self._split(self.matrix)
        self.label_strength = _norm(labels)
        self.strength = _norm(features)
        self.parts: list[Part] = []
        reach = _times(self.strength, self.radius), _times(self.label_strength, self.radius)
        for data in _sources(world):
            parts = [_part(self.loss, leaf) for leaf in _leaves(data)]
            self.parts += [part.moved(*reach) for part in parts] if self.responds(data) else parts

    def responds(self, data: Distribution) -> bool:
        """Whether these are the data that the model moves."""
        response = _settled(self.world.response)
        return response is not None and data is response.base

    def _split(self, matrix: Array | None) -> tuple[Array | None, Array | None]:
        if matrix is None or not self.loss.labelled:
            return matrix, None
        return matrix[:-1], matrix[-1:]

    def largest(self, moment: str, responding: bool = False) -> float:
        """The largest of a moment over all parts: it bounds that of every mixture of them."""
        parts = [part for part in self.parts if part.responds or not responding]
        return max((getattr(part, moment) for part in parts), default=0.0)

    def smoothness(self) -> float:
        """β_θ."""
        raise NotImplementedError

    def data_smoothness(self, responding: bool = False) -> float:
        """β_z, for all data or only for those that respond."""
        raise NotImplementedError

    def data_smoothness_at(self, size: float, label: float = 0.0) -> float:
        """β_z of a row no longer than `size`; of root mean squares, for movements in mean square."""
        raise NotImplementedError

    def lipschitz(self) -> float:
        """L."""
        raise NotImplementedError

    def lipschitz_judged(self) -> float:
        """L_θ of Lemma A.5: how fast DPR_t(·, θ′) changes."""
        raise NotImplementedError

    def lipschitz_data(self) -> float:
        """L_z of Lemma A.5: how fast E ℓ changes as the data move."""
        raise NotImplementedError

    def noise(self) -> tuple[float, float]:
        """σ² and C_V."""
        raise NotImplementedError

    def loss_scale(self) -> float:
        """sup √(E ℓ²)."""
        raise NotImplementedError

    def curvature_in_data(self) -> float:
        """How far the gradient of the loss in the data moves as the data move, in the mean."""
        raise NotImplementedError

    def risk_smoothness(self) -> float:
        """‖∇²PR_t‖: ∇² of the loss, twice the mixed derivative, and the curvature in the data."""
        moving = float(np.hypot(self.strength, self.label_strength))
        mixed = 2 * _times(moving, self.data_smoothness())
        return self.smoothness() + mixed + _times(moving**2, self.curvature_in_data())


class SignedSquared(Bounds):
    """½‖z − θ‖² + λ/2 ‖θ‖²: everything follows from the means."""

    def __init__(self, world: Any):
        super().__init__(world)
        size = world.parameters
        matrix = np.zeros((size, size)) if self.matrix is None else self.matrix
        self.stays = np.eye(size) - matrix  # K = I − A

    def smoothness(self) -> float:
        return 1.0 + self.l2

    def data_smoothness(self, responding: bool = False) -> float:
        return 1.0

    def data_smoothness_at(self, size: float, label: float = 0.0) -> float:
        return 1.0

    def lipschitz(self) -> float:
        # ∇PR_t = (1−α) Kᵀ(Kθ − m) + α (θ − m_t) + λθ.
        slopes = [0.0]
        for data in _sources(self.world):
            mean = _largest_norm(data)
            if self.responds(data):
                norm = _norm(self.stays)
                slopes.append(_times(norm, _times(norm, self.radius) + mean))
            else:
                slopes.append(self.radius + mean)
        return max(slopes) + _times(self.l2, self.radius)

    def lipschitz_judged(self) -> float:
        return max(self._distances()) + _times(self.l2, self.radius)

    def lipschitz_data(self) -> float:
        return max(self._distances())

    def _distances(self) -> list[float]:
        """How far a model can be from the mean of each part, the model's own movement included."""
        return [self.radius + part.mean for part in self.parts]

    def noise(self) -> tuple[float, float]:
        # E‖∇ℓ‖² = ‖(1+λ)θ − E z‖² + tr Cov z, and the variance of a mixture has a part between its
        # two means. The first is (1+λ)²‖θ − θ*‖² where θ* = E z/(1+λ) lies in the domain.
        within = max(part.square - part.mean**2 for part in self._unmoved())
        beyond = (1 + self.l2) * self._outside()
        constrained = beyond**2 + _times(2 * (1 + self.l2) * beyond, self.world.domain.diameter)
        return within + self._between() + constrained, 1.0 + self.l2

    def _unmoved(self) -> list[Part]:
        """The parts before anyone moves: their covariances are those of the moved ones."""
        found = []
        for data in _sources(self.world):
            found += [_part(self.loss, leaf, by_trace=True) for leaf in _leaves(data)]
        return found

    def _between(self) -> float:
        """The largest variance of the means that are mixed in one round.

        For means at most d apart it is at most d²/4 if they are two, and d²/2 however many they are.
        """
        sources = _sources(self.world)
        apart = [_largest_gap(data) for data in sources]
        if len(sources) == 2:
            base, drift = sources
            means = np.atleast_2d(_means(drift)) if not isinstance(drift, Mixture) else None
            reach = _times(self.strength, self.radius)
            if means is None:
                apart.append(_largest_norm(base) + reach + _largest_norm(drift))
            else:
                apart.append(np.linalg.norm(means - base.mean, axis=-1).max() + reach)
        many = any(_is_sequence_of_mixtures(data) for data in sources)
        return max(apart) ** 2 / (2 if many else 4)

    def _outside(self) -> float:
        """How far the unconstrained minimiser E z/(1+λ) can be outside the domain."""
        domain, scale = self.world.domain, 1.0 + self.l2
        away = [0.0]
        for data in _sources(self.world):
            means = np.concatenate([np.atleast_2d(mean) for mean in _leaf_means(data)]) / scale
            if not self.responds(data) or self.strength == 0:
                distance = np.linalg.norm(means - domain.project(means), axis=-1)
            elif isinstance(domain, Ball):
                middle = means + domain.middle @ self.matrix.T / scale - domain.middle
                reach = np.linalg.norm(middle, axis=-1) + self.strength / scale * domain.size
                distance = reach - domain.size
            elif isinstance(domain, Box):
                middle = 0.5 * (domain.lower + domain.upper)
                reach = 0.5 * np.abs(self.matrix) @ (domain.upper - domain.lower) / scale
                centre = means + middle @ self.matrix.T / scale
                over = np.maximum(centre + reach - domain.upper, domain.lower - centre + reach)
                distance = np.linalg.norm(np.maximum(over, 0.0), axis=-1)
            elif np.isfinite(self.radius):
                inside = np.linalg.norm(means - domain.project(means), axis=-1)
                distance = inside + self.strength * self.radius / scale
            else:
                free = np.allclose(domain.project(1e6 * means), 1e6 * means)
                distance = 0.0 if free and not np.isfinite(domain.inradius) else np.inf
            away.append(float(np.max(distance)))
        return max(away)

    def loss_scale(self) -> float:
        # √E‖z − θ‖⁴ exactly for one normal part, else by the triangle inequality in L⁴.
        scale = [0.0]
        for data in _sources(self.world):
            norm = _norm(self.stays) if self.responds(data) else 1.0
            reach = _times(norm, self.radius)
            scale += [_centred_fourth(leaf, reach) for leaf in _components(data)]
        return 0.5 * max(scale) + 0.5 * _times(self.l2, self.radius**2)

    def curvature_in_data(self) -> float:
        return 1.0

    def risk_smoothness(self) -> float:
        return float(np.max(self._eigenvalues()))

    def risk_convexities(self) -> np.ndarray:
        """λ_min of (1−α_t) KᵀK + (α_t + λ) I: PR_t is quadratic."""
        return self._eigenvalues()[:, 0]

    def _eigenvalues(self) -> np.ndarray:
        values = np.linalg.eigvalsh(self.stays.T @ self.stays)[[0, -1]]
        alphas = self.world.alphas[:, None]
        return (1 - alphas) * values + alphas + self.l2


class Logistic(Bounds):
    r"""log(1 + e^−u) + λ/2 ‖θ‖², on rows z or (x, y); |φ′| ≤ 1, 0 ≤ φ″ ≤ ¼, |φ‴| ≤ 1/(6√3)."""

    def smoothness(self) -> float:
        return self.l2 + self.largest("second") / 4

    def data_smoothness(self, responding: bool = False) -> float:
        # Moved by v, E φ′x moves by E φ″(θᵀv)x + E φ′ v; ‖E φ″x‖ ≤ √λ_max/4, and σ is concave above 0.
        size = _times(self.radius, np.sqrt(self.largest("second", responding)))
        general = _sigmoid(size) + size / 4
        # Where nothing responds, what could move is the drift: from one round to the next.
        moving = [part for part in self.parts if part.responds] or self.parts
        if self.loss.labelled or not all(part.normal for part in moving):
            return general
        mean, radius = self.largest("mean", responding), self.radius
        top = max((part.spread for part in moving), default=0.0)
        if not np.isfinite(radius):
            return np.inf
        # E σ(−u) is largest without spread; by Price's theorem the rest has |φ″| and |φ‴| in it.
        along = radius * (mean / 4 + top * radius / (6 * np.sqrt(3)))
        return min(_sigmoid(mean * radius) + along, general)

    def data_smoothness_at(self, size: float, label: float = 0.0) -> float:
        return 1.0 + _times(self.radius, size) / 4

    def lipschitz(self) -> float:
        through = _times(self.strength, self.lipschitz_data())
        if self.matrix is None or not self._normal or not _is_positive(self.matrix):
            return self.lipschitz_judged() + through
        # ∇PR_t has −c q Aᵀθ in it too, which then only takes away from (λI + E φ″ Σ)θ.
        pull = max(self.l2 + self.largest("spread") / 4, self.strength - self.l2)
        bent = _times(self.radius, pull) + self._pull_of_means()
        return min(self.lipschitz_judged() + through, bent)

    @property
    def _normal(self) -> bool:
        return not self.loss.labelled and all(part.normal for part in self.parts)

    def _direct(self) -> float:
        """The largest q = E σ(−u)."""
        size = np.sqrt(self.largest("second"))
        return _sigmoid(_times(self.largest("mean") if self._normal else size, self.radius))

    def _pull_of_means(self) -> float:
        return self._direct() * self.largest("mean")

    def lipschitz_judged(self) -> float:
        general = _times(self.l2, self.radius) + np.sqrt(self.largest("second"))
        if not self._normal:
            return general
        # ∇_θ DPR_t = (λI + E φ″ Σ)θ − Σ c q μ, by Stein's lemma.
        pull = _times(self.radius, self.l2 + self.largest("spread") / 4)
        return min(general, pull + self._pull_of_means())

    def lipschitz_data(self) -> float:
        return _times(self.radius, self._direct())

    def noise(self) -> tuple[float, float]:
        # E‖φ′x + λθ‖² ≤ E‖x‖² + 2λ E φ′θᵀx + λ²‖θ‖², and φ′(u) u ≤ u⁻.
        if self.l2 == 0:
            return self.largest("square"), 0.0
        second = np.sqrt(self.largest("second"))
        whole = not self.loss.intercept or self.loss.penalise_intercept
        cross = second + min(self.largest("mean") if not self.loss.labelled else second, second)
        cross = cross if whole else 2 * second
        pulled = self.l2 * self.radius
        return self.largest("square") + pulled * cross + pulled**2, 0.0

    def loss_scale(self) -> float:
        # 0 ≤ log(1 + e^−u) ≤ log 2 + u⁻.
        margin = _times(self.radius, np.sqrt(self.largest("second")))
        return np.log(2) + margin + 0.5 * _times(self.l2, self.radius**2)

    def curvature_in_data(self) -> float:
        return self.radius**2 / 4

    def risk_convexities(self) -> None:
        """Left to Proposition 5.1."""


class LabelledSquared(Bounds):
    """½(y − θᵀx − b)² + λ/2 ‖θ‖²."""

    def smoothness(self) -> float:
        return self.l2 + self.largest("second")

    def strong_convexity(self) -> float:
        """λ_min of E x xᵀ over all rounds and movements, plus the penalty where it holds."""
        held = self.loss.penalised(self.world.parameters)
        penalty = self.l2 * float(held.min())
        least = []
        for data in _sources(self.world):
            reach = _times(self.strength, self.radius) if self.responds(data) else 0.0
            least += [_least_second(self.loss, leaf, reach) for leaf in _leaves(data)]
        return penalty + max(min(least), 0.0)

    def data_smoothness(self, responding: bool = False) -> float:
        # ∇ℓ = −(y − θᵀx)x moves by (θᵀv)x − (y − θᵀx)v with x, and by −x with y: means alone matter.
        rows, labels = self.largest("mean", responding), self.largest("label_mean", responding)
        features = labels + 2 * _times(self.radius, rows)
        return float(np.hypot(features, rows if self.label_strength else 0.0))

    def data_smoothness_at(self, size: float, label: float = 0.0) -> float:
        return float(np.hypot(label + 2 * _times(self.radius, size), size))

    def _mean_residual(self) -> float:
        """|E (y − θᵀx)|."""
        return self.largest("label_mean") + _times(self.radius, self.largest("mean"))

    def _residual(self) -> float:
        """√E (y − θᵀx)²."""
        return self.largest("label") + _times(self.radius, np.sqrt(self.largest("second")))

    def lipschitz(self) -> float:
        through = _times(self.strength, self.radius) + self.label_strength
        return self.lipschitz_judged() + _times(through, self._mean_residual())

    def lipschitz_judged(self) -> float:
        rows = np.sqrt(self.largest("second"))
        return _times(self.l2, self.radius) + self._residual() * rows

    def lipschitz_data(self) -> float:
        moves = self.radius + (1.0 if self.label_strength else 0.0)
        return _times(moves, self._mean_residual())

    def noise(self) -> tuple[float, float]:
        rows = self.largest("fourth")
        residual = self.largest("label") + _times(self.radius, rows)
        return (residual * rows + _times(self.l2, self.radius)) ** 2, 0.0

    def loss_scale(self) -> float:
        residual = self.largest("label") + _times(self.radius, self.largest("fourth"))
        return 0.5 * residual**2 + 0.5 * _times(self.l2, self.radius**2)

    def curvature_in_data(self) -> float:
        return self.radius**2 + (1.0 if self.label_strength else 0.0)

    def risk_convexities(self) -> None:
        """Left to Proposition 5.1."""


def _part(loss: Any, data: Distribution, by_trace: bool = False) -> Part:
    """Moments of one distribution, or the largest of a sequence."""
    mean, covariance = _weighed(loss, data.mean, data.covariance)
    eigenvalues = np.linalg.eigvalsh(covariance)
    trace = np.trace(covariance, axis1=-2, axis2=-1)
    norms = np.linalg.norm(mean, axis=-1)
    second = eigenvalues[..., -1] + norms**2
    if mean.ndim == 1:
        second = np.linalg.eigvalsh(covariance + np.outer(mean, mean))[-1]
    if by_trace:  # the square less that of the mean is then the largest trace
        return Part(0.0, 0.0, 0.0, float(np.max(trace)), 0.0, 0.0, 0.0, False)
    return Part(
        mean=float(np.max(norms)),
        spread=float(np.max(eigenvalues[..., -1])),
        second=float(np.max(second)),
        square=float(np.max(trace + norms**2)),
        fourth=float(np.max(_fourth(loss, data, "features"))) ** 0.25,
        label=float(np.max(_fourth(loss, data, "label"))) ** 0.25 if loss.labelled else 0.0,
        label_mean=float(np.abs(data.mean[..., -1]).max()) if loss.labelled else 0.0,
        normal=isinstance(data, Gaussian),
    )


def _weighed(loss: Any, mean: Array, covariance: Array) -> tuple[np.ndarray, np.ndarray]:
    """Mean and covariance of what the loss weighs: rows, or features and a constant."""
    mean, covariance = np.asarray(mean), np.asarray(covariance)
    if not loss.labelled:
        return mean, covariance
    mean, covariance = mean[..., :-1], covariance[..., :-1, :-1]
    if loss.intercept:
        one = np.ones((*mean.shape[:-1], 1))
        mean = np.concatenate([mean, one], axis=-1)
        wider = [(0, 0)] * (covariance.ndim - 2) + [(0, 1), (0, 1)]
        covariance = np.pad(covariance, wider)
    return mean, covariance


def _fourth(loss: Any, data: Distribution, which: str) -> Any:
    """E‖x‖⁴ of the features, or E y⁴ of the label."""
    if isinstance(data, Mixture):
        parts = [_fourth(loss, part, which) for part in data.components]
        weights = np.moveaxis(np.asarray(data.weights), -1, 0)
        return sum(w * part for w, part in zip(weights, parts, strict=True))
    if isinstance(data, Empirical):
        rows = data.points + data.offset
        if which == "label":
            sizes = rows[..., -1] ** 2
        else:
            kept = rows[..., :-1] if loss.labelled else rows
            sizes = np.sum(kept**2, axis=-1) + float(loss.intercept)
        return sizes**2 @ data.weights
    mean, covariance = np.asarray(data.mean), np.asarray(data.covariance)
    if which == "label":
        mean, covariance = mean[..., -1:], covariance[..., -1:, -1:]
    else:
        mean, covariance = _weighed(loss, mean, covariance)
    return _normal_fourth(mean, covariance)


def _normal_fourth(mean: np.ndarray, covariance: np.ndarray) -> Any:
    """E‖x‖⁴ of normal rows: (tr Σ + ‖m‖²)² + 2 tr Σ² + 4 mᵀΣm."""
    square = np.trace(covariance, axis1=-2, axis2=-1) + np.sum(mean**2, axis=-1)
    pulled = np.einsum("...i,...ij,...j->...", mean, covariance, mean)
    return square**2 + 2 * np.sum(covariance**2, axis=(-2, -1)) + 4 * pulled


def _centred_fourth(data: Distribution, reach: float) -> float:
    """sup √E‖x − v‖⁴ over vectors v with ‖v‖ ≤ reach, for one distribution or a sequence."""
    if not np.isfinite(reach):
        return np.inf
    covariance = np.asarray(data.covariance)
    away = np.linalg.norm(np.asarray(data.mean), axis=-1) + reach
    if isinstance(data, Gaussian):
        trace = np.trace(covariance, axis1=-2, axis2=-1)
        top = np.linalg.eigvalsh(covariance)[..., -1]
        square = np.sum(covariance**2, axis=(-2, -1))
        return float(np.sqrt(np.max((trace + away**2) ** 2 + 2 * square + 4 * top * away**2)))
    assert isinstance(data, Empirical)
    centred = np.sum((data.points - data.point_mean[..., None, :]) ** 2, axis=-1)
    return float(np.max((np.sqrt(np.sqrt(centred**2 @ data.weights)) + away) ** 2))


def _least_second(loss: Any, data: Distribution, reach: float) -> float:
    """The least eigenvalue of E x xᵀ, for features that can be moved by `reach`."""
    mean, covariance = _weighed(loss, data.mean, data.covariance)
    if reach == 0:
        second = covariance + mean[..., :, None] * mean[..., None, :]
        return float(np.min(np.linalg.eigvalsh(second)[..., 0]))
    if not loss.intercept:
        return float(np.min(np.linalg.eigvalsh(covariance)[..., 0]))
    if not np.isfinite(reach):
        return 0.0
    # (x + v, 1) = T (x, 1), and the least singular value of T is (√(4 + ‖v‖²) − ‖v‖)/2.
    least = 0.5 * (np.sqrt(4 + reach**2) - reach)
    return least**2 * _least_second(loss, data, 0.0)


def _is_sequence_of_mixtures(data: Distribution) -> bool:
    return isinstance(data, Mixture) and data.rounds is not None


def _leaves(data: Distribution) -> tuple[Distribution, ...]:
    """What moments are taken of: the parts of a mixture only where its weights change."""
    return _components(data) if _is_sequence_of_mixtures(data) else (data,)


def _components(data: Distribution) -> tuple[Distribution, ...]:
    if isinstance(data, Mixture):
        return tuple(leaf for part in data.components for leaf in _components(part))
    return (data,)


def _leaf_means(data: Distribution) -> list[np.ndarray]:
    return [np.asarray(leaf.mean) for leaf in _components(data)]


def _means(data: Distribution) -> np.ndarray:
    return np.asarray(data.mean)


def _largest_norm(data: Distribution) -> float:
    return max(float(np.linalg.norm(mean, axis=-1).max()) for mean in _leaf_means(data))


def _largest_gap(data: Distribution) -> float:
    """How far the means of the parts of one mixture can be apart."""
    if not isinstance(data, Mixture):
        return 0.0
    return 2.0 * _largest_norm(data) if _is_sequence_of_mixtures(data) else 0.0


def _is_positive(matrix: Array) -> bool:
    """Whether a matrix is symmetric positive semidefinite."""
    if matrix.shape[0] != matrix.shape[1] or not np.allclose(matrix, matrix.T, rtol=0, atol=1e-15):
        return False
    return bool(np.linalg.eigvalsh(matrix)[0] >= -1e-15)


def _norm(matrix: Array | None) -> float:
    return 0.0 if matrix is None or matrix.size == 0 else float(np.linalg.norm(matrix, 2))


def _times(a: float, b: float) -> float:
    """a·b, where nothing times infinity is nothing."""
    return 0.0 if a == 0 or b == 0 else float(a * b)


def _sigmoid(u: float) -> float:
    return float(1.0 / (1.0 + np.exp(-u)))
