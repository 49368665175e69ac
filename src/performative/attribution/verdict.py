"""The words and the cut-offs: from figures with intervals to one of a few plain verdicts.

`cannot tell` is a verdict like the others. Every other one needs a design that identifies what it
says and checks that do not object.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from performative.attribution.estimate import Estimate

CANNOT_TELL = "cannot tell"


class Cutoffs(NamedTuple):
    """The conventions; all can be set."""

    margin: float = 0.05
    significance: float = 0.05
    outside: float = 0.05
    noise: float = 2.0
    sample_ratio: float = 1e-4
    control: float = 0.01
    fit: float = 0.002
    steady: float = 0.01


class Verdict(NamedTuple):
    """A word and its reason."""

    word: str
    why: str


def response(p: float, strength: Estimate | None, cutoffs: Cutoffs) -> Verdict:
    """Does data respond? `responds`, `negligible` or `cannot tell`.

    The interval of κ decides only where there is no p-value, as at repeated looks: to take whichever
    of the two finds something would err 7 times in 100 where nothing responds.
    """
    excludes = strength is not None and (strength.low > 0 or strength.high < 0)
    if p < cutoffs.significance or (np.isnan(p) and excludes):
        return Verdict("responds", "the arms' data differ as the models do")
    inside = strength is not None and max(-strength.low, strength.high) < cutoffs.margin
    if inside:
        return Verdict("negligible", f"any response is smaller than {cutoffs.margin:g}")
    return Verdict(CANNOT_TELL, "neither a response nor its absence is certain with these rows")


def cause(
    size: float, noise: float, outside: float, share: Estimate | None, cutoffs: Cutoffs
) -> Verdict:
    """Was it my model? From the share of all drift, where its path was tested."""
    if size - noise <= 0:
        return Verdict("no drift", "the data moved no more than sampling does")
    if size < cutoffs.noise * noise:
        return Verdict(CANNOT_TELL, "the data moved hardly more than sampling does")
    if outside > cutoffs.outside:
        why = f"{outside:.0%} of the models' way lies outside the directions in which arms differed"
        return Verdict(CANNOT_TELL, why)
    if share is None or not np.isfinite(share.value):
        return Verdict(CANNOT_TELL, "the models' part of the drift is not known")
    if share.low > 0.5:
        return Verdict("mostly the model", "the models' part is more than half")
    if share.high < 0.5:
        return Verdict("mostly the world", "the models' part is less than half")
    if share.low > 0.1 and share.high < 0.9:
        return Verdict("both", "model and world both had a clear part")
    return Verdict(CANNOT_TELL, "the interval of the models' part is too wide")


def withheld(reason: str) -> Verdict:
    """No verdict, whatever the figures say."""
    return Verdict(CANNOT_TELL, reason)
