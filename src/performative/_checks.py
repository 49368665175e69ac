"""One sentence for every argument that makes no sense: its name, what was given, what is allowed."""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np


def shown(value: Any) -> str:
    """A short, one-line form of `value` for an error message."""
    if isinstance(value, np.ndarray) and value.size > 6:
        return f"an array of shape {value.shape}"
    if inspect.isfunction(value):
        return f"the function {value.__name__}"
    text = " ".join(repr(value).split())
    return text if len(text) <= 80 else text[:77] + "..."


def numbers(name: str, value: Any, *, ndim: int | Sequence[int] | None = None) -> np.ndarray:
    """`value` as a finite float64 array, of one of the numbers of dimensions in `ndim`."""
    if isinstance(value, np.ma.MaskedArray) and np.ma.is_masked(value):
        raise ValueError(
            f"{name} must be numbers throughout; got a masked array with {np.ma.count_masked(value)} "
            "masked entries."
        )
    try:
        array = np.asarray(value)
        if array.dtype.kind not in "biuf":
            raise ValueError
        array = np.array(array, dtype=np.float64)
    except (ValueError, TypeError):
        raise TypeError(
            f"{name} must be numbers in a rectangular array; got {shown(value)}."
        ) from None
    if not np.all(np.isfinite(array)):
        where = tuple(int(i) for i in np.argwhere(~np.isfinite(array))[0])
        place = f" at index {where}" if where else ""
        raise ValueError(f"{name} must be finite; got {array[where]}{place}.")
    allowed = (ndim,) if isinstance(ndim, int) else ndim
    if allowed is not None and array.ndim not in allowed:
        wanted = " or ".join(str(n) for n in allowed)
        raise ValueError(
            f"{name} must have {wanted} dimension(s); got an array of shape {array.shape}."
        )
    return array


def number(
    name: str,
    value: Any,
    *,
    low: float = -np.inf,
    high: float = np.inf,
    open_low: bool = False,
    open_high: bool = False,
) -> float:
    """`value` as a finite float between `low` and `high`."""
    try:
        array = numbers(name, value)
    except TypeError:
        array = None
    if array is None or array.ndim != 0:
        raise TypeError(f"{name} must be a single number; got {shown(value)}.")
    result = float(array)
    too_low = result <= low if open_low else result < low
    too_high = result >= high if open_high else result > high
    if too_low or too_high:
        raise ValueError(
            f"{name} must be {_interval(low, high, open_low, open_high)}; got {plain(result)}."
        )
    return result


def plain(value: float) -> str:
    """A number in few digits, unless these would make another number of it."""
    short = f"{value:g}"
    return short if float(short) == value else repr(float(value))


def _interval(low: float, high: float, open_low: bool, open_high: bool) -> str:
    if np.isinf(high):
        return f"{'above' if open_low else 'at least'} {low:g}"
    if np.isinf(low):
        return f"{'below' if open_high else 'at most'} {high:g}"
    return f"in {'(' if open_low else '['}{low:g}, {high:g}{')' if open_high else ']'}"


def integer(name: str, value: Any, *, low: int | None = None) -> int:
    """`value` as an int of at least `low`."""
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, (int, np.integer)):
        raise TypeError(f"{name} must be a whole number; got {shown(value)}.")
    if low is not None and value < low:
        raise ValueError(f"{name} must be at least {low}; got {value}.")
    if value >= 2**63:
        raise ValueError(f"{name} must be below 2^63; got {value}.")
    return int(value)


def choice(name: str, value: Any, allowed: Iterable[str]) -> str:
    """`value` if it is one of `allowed`, else an error that names the nearest one."""
    names = list(allowed)
    if isinstance(value, str) and value in names:
        return value
    raise ValueError(
        f"{name} must be one of {', '.join(map(repr, names))}; got {shown(value)}."
        + did_you_mean(value, names)
    )


def did_you_mean(value: Any, names: Iterable[str]) -> str:
    """' Did you mean …?' where one of `names` is close to `value`."""
    near = nearest(value, names, cutoff=0.5)
    return f" Did you mean {near!r}?" if near else ""


def nearest(value: Any, names: Iterable[str], cutoff: float = 0.6) -> str | None:
    """The one of `names` that is most like `value`, capitals aside; None where none is close."""
    by_small = {name.lower(): name for name in names}
    found = difflib.get_close_matches(str(value).lower(), by_small, n=1, cutoff=cutoff)
    return by_small[found[0]] if found else None


def instance(name: str, value: Any, kind: type | tuple[type, ...], described: str) -> Any:
    """`value` if it is a `kind`; `described` says how a user gets one."""
    if not isinstance(value, kind):
        raise TypeError(f"{name} must be {described}; got {shown(value)}.")
    return value


def path(name: str, value: Any) -> Path:
    """`value` as the path of a file."""
    try:
        return Path(value)
    except TypeError:
        raise TypeError(f"{name} must be the path of a file; got {shown(value)}.") from None


def function(name: str, value: Any, described: str) -> Any:
    """`value` if it can be called."""
    if not callable(value):
        raise TypeError(f"{name} must be {described}; got {shown(value)}.")
    return value


def file_to_write(name: str, path: Path) -> None:
    """Refuse a file that cannot be written because of where it is, before any work is done."""
    if path.is_dir():
        raise ValueError(f"{name} must be a file; got the folder {str(path)!r}.")
    if not path.parent.is_dir():
        raise FileNotFoundError(f"{name} must be in a folder that exists; got {str(path)!r}.")
