"""Row-level oracles: every estimator once more, from rows and definitions alone."""

import numpy as np

from performative.attribution.cells import Cells


def make(seed=0, rounds=5, arms=2, dim=3, rows=40, units=0):
    """Rows of a small log with uneven arms: a dict of columns, and the models (cell, dim)."""
    rng = np.random.default_rng(seed)
    columns = {"round": [], "cell": [], "z": [], "bucket": []}
    thetas, matrix = [], 0.4 * rng.normal(size=(dim, dim))
    root = np.linalg.cholesky(np.eye(dim) + 0.3)
    for t in range(rounds):
        world = rng.normal(size=dim)
        for _ in range(arms):
            theta = rng.normal(size=dim)
            n = int(rng.integers(rows // 2, rows * 2))
            z = rng.normal(size=(n, dim)) @ root.T * (1 + 0.2 * t) + matrix @ theta + world
            columns["round"] += [t] * n
            columns["cell"] += [len(thetas)] * n
            columns["z"].append(z)
            columns["bucket"] += rng.integers(0, 40, size=n).tolist()
            thetas.append(theta)
    columns = {k: np.concatenate(v) if k == "z" else np.array(v) for k, v in columns.items()}
    return columns, np.array(thetas), matrix


def cells_of(columns, thetas, buckets=False, kept=None):
    """The cells of the rows, summed up one by one."""
    kept = np.ones(len(columns["cell"]), dtype=bool) if kept is None else kept
    found = {"round": [], "count": [], "mean": [], "covariance": [], "bucket_count": [], "sum": []}
    for c in range(len(thetas)):
        here = kept & (columns["cell"] == c)
        z = columns["z"][here]
        found["round"].append(columns["round"][here][0])
        found["count"].append(float(len(z)))
        found["mean"].append(z.mean(axis=0))
        found["covariance"].append(np.atleast_2d(np.cov(z.T)))
        b = columns["bucket"][here]
        found["bucket_count"].append(np.bincount(b, minlength=40).astype(float))
        found["sum"].append(np.stack([(z - z.mean(axis=0))[b == k].sum(axis=0) for k in range(40)]))
    found = {name: np.array(values) for name, values in found.items()}
    extra = {"bucket_count": found.pop("bucket_count"), "bucket_sum": found.pop("sum")}
    both = np.arange(thetas.shape[1])
    return Cells(
        **found,
        theta=thetas,
        arm=np.arange(len(thetas)) % 2,
        model=np.arange(len(thetas)),
        aligned=(both, both),
        **(extra if buckets else {}),
    )


def least_squares(columns, thetas):
    """B by ordinary least squares of rows on indicators of the rounds and the model's weights."""
    rounds = np.eye(columns["round"].max() + 1)[columns["round"]]
    regressors = np.hstack([rounds, thetas[columns["cell"]]])
    return np.linalg.lstsq(regressors, columns["z"], rcond=None)[0][rounds.shape[1] :].T


def share(cells, matrix):
    """S by its definition, loop by loop."""
    count, rounds = cells.count, cells.round
    freedom = cells.count - 1
    within = (
        sum(f * np.diag(s) for f, s in zip(freedom, cells.covariance, strict=True)) / freedom.sum()
    )
    means, models, noise = [], [], []
    for t in range(rounds[-1] + 1):
        here = rounds == t
        means.append(np.average(cells.mean[here], axis=0, weights=count[here]))
        models.append(np.average(cells.theta[here], axis=0, weights=count[here]))
        spread = sum(
            n * np.diag(s) for n, s in zip(count[here], cells.covariance[here], strict=True)
        )
        noise.append(spread / count[here].sum() ** 2)
    top, bottom = 0.0, 0.0
    for t in range(1, len(means)):
        total = means[t] - means[0]
        model = matrix @ (models[t] - models[0])
        top += np.sum(model * total / within)
        bottom += np.sum((total**2 - noise[t] - noise[0]) / within)
    return top / bottom
