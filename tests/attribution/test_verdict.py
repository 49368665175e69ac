import pytest

from performative.attribution import verdict
from performative.attribution.estimate import Estimate

CUTOFFS = verdict.Cutoffs()


@pytest.mark.parametrize(
    ("p", "strength", "word"),
    [
        (0.01, (0.01, -0.02, 0.04), "responds"),
        (0.06, (0.03, 0.001, 0.06), "cannot tell"),
        (float("nan"), (0.03, 0.01, 0.05), "responds"),
        (0.5, (0.01, -0.02, 0.04), "negligible"),
        (0.5, (0.01, -0.04, 0.06), "cannot tell"),
        (float("nan"), (0.2, -0.1, 0.5), "cannot tell"),
    ],
)
def test_response(p, strength, word):
    assert verdict.response(p, Estimate(*strength), CUTOFFS).word == word


@pytest.mark.parametrize(
    ("size", "noise", "outside", "share", "word"),
    [
        (1.0, 1.1, 0.0, (0.9, 0.8, 1.0), "no drift"),
        (1.5, 1.0, 0.0, (0.9, 0.8, 1.0), "cannot tell"),
        (9.0, 1.0, 0.06, (0.9, 0.8, 1.0), "cannot tell"),
        (9.0, 1.0, 0.04, (0.9, 0.8, 1.0), "mostly the model"),
        (9.0, 1.0, 0.0, (0.1, -0.2, 0.4), "mostly the world"),
        (9.0, 1.0, 0.0, (0.5, 0.2, 0.8), "both"),
        (9.0, 1.0, 0.0, (0.5, 0.05, 0.8), "cannot tell"),
    ],
)
def test_cause(size, noise, outside, share, word):
    assert verdict.cause(size, noise, outside, Estimate(*share), CUTOFFS).word == word
