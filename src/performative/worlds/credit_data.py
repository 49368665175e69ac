"""The people behind the credit world (the paper's appendix "Credit scoring experiment").

The mean and covariance of the signed rows z = y x come with the package: of the 100 subsamples of
1,500 rows that `default_rng(k).choice(30000, 1500, replace=False)` draws, k = 0 … 99, and of all
30,000 rows. Any other subsample, and the rows themselves, need the file `credit_processed.csv`,
which `locate` finds. This module knows nothing of worlds, losses or learners.
"""

import hashlib
import operator
import os
from functools import cache
from pathlib import Path
from typing import Any, SupportsIndex

import numpy as np

FILE = "credit_processed.csv"
SHA256 = "b8b6d8b81a0d122648279c663240e6180bbfc9f5b24ad4efcb8dbaa549efcc34"
SOURCE = (
    "https://raw.githubusercontent.com/ustunb/actionable-recourse/master/examples/paper/data/"
    + FILE
)
VARIABLE = "PERFORMATIVE_DATA"
MOMENTS = Path(__file__).with_name("data") / "credit_moments.npz"

ROWS = 30_000
SUBSAMPLE_ROWS = 1_500
SHIPPED = 100

LABEL = "NoDefaultNextMonth"
FEATURES = (
    "Married",
    "Single",
    "Age_lt_25",
    "Age_in_25_to_40",
    "Age_in_40_to_59",
    "Age_geq_60",
    "EducationLevel",
    "MaxBillAmountOverLast6Months",
    "MaxPaymentAmountOverLast6Months",
    "MonthsWithZeroBalanceOverLast6Months",
    "MonthsWithLowSpendingOverLast6Months",
    "MonthsWithHighSpendingOverLast6Months",
    "MostRecentBillAmount",
    "MostRecentPaymentAmount",
    "TotalOverdueCounts",
    "TotalMonthsOverdue",
    "HistoryOfOverduePayments",
)
MODIFIABLE = np.arange(len(FEATURES)) >= 6
MODIFIABLE.flags.writeable = False


def moments(
    subsample: SupportsIndex | str | None = 0,
    path: str | os.PathLike | None = None,
    *,
    download: bool = False,
) -> tuple[np.ndarray, np.ndarray]:
    """Mean m and covariance Σ of signed standardised rows z = y x: N(m, Σ) of the credit world.

    For the shipped subsamples these are always the shipped numbers, with or without the CSV.

    Args:
        subsample: the seed that draws 1,500 rows without replacement, or "all" (or None) for all
            30,000. The seeds 0 … 99 and "all" need no file.
        path: the CSV or its folder, checked whenever given; otherwise looked for as `locate` does.
        download: whether the public file may be fetched, if it is needed and is nowhere else.

    Returns:
        The mean, shape (17,), and the covariance with divisor n − 1, shape (17, 17), both in the
        order of `FEATURES`.

    >>> mean, covariance = moments(subsample=0)
    >>> float(np.linalg.norm(mean).round(3)), float(np.trace(covariance).round(2))
    (0.541, 18.72)
    """
    seed = _subsample(subsample)
    csv = None if path is None else locate(path)
    if seed == "all":
        return _unpacked(_shipped()["all_mean"], _shipped()["all_covariance"])
    if seed < SHIPPED:
        packed = _shipped()
        return _unpacked(packed["mean"][seed], packed["covariance"][seed])
    try:
        signed = rows(csv, download=download)
    except FileNotFoundError as missing:
        raise FileNotFoundError(
            f'subsample {seed} needs the credit rows (only 0 to {SHIPPED - 1} and "all" '
            f"come with the package), but {missing}"
        ) from None
    return fit(signed, seed)


def rows(
    path: str | os.PathLike | None = None,
    *,
    signed: bool = True,
    standardised: bool = True,
    download: bool = False,
) -> np.ndarray:
    """The 30,000 rows, signed or labelled.

    Args:
        path: the CSV or its folder; otherwise looked for as `locate` does.
        signed: rows z = y x, shape (30000, 17); otherwise labelled rows (x, y), y last, shape
            (30000, 18). y is +1 for a person who did not default in the next month, −1 otherwise.
        standardised: whether each feature is shifted and scaled to mean 0 and variance 1 over the
            30,000 rows.
        download: whether the public file may be fetched if it is nowhere else.
    """
    table = np.loadtxt(locate(path, download=download), delimiter=",", skiprows=1)
    y, x = 2 * table[:, :1] - 1, table[:, 1:]
    if standardised:
        x = (x - x.mean(axis=0)) / x.std(axis=0)
    return y * x if signed else np.hstack([x, y])


