"""Two summaries of one log as one: new weeks are added without keeping the rows of the old.

Cells of both stand side by side; where both hold rows of the same cell, their moments are pooled
exactly (the two-sample formula of Chan, Golub and LeVeque).
"""

from __future__ import annotations

import numpy as np
import xarray as xr

from performative.attribution.summary import fingerprint

SAME = (
    "immutable",
    "assignment",
    "loss",
    "l2",
    "signed",
    "labelled",
    "every",
    "levels",
    "constants",
)
DIMENSIONS = {"feature": "features", "parameter": "weights", "reference": "reference points θ_ref"}
TAU = ("tau_sums", "bucket_tau", "term")

BLOCKS = {
    "mean": ("count", ("covariance", "variance"), "bucket_sum", "bucket_count"),
    "gradient": (None, ("gradient_covariance",), "bucket_gradient", None),
    "hessian": (None, (), None, None),
    "loss": (None, ("loss_covariance",), "bucket_loss", None),
    "outcome_mean": (
        "outcome_count",
        ("outcome_variance",),
        "bucket_outcome_sum",
        "bucket_outcome_count",
    ),
    "score_mean": ("score_count", ("score_variance",), None, None),
}
"""A mean, the number of rows behind it, its spreads, its sums by bucket, and their numbers."""


def merged(one: xr.Dataset, two: xr.Dataset) -> xr.Dataset:
    """The dataset of the rows of both."""
    _check_alike(one, two)
    models = _models(one, two)
    width = max(one.sizes.get("slot", 0), two.sizes.get("slot", 0))
    one, two = (_prepared(part, width) for part in (one, two))
    places = {key: cell for cell, key in enumerate(_keys(one))}
    shared = [(places[key], cell) for cell, key in enumerate(_keys(two)) if key in places]
    if shared:
        one = _pooled(one, two, shared)
        left = np.setdiff1d(np.arange(two.sizes["cell"]), [cell for _, cell in shared])
        two = two.isel(cell=left)
    common = [name for name in one.data_vars if name in two.data_vars]
    parts = [part[common] for part in (one, two) if part.sizes["cell"]]
    data = xr.concat(
        parts, dim="cell", data_vars="minimal", coords="minimal", join="override", compat="override"
    )
    _number_rounds(data)
    data = data.isel(cell=np.lexsort((data["deployed"], data["arm"], data["round"])))
    for name, variable in models.items():
        data[name] = variable
    data.attrs = _attributes(one.attrs, two.attrs)
    data.attrs["fingerprint"] = fingerprint(data)
    return data


def _check_alike(one: xr.Dataset, two: xr.Dataset) -> None:
    for name in SAME:
        if one.attrs.get(name) != two.attrs.get(name):
            raise ValueError(
                f"both summaries must have the same {name}; got {one.attrs.get(name)!r} and "
                f"{two.attrs.get(name)!r}. Make the second with summarize(…, like=the first)."
            )
    for name, words in DIMENSIONS.items():
        if (name in one.variables) != (name in two.variables) or (
            name in one.variables and not np.array_equal(one[name].values, two[name].values)
        ):
            raise ValueError(
                f"both summaries must have the same {words}; theirs differ. "
                "Make the second with summarize(…, like=the first)."
            )
    for name in ("bucket_count", "covariance"):
        if (name in one) != (name in two):
            raise ValueError(
                f"both summaries must have {name} or neither; only one has. Summarize both with "
                "the same columns."
            )


def _models(one: xr.Dataset, two: xr.Dataset) -> dict[str, xr.DataArray]:
    """The table of models of both."""
    if "theta" not in one:
        return {}
    known = set(one["model"].values.tolist())
    for name in sorted(known & set(two["model"].values.tolist())):
        if not np.array_equal(one["theta"].sel(model=name), two["theta"].sel(model=name)):
            raise ValueError(
                f"a model must have the same weights in both summaries; those of {name!r} differ. "
                "Give a changed model a new id."
            )
    new = [name for name in two["model"].values.tolist() if name not in known]
    theta = xr.concat([one["theta"], two["theta"].sel(model=new)], dim="model")
    return {"theta": theta}


def _prepared(data: xr.Dataset, width: int) -> xr.Dataset:
    """Without the models; with as many slots as the other."""
    data = data.drop_dims("model", errors="ignore")
    more = width - data.sizes.get("slot", 0)
    if width and more:
        names = np.pad(data["slot_model"].values, ((0, 0), (0, more)))  # empty texts
        data = data.drop_vars("slot_model")
        data = data.pad({dim: (0, more) for dim in ("slot", "slot2") if dim in data.dims})
        data["slot_model"] = (("cell", "slot"), names)
    if "round_key" not in data.coords:
        data = data.assign_coords(round_key=("cell", data["round"].values))
    return data


def _keys(data: xr.Dataset) -> list[tuple[int, str]]:
    keys, arms = data["round_key"].values.tolist(), data["arm"].values.tolist()
    return list(zip(keys, arms, strict=True))


