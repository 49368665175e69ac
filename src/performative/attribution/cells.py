"""The cells of a deployment log: one model in one round, its rows counted, averaged and nothing more.

All estimators of `estimate.py` take `Cells` and see no rows. What is averaged may be the features,
or the loss, or its gradient: any statistic of a row whose mean a deployed model can move.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from functools import cached_property
from typing import Any

import numpy as np

SPAN = 1e-6
"""Directions of the contrasts count as tried above this share of the largest eigenvalue."""


@dataclasses.dataclass(frozen=True, eq=False)
class Cells:
    r"""Counts and means of rows: $\bar z_c = B\theta_c + w_{t(c)} + e_c$, Var e_c = Σ_c / n_c.

    Args:
        round: the number of each cell's round, 0 … T−1, every one of them present.
        count: n_c.
        mean: (cell, q).
        covariance: of the rows of a cell, (cell, q, q); zero off the diagonal where only variances
            are known, which `diagonal` tells.
        theta: the model deployed in the cell, (cell, p).
        arm: which cells of different rounds are the same arm, as numbers.
        model: which model each cell had, as numbers in the order of first use.
        bucket_count, bucket_sum: rows by bucket, (cell, bucket), and the sums of their deviations
            from the cell's mean, (cell, bucket, q): units that may be dependent share a bucket.
        contrast_variance: of θ̃′z, (cell,), where `diagonal`.
        reference: which cells are a hold-out's.
        aligned: the statistic and the parameter that belong together, as two index arrays.
        span: below this share of the largest eigenvalue, a direction has not been tried.
    """

    round: np.ndarray
    count: np.ndarray
    mean: np.ndarray
    covariance: np.ndarray
    theta: np.ndarray
    arm: np.ndarray
    model: np.ndarray
    bucket_count: np.ndarray | None = None
    bucket_sum: np.ndarray | None = None
    contrast_variance: np.ndarray | None = None
    reference: np.ndarray | None = None
    aligned: tuple[np.ndarray, np.ndarray] | None = None
    diagonal: bool = False
    span: float = SPAN

    @property
    def rounds(self) -> int:
        """T."""
        return int(self.round[-1]) + 1 if self.round.size else 0

    @property
    def clustered(self) -> bool:
        """Whether the rows come with buckets, so that dependent rows are no trouble."""
        return self.bucket_sum is not None

    def by_round(self, values: np.ndarray) -> np.ndarray:
        """Sums of a cell's values over the cells of each round, (round, …)."""
        totals = np.zeros((self.rounds, *values.shape[1:]))
        np.add.at(totals, self.round, values)
        return totals

    def round_mean(self, values: np.ndarray) -> np.ndarray:
        """Means over the rows of each round, (round, …)."""
        shape = (-1,) + (1,) * (values.ndim - 1)
        weighted = self.by_round(self.count.reshape(shape) * values)
        return weighted / self.round_count.reshape(shape)

    def within(self, values: np.ndarray) -> np.ndarray:
        """Deviations from the mean of the round."""
        return values - self.round_mean(values)[self.round]

    @cached_property
    def round_count(self) -> np.ndarray:
        """Rows of each round."""
        return self.by_round(self.count)

    @cached_property
    def contrast(self) -> np.ndarray:
        """θ̃: how each cell's model differs from the round's mean model."""
        return self.within(self.theta)

    @cached_property
    def eigen(self) -> tuple[np.ndarray, np.ndarray]:
        """The tried directions and how much each was tried: eigenpairs of M = Σ n θ̃θ̃′."""
        scatter = (self.contrast * self.count[:, None]).T @ self.contrast
        sizes, directions = np.linalg.eigh(scatter)
        tried = sizes > self.span * max(sizes[-1], 0.0) if sizes.size else sizes > 0
        scale = np.abs(self.theta).max(initial=0.0) ** 2 * self.count.sum()
        tried &= sizes > 1e-20 * scale
        return sizes[tried][::-1], directions[:, tried][:, ::-1]

    @property
    def rank(self) -> int:
        """How many directions were tried."""
        return self.eigen[0].size

    @cached_property
    def gain(self) -> np.ndarray:
        """g_c = n_c M⁺ θ̃_c, (cell, p): the response is Σ_c z̄_c g_c′."""
        sizes, directions = self.eigen
        return self.count[:, None] * ((self.contrast @ directions) / sizes) @ directions.T

    @cached_property
    def pooled(self) -> np.ndarray:
        """Σ: the covariance of rows within cells, pooled."""
        freedom = np.maximum(self.count - 1.0, 0.0)
        return np.einsum("c,cij->ij", freedom, self.covariance) / max(freedom.sum(), 1.0)

    @cached_property
    def whitening(self) -> np.ndarray:
        """W with W Σ W′ = I; fewer rows than statistics where those depend on each other."""
        deviation = np.sqrt(np.diag(self.pooled))
        scale = np.where(deviation > 0, deviation, 1.0)
        sizes, directions = np.linalg.eigh(self.pooled / np.outer(scale, scale))
        kept = sizes > 1e-9 * sizes[-1]
        return (directions[:, kept] / np.sqrt(sizes[kept])).T / scale

    def outside(self, vectors: np.ndarray) -> np.ndarray:
        """The share of the norm of model differences that lies outside the tried directions."""
        directions = self.eigen[1]
        norm = np.linalg.norm(vectors, axis=-1)
        rest = np.linalg.norm(vectors - vectors @ directions @ directions.T, axis=-1)
        return np.where(norm > 0, rest / np.where(norm > 0, norm, 1.0), 0.0)

    def of(self, statistics: Any) -> Cells:
        """The same cells with a choice of the statistics."""
        index = np.asarray(statistics)
        buckets = None if self.bucket_sum is None else self.bucket_sum[:, :, index]
        return dataclasses.replace(
            self,
            mean=self.mean[:, index],
            covariance=self.covariance[:, index][:, :, index],
            bucket_sum=buckets,
            aligned=None,
        )

    def mapped(self, matrix: np.ndarray, offset: Any = 0.0) -> Cells:
        """The same cells with the statistic z turned into matrix @ z + offset."""
        buckets = None
        if self.bucket_sum is not None:
            buckets = self.bucket_sum @ matrix.T
        return dataclasses.replace(
            self,
            mean=self.mean @ matrix.T + offset,
            covariance=matrix @ self.covariance @ matrix.T,
            bucket_sum=buckets,
            aligned=None,
        )

    def where(self, kept: np.ndarray) -> Cells:
        """Some of the cells; rounds are numbered anew."""
        buckets = {}
        if self.bucket_sum is not None:
            assert self.bucket_count is not None
            buckets = {
                "bucket_count": self.bucket_count[kept],
                "bucket_sum": self.bucket_sum[kept],
            }
        return dataclasses.replace(
            self,
            round=np.unique(self.round[kept], return_inverse=True)[1],
            count=self.count[kept],
            mean=self.mean[kept],
            covariance=self.covariance[kept],
            theta=self.theta[kept],
            arm=self.arm[kept],
            model=self.model[kept],
            contrast_variance=None
            if self.contrast_variance is None
            else self.contrast_variance[kept],
            reference=None if self.reference is None else self.reference[kept],
            **buckets,
        )

    def leave_out(self) -> Iterator[Cells]:
        """The cells without the rows of one bucket, for each bucket that has any."""
        assert self.bucket_count is not None and self.bucket_sum is not None
        rows = self.bucket_count.sum(axis=1)
        for bucket in np.flatnonzero(self.bucket_count.sum(axis=0) > 0):
            left = rows - self.bucket_count[:, bucket]
            kept = left > 1e-9 * rows
            mean = self.mean - self.bucket_sum[:, bucket] / np.where(kept, left, 1.0)[:, None]
            less = dataclasses.replace(
                self, count=self.count * left / rows, mean=mean, bucket_count=None, bucket_sum=None
            )
            yield less if kept.all() else less.where(kept)
