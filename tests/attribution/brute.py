"""What a summary must hold, computed from the rows themselves, one cell at a time."""

import duckdb
import numpy as np
import pandas as pd


def log(rows=4000, rounds=3, seed=0, missing=0.1):
    """Rows with a huge offset, a category, repeated units, weights, a label; and their models."""
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame({"round": rng.integers(1, rounds + 1, rows)})
    side = np.where(rng.random(rows) < 0.4, "old", "new")
    frame["model"] = [f"{s}{t}" for s, t in zip(side, frame["round"], strict=True)]
    frame["unit"] = rng.integers(0, 300, rows)
    frame["huge"] = 1e6 + 0.29 * rng.normal(size=rows)
    frame["skill"] = rng.exponential(size=rows) + 0.2 * (side == "new")
    frame["town"] = rng.choice(["x", "y", "z"], rows, p=[0.5, 0.3, 0.2])
    frame["outcome"] = (rng.random(rows) < 0.4).astype(float)
    frame.loc[rng.random(rows) < missing, "outcome"] = np.nan
    models = pd.DataFrame({"model": sorted(frame["model"].unique())})
    for name in ("skill", "town=z", "intercept"):
        models[name] = rng.normal(size=len(models))
    return frame, models


def to_parquet(frame, path):
    """Write a Parquet file without pandas' own way, which needs PyArrow."""
    duckdb.from_df(frame).write_parquet(str(path))


def wide(frame):
    """The features of `log`, as numbers."""
    matrix = {"huge": frame["huge"], "skill": frame["skill"]}
    matrix |= {f"town={level}": frame["town"] == level for level in ("y", "z")}
    return pd.DataFrame(matrix).astype(float)


def about(values, weights):
    """Effective count, mean, and covariance scaled so that covariance / count is the mean's."""
    values = values.reshape(len(values), -1)
    total = weights.sum()
    count = total**2 / (weights**2).sum()
    mean = weights @ values / total
    centred = values - mean
    scatter = (weights**2)[:, None] * centred
    covariance = scatter.T @ centred / total**2 * count**2 / (count - 1)
    return count, mean, covariance


def sigmoid(score):
    return 1 / (1 + np.exp(-score))


def logistic(x, side, theta):
    """Losses, gradients and Hessian summands of every row, without a penalty."""
    margin = side * (x @ theta)
    miss = sigmoid(-margin)
    loss = np.log1p(np.exp(-margin))
    gradient = -(side * miss)[:, None] * x
    return loss, gradient, (miss * (1 - miss))[:, None, None] * x[:, :, None] * x[:, None, :]


def squared(x, y, theta):
    residual = x @ theta - y
    gradient = residual[:, None] * x
    return 0.5 * residual**2, gradient, x[:, :, None] * x[:, None, :]