def standardisation() -> tuple[np.ndarray, np.ndarray]:
    """The mean and the standard deviation of each feature over the 30,000 rows, shapes (17,).

    They bring a new person's features into the units of the world: (x − mean) / deviation.

    >>> shift, scale = standardisation()
    >>> dict(zip(FEATURES, shift.round(2).tolist()))["MostRecentBillAmount"]
    1564.74
    """
    return _shipped()["feature_mean"].copy(), _shipped()["feature_deviation"].copy()


def fit(
    signed: np.ndarray, subsample: SupportsIndex | str | None = "all"
) -> tuple[np.ndarray, np.ndarray]:
    """Mean and covariance (divisor n − 1) of what `subsample` draws from the 30,000 signed rows."""
    seed = _subsample(subsample)
    if seed != "all":
        chosen = np.random.default_rng(seed).choice(ROWS, SUBSAMPLE_ROWS, replace=False)
        signed = signed[chosen]
    return signed.mean(axis=0), np.cov(signed, rowvar=False)


def locate(path: str | os.PathLike | None = None, *, download: bool = False) -> Path:
    """The path of the credit CSV, its sha256 checked.

    Looks at `path` if one is given, and nowhere else; otherwise where the environment variable
    PERFORMATIVE_DATA points, then in the user's cache; only with `download=True` does it fetch the
    public file, into that cache.

    Args:
        path: the file, under any name, or a folder that holds it as `credit_processed.csv`.
        download: whether it may be fetched where it is in none of these places.

    Raises:
        FileNotFoundError: it is nowhere to be found, or could not be fetched.
        ValueError: a file is there and is not the credit data.
    """
    if path is not None:
        return _checked(_given(path), "path")
    if (file := _file_at(os.environ.get(VARIABLE))) is not None:
        return _checked(file, VARIABLE)
    if download:
        return _fetched()
    if (file := _file_at(_cache())) is not None:
        return _checked(file, "the user's cache")
    raise FileNotFoundError(_nowhere())


def _subsample(subsample) -> Any:
    if subsample is None or (isinstance(subsample, str) and subsample == "all"):
        return "all"
    allowed = f'subsample must be a seed (an integer >= 0) or "all"; got {subsample!r}.'
    if isinstance(subsample, str):
        raise ValueError(allowed)
    if isinstance(subsample, (bool, np.bool_)):
        raise TypeError(allowed)
    try:
        seed = operator.index(subsample)
    except TypeError:
        raise TypeError(allowed) from None
    if seed < 0:
        raise ValueError(allowed)
    return seed


def _given(path):
    try:
        file = _file_at(os.fspath(path))
    except TypeError:
        raise TypeError(
            f"path must be the path of {FILE} or of its folder; got {path!r}."
        ) from None
    if file is None:
        raise FileNotFoundError(
            f"path must be the file {FILE} or a folder that holds it; got {str(path)!r}."
        )
    return file


def _file_at(place):
    if not place:
        return None
    place = Path(place).expanduser()
    file = place / FILE if place.is_dir() else place
    return file if file.is_file() else None


def _checked(file, where):
    found = hashlib.sha256(file.read_bytes()).hexdigest()
    if found != SHA256:
        raise ValueError(
            f"{where} must lead to the credit data with sha256 {SHA256}; got {str(file)!r} "
            f"with sha256 {found}."
        )
    return file


def _cache():
    # The file is optional, and so is the package that knows where a user's cache is.
    try:
        import pooch
    except ModuleNotFoundError:
        return None
    return pooch.os_cache("performative")


def _fetched():
    try:
        import pooch
    except ModuleNotFoundError:
        raise FileNotFoundError(
            f"{FILE} cannot be downloaded without the package pooch: install it, or fetch {SOURCE} "
            "by hand and give its path."
        ) from None
    try:
        return Path(
            pooch.retrieve(
                SOURCE, f"sha256:{SHA256}", fname=FILE, path=pooch.os_cache("performative")
            )
        )
    except ValueError:
        raise ValueError(
            f"{SOURCE} must send the credit data with sha256 {SHA256}; got another file, not kept."
        ) from None
    except OSError as failure:
        raise FileNotFoundError(
            f"{FILE} could not be downloaded from {SOURCE} ({type(failure).__name__}): fetch it by "
            "hand and give its path."
        ) from failure


def _nowhere():
    variable = os.environ.get(VARIABLE)
    state = f"now {variable!r}, where it is not" if variable else "now not set"
    cache_folder = _cache()
    by_cache = "" if cache_folder is None else f"put it into the cache {str(cache_folder)!r}, "
    return (
        f"{FILE} was not found: give its path or its folder's, set {VARIABLE} to one of them "
        f"({state}), {by_cache}or pass download=True to fetch it from {SOURCE}."
    )


@cache
def _shipped():
    with np.load(MOMENTS, allow_pickle=False) as stored:
        return dict(stored)


def _unpacked(mean, lower):
    covariance = np.zeros((mean.size, mean.size))
    covariance[np.tril_indices(mean.size)] = lower
    return mean.copy(), covariance + np.tril(covariance, -1).T