def _pooled(one: xr.Dataset, two: xr.Dataset, shared: list[tuple[int, int]]) -> xr.Dataset:
    """`one` with the rows that `two` has of the same cells."""
    at, other = (np.array(side) for side in zip(*shared, strict=True))
    a, b = one.isel(cell=at), two.isel(cell=other)
    for part in (a, b):
        if not np.allclose(part["count"], part["weight"], rtol=1e-12, atol=0):
            raise ValueError(
                "summaries of weighted rows must have different cells; both hold round "
                f"{part['round_label'].values[0]}. Summarize that round's rows together."
            )
    different = a["deployed"].values != b["deployed"].values
    if different.any():
        cell = int(np.flatnonzero(different)[0])
        raise ValueError(
            f"an arm must have one model a round; the arm {a['arm'].values[cell]!r} of round "
            f"{a['round_label'].values[cell]} has {a['deployed'].values[cell]} in one summary and "
            f"{b['deployed'].values[cell]} in the other."
        )
    gone = [name for name in TAU if name in one.variables]
    if "slot_model" in a and not np.array_equal(a["slot_model"].values, b["slot_model"].values):
        gone += ["loss", "loss_covariance", "bucket_loss", "slot_model"]
    one = one.drop_vars(gone, errors="ignore").copy(deep=True)
    labelled = bool(one.attrs["labelled"])
    for name, block in BLOCKS.items():
        if name in one and name in two:
            for key, values in _pooled_block(a, b, name, block, labelled).items():
                one[key].values[at] = values
    for name in ("rows", "count", "weight", "outcome_count", "score_count"):
        if name in one:
            one[name].values[at] = a[name].values + b[name].values
    for name in ("bucket_count", "bucket_outcome_count"):
        if name in one:
            one[name].values[at] = a[name].values + b[name].values
    return one


def _pooled_block(
    a: xr.Dataset, b: xr.Dataset, name: str, block: tuple, labelled: bool
) -> dict[str, np.ndarray]:
    counts, spreads, sums, parts = block
    if counts is None:  # of the loss: rows with an outcome, where the loss needs one
        counts = "outcome_count" if labelled else "count"
        parts = "bucket_outcome_count" if labelled else "bucket_count"
    n, m = (np.nan_to_num(part[counts].values.astype(float)) for part in (a, b))
    first, second = a[name].values, b[name].values
    shape = (-1,) + (1,) * (first.ndim - 1)
    total = np.maximum(n + m, 1.0)
    apart = np.nan_to_num(second) - np.nan_to_num(first)
    share = (m / total).reshape(shape)
    found = {
        name: np.where(
            np.isnan(first) & np.isnan(second), np.nan, np.nan_to_num(first) + share * apart
        )
    }
    rows = [part["count"].values for part in (a, b)]
    scaled = name in ("gradient", "loss") and labelled
    for spread in spreads:
        if spread not in a:
            continue
        left, right = a[spread].values, b[spread].values
        back = (-1,) + (1,) * (left.ndim - 1)
        ratio = [k / r if scaled else np.ones_like(k) for k, r in zip((n, m), rows, strict=True)]
        within = (left * (ratio[0] * (n - 1)).reshape(back)) + (
            right * (ratio[1] * (m - 1)).reshape(back)
        )
        square = apart**2 if left.ndim == apart.ndim else np.einsum("ci,cj->cij", apart, apart)
        between = square * (n * m / total).reshape(back)
        pooled = (within + between) / (total - 1).reshape(back)
        found[spread] = pooled * ((rows[0] + rows[1]) / total).reshape(back) if scaled else pooled
    if sums in a:
        found[sums] = _pooled_sums(a, b, name, found[name], sums, parts, (n, m), rows, scaled)
    return found


def _pooled_sums(
    a: xr.Dataset,
    b: xr.Dataset,
    name: str,
    mean: np.ndarray,
    sums: str,
    parts: str,
    counts: tuple[np.ndarray, np.ndarray],
    rows: list[np.ndarray],
    scaled: bool,
) -> np.ndarray:
    """Sums by bucket about the new mean."""
    total = 0.0
    for part, n, r in zip((a, b), counts, rows, strict=True):
        about = part[name].values - mean
        size = part[parts].values
        if about.ndim == 2:
            about, size = about[:, None, :], size[..., None]
        else:
            about = about[:, None]
        back = (n / r if scaled else np.ones_like(n)).reshape((-1,) + (1,) * (part[sums].ndim - 1))
        total = total + part[sums].values * back + size * about
    n, r = counts[0] + counts[1], rows[0] + rows[1]
    forth = (r / n if scaled else np.ones_like(n)).reshape((-1,) + (1,) * (np.ndim(total) - 1))
    return total * forth


def _number_rounds(data: xr.Dataset) -> None:
    keys = data["round_key"].values
    data["round"] = ("cell", np.searchsorted(np.unique(keys), keys) + 1)
    data.coords["round"] = data["round"]


def _attributes(one: dict, two: dict) -> dict:
    warnings = [*one["warnings"], *(w for w in two["warnings"] if w not in one["warnings"])]
    return one | {
        "warnings": warnings,
        "units": max(one["units"], two["units"]),
    }
