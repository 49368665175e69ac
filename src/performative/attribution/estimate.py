"""What the arms of a log say about its models: response, drift by cause, share, strength.

Every estimate is linear in the cells' means. Its variance is that of the sampling of units, whatever
the world does from round to round: with independent rows Σ_c / n_c, with repeated units a jackknife
over buckets. Section 2 of the paper gives the model, D_t(θ) = (1−α_t) D(θ) + α_t P_t; from means only the
product (1−α_t) D can be known.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from scipy import stats

from performative.attribution.cells import Cells


class Estimate(NamedTuple):
    """A figure and its 95 % interval."""

    value: float
    low: float
    high: float

    @property
    def half_width(self) -> float:
        """Half the length of the interval."""
        return 0.5 * (self.high - self.low)

    def __str__(self) -> str:
        return f"{self.value:.2f} [{self.low:.2f}, {self.high:.2f}]"


class Linear(NamedTuple):
    """Σ_c ⟨loading_c, z̄_c⟩: values (k,) and their loadings (k, cell, q)."""

    value: np.ndarray
    loading: np.ndarray


class Uncertain(NamedTuple):
    """Values, their covariance, and the degrees of freedom of its estimate."""

    value: np.ndarray
    covariance: np.ndarray
    freedom: float
    replicates: np.ndarray | None = None

    @property
    def error(self) -> np.ndarray:
        """Standard errors."""
        return np.sqrt(np.maximum(np.diag(self.covariance), 0.0))

    def estimate(self, widen: float = 1.0, index: int = 0) -> Estimate:
        """One of the values with its interval, `widen` times the ordinary one."""
        value, error = float(self.value[index]), float(self.error[index])
        reach = widen * critical(self.freedom) * error
        return Estimate(value, value - reach, value + reach)

    def p_value(self, index: int = 0) -> float:
        """Of the hypothesis that the value is zero."""
        error = self.error[index]
        if error == 0:
            return 1.0 if self.value[index] == 0 else 0.0
        return float(2 * stats.t.sf(abs(self.value[index]) / error, self.freedom))


def critical(freedom: float, level: float = 0.95) -> float:
    """The half-width of an interval, in standard errors."""
    return float(stats.t.ppf(0.5 + 0.5 * level, freedom))


def uncertain(cells: Cells, estimator: Callable[[Cells], Linear]) -> Uncertain:
    """Carry out an estimator, with the uncertainty that the log allows to know."""
    value, loading = estimator(cells)
    if cells.clustered:
        return jackknife(cells, lambda part: estimator(part).value, value)
    return Uncertain(value, sampling_covariance(cells, loading), np.inf)


def sampling_covariance(cells: Cells, loading: np.ndarray) -> np.ndarray:
    """Σ_c L_c (Σ_c/n_c) L_c′; an upper bound where only the variances of the statistics are known."""
    spread = cells.covariance / cells.count[:, None, None]
    if cells.diagonal:
        deviations = np.sqrt(np.diagonal(spread, axis1=1, axis2=2))
        return np.diag(np.sum(np.einsum("kci,ci->kc", np.abs(loading), deviations) ** 2, axis=1))
    return np.einsum("kci,cij,lcj->kl", loading, spread, loading, optimize=True)


def jackknife(
    cells: Cells, function: Callable[[Cells], np.ndarray], value: np.ndarray
) -> Uncertain:
    """Leave out one bucket of units at a time; t with one degree of freedom less than buckets."""
    replicates = np.stack([function(part) for part in cells.leave_out()])
    buckets = len(replicates)
    deviations = (replicates - replicates.mean(axis=0)) * np.sqrt((buckets - 1) / buckets)
    return Uncertain(value, deviations.T @ deviations, buckets - 1.0, deviations)


# The response: B on the directions that were tried


def response(cells: Cells, structure: str = "full") -> np.ndarray:
    r"""$\hat B = \left(\sum n\tilde z\tilde\theta'\right)M^+$, or a diagonal or scalar B.

    A full response is known along the tried directions and zero across them; a diagonal one is the
    generalised least squares estimate, whose errors may be half those of one feature at a time.

    >>> cells = Cells(round=np.array([0, 0]), count=np.array([50.0, 50.0]),
    ...               mean=np.array([[0.4], [0.1]]), covariance=np.ones((2, 1, 1)),
    ...               theta=np.array([[1.0], [0.0]]), arm=np.arange(2), model=np.arange(2))
    >>> response(cells).tolist()
    [[0.3...]]
    """
    if structure == "full":
        return cells.mean.T @ cells.gain
    statistics, parameters = _aligned(cells)
    matrix = np.zeros((cells.mean.shape[1], cells.theta.shape[1]))
    if structure == "diagonal":
        matrix[statistics, parameters] = np.einsum("kci,ci->k", diagonal_loading(cells), cells.mean)
    else:
        matrix[statistics, parameters] = strength(cells).value[0]
    return matrix


def pull(cells: Cells, cotangent: np.ndarray, structure: str = "full") -> np.ndarray:
    """Loadings (k, cell, q) of the functionals ⟨P_k, B̂⟩ of the response, P of shape (k, q, p)."""
    if structure == "full":
        return np.einsum("kip,cp->kci", cotangent, cells.gain)
    diagonal = cotangent[:, *_aligned(cells)]
    if structure == "diagonal":
        return np.einsum("kj,jci->kci", diagonal, diagonal_loading(cells))
    return diagonal.sum(axis=1)[:, None, None] * strength(cells).loading


def diagonal_loading(cells: Cells) -> np.ndarray:
    """b = V Σ n diag(θ̃) Σ⁻¹ z̃ as loadings (coordinate, cell, q)."""
    statistics, parameters = _aligned(cells)
    precision = np.linalg.pinv(cells.pooled[np.ix_(statistics, statistics)], hermitian=True)
    contrast = cells.contrast[:, parameters]
    scatter = (contrast * cells.count[:, None]).T @ contrast
    covariance = np.linalg.pinv(scatter * precision, hermitian=True)
    loading = np.zeros((len(parameters), cells.count.size, cells.mean.shape[1]))
    loading[:, :, statistics] = np.einsum(
        "jk,ck,ki,c->jci", covariance, contrast, precision, cells.count
    )
    return loading


def diagonal_covariance(cells: Cells) -> np.ndarray:
    """V, the covariance of the diagonal response for independent rows."""
    statistics, parameters = _aligned(cells)
    precision = np.linalg.pinv(cells.pooled[np.ix_(statistics, statistics)], hermitian=True)
    contrast = cells.contrast[:, parameters]
    return np.linalg.pinv(
        ((contrast * cells.count[:, None]).T @ contrast) * precision, hermitian=True
    )


def along(cells: Cells, a: np.ndarray, v: np.ndarray, structure: str = "full") -> Linear:
    """a′B̂v: how the combination a of statistics moves when the models move by v."""
    cotangent = np.outer(a, v)[None]
    value = np.array([a @ response(cells, structure) @ v])
    return Linear(value, pull(cells, cotangent, structure))


def entries(cells: Cells, structure: str = "full") -> Uncertain:
    """Standard errors of all entries of B̂, (q·p,), without their covariances."""
    matrix = response(cells, structure)
    if cells.clustered:
        found = jackknife(cells, lambda part: response(part, structure).ravel(), matrix.ravel())
        return found._replace(covariance=np.diag(np.diag(found.covariance)))
    variance = np.zeros_like(matrix)
    if structure == "full":
        own = np.diagonal(cells.covariance, axis1=1, axis2=2) / cells.count[:, None]
        variance = np.einsum("ci,cp->ip", own, cells.gain**2)
    elif structure == "diagonal":
        variance[_aligned(cells)] = np.diag(diagonal_covariance(cells))
    else:
        variance[_aligned(cells)] = uncertain(cells, strength).covariance[0, 0]
    return Uncertain(matrix.ravel(), np.diag(variance.ravel()), np.inf)


def strength(cells: Cells) -> Linear:
    r"""$\hat\kappa=\sum n\tilde\theta'\tilde z/\sum n\tilde\theta'\tilde\theta$.

    How much the features move, per unit of change of the weights, the way the weights point.
    """
    statistics, parameters = _aligned(cells)
    contrast = cells.contrast[:, parameters] * cells.count[:, None]
    size = np.sum(contrast * cells.contrast[:, parameters])
    loading = np.zeros((1, *cells.mean.shape))
    loading[0, :, statistics] = contrast.T / size
    return Linear(np.einsum("kci,ci->k", loading, cells.mean), loading)


def strength_uncertain(cells: Cells) -> Uncertain:
    """`strength` and its variance Σ n θ̃′Σ_cθ̃ / (Σ n θ̃′θ̃)²."""
    if cells.clustered or cells.contrast_variance is None:
        return uncertain(cells, strength)
    size = np.sum(cells.count[:, None] * cells.contrast[:, _aligned(cells)[1]] ** 2)
    variance = np.sum(cells.count * cells.contrast_variance) / size**2
    return Uncertain(strength(cells).value, np.array([[variance]]), np.inf)


def _aligned(cells: Cells) -> tuple[np.ndarray, np.ndarray]:
    if cells.aligned is not None:
        return cells.aligned
    both = np.arange(min(cells.mean.shape[1], cells.theta.shape[1]))
    return both, both


# Drift by cause


class Drift(NamedTuple):
    """Movement since the first round, (round, statistic): total = model + world."""

    total: np.ndarray
    model: np.ndarray
    world: np.ndarray


def drift(cells: Cells, structure: str = "full") -> Drift:
    """What the models did, B̂(θ̄_t − θ̄_1), and what is left: the world's.

    With structure "holdout" what the models did is the distance of the round's mean from the
    hold-out's, whatever the response: nothing linear, nothing constant.
    """
    total = _total(cells)
    if structure == "holdout":
        model = (beside_reference(cells) - beside_reference(cells)[0]) @ cells.mean
    else:
        model = model_path(cells) @ response(cells, structure).T
    return Drift(total, model, total - model)


def beside_reference(cells: Cells) -> np.ndarray:
    """Weights (round, cell) of the round's mean less the hold-out's mean."""
    assert cells.reference is not None
    held = np.where(cells.reference, cells.count, 0.0)
    weights = np.zeros((cells.rounds, cells.count.size))
    own = cells.count / cells.round_count[cells.round] - held / cells.by_round(held)[cells.round]
    weights[cells.round, np.arange(cells.count.size)] = own
    return weights


def model_path(cells: Cells) -> np.ndarray:
    """θ̄_t − θ̄_1, (round, p)."""
    path = cells.round_mean(cells.theta)
    return path - path[0]


def drift_errors(cells: Cells, structure: str = "full") -> tuple[np.ndarray, np.ndarray, float]:
    """Standard errors of the model's and the world's part, (round, statistic), and their freedom."""
    shape = (cells.rounds, cells.mean.shape[1])
    if cells.clustered:
        found = [
            jackknife(cells, lambda part: drift(part, structure)[which].ravel(), np.zeros(1))  # noqa: B023
            for which in (1, 2)
        ]
        errors = [np.sqrt(np.sum(one.replicates**2, axis=0)).reshape(shape) for one in found]  # pyright: ignore[reportOptionalOperand]
        return errors[0], errors[1], found[0].freedom
    eye = np.eye(shape[1])
    moved = beside_reference(cells) if structure == "holdout" else model_path(cells)
    spread = cells.covariance / cells.count[:, None, None]
    share = cells.count / cells.round_count[cells.round]
    errors = np.zeros((2, *shape))
    for t in range(1, cells.rounds):
        if structure == "holdout":
            model = (moved[t] - moved[0])[None, :, None] * eye[:, None, :]
        else:
            model = pull(cells, eye[:, :, None] * moved[t], structure)
        sign = (cells.round == t) * 1.0 - (cells.round == 0) * 1.0
        world = (sign * share)[None, :, None] * eye[:, None, :] - model
        for which, loading in enumerate((model, world)):
            step = np.matmul(loading.transpose(1, 0, 2), spread)
            errors[which, t] = np.sqrt(np.maximum(np.einsum("cki,kci->k", step, loading), 0.0))
    return errors[0], errors[1], np.inf


def sizes(cells: Cells) -> tuple[float, float]:
    r"""$\sum_t|\text{total}_t|^2_W$ and the part of it that is sampling noise, W = 1/within variance."""
    weight = _weight(cells)
    total = _total(cells)
    return float(np.sum(weight * total**2)), float(np.sum(weight * _total_variances(cells)))


def share(cells: Cells, structure: str = "full") -> Linear:
    r"""$S=\sum_t\langle\text{model}_t,\text{total}_t\rangle_W/(\sum_t|\text{total}_t|^2_W-\text{noise})$.

    The part of all drift that the models made, in (−∞, ∞): negative where they push against it. It is
    linear in the response, so that its interval is an ordinary one; the noise of the totals is in it.
    """
    weight = _weight(cells)
    total, model, _ = drift(cells, structure)
    size, noise = sizes(cells)
    value = float(np.sum(weight * model * total)) / (size - noise)
    toward = weight * total / (size - noise)
    if structure == "holdout":
        beside = beside_reference(cells)
        through = (beside - beside[0]).T @ toward
    else:
        cotangent = toward.T @ model_path(cells)
        through = pull(cells, cotangent[None], structure)[0]
    pulls = weight * (model - 2.0 * value * total) / (size - noise)
    pulls[0] = -pulls[1:].sum(axis=0)
    part = (cells.count / cells.round_count[cells.round])[:, None]
    loading = through + part * pulls[cells.round]
    return Linear(np.array([value]), loading[None])


def _weight(cells: Cells) -> np.ndarray:
    variance = np.diag(cells.pooled)
    return np.where(variance > 0, 1.0 / np.where(variance > 0, variance, 1.0), 0.0)


def _total(cells: Cells) -> np.ndarray:
    mean = cells.round_mean(cells.mean)
    return mean - mean[0]


def _total_variances(cells: Cells) -> np.ndarray:
    """The sampling variance of z̄_t − z̄_1, (round, statistic)."""
    if cells.clustered:
        found = jackknife(cells, lambda part: _total(part).ravel(), np.zeros(1))
        assert found.replicates is not None
        return np.sum(found.replicates**2, axis=0).reshape(cells.rounds, -1)
    own = np.diagonal(cells.covariance, axis1=1, axis2=2)
    part = cells.by_round(cells.count[:, None] * own) / cells.round_count[:, None] ** 2
    variances = part + part[0]
    variances[0] = 0.0
    return variances


# One round at a time


def footprint(cells: Cells) -> np.ndarray:
    """Weights (round, cell) of the mean off the hold-out less the hold-out's; NaN without either.

    Applied to the means it is B_t(θ_t − θ_0) of every round, nothing linear or constant assumed.
    """
    reference = cells.reference
    assert reference is not None
    loading = np.zeros((cells.rounds, cells.count.size))
    for sign, group in ((1.0, ~reference), (-1.0, reference)):
        counts = cells.by_round(np.where(group, cells.count, 0.0))
        with np.errstate(divide="ignore", invalid="ignore"):
            part = np.where(group, cells.count, 0.0) / counts[cells.round]
        loading[cells.round, np.arange(cells.count.size)] += sign * part
    complete = cells.by_round(np.stack([reference, ~reference], axis=1) * 1.0).min(axis=1) > 0
    return np.where(complete[:, None], np.nan_to_num(loading), np.nan)
