"""How often the answers are right: coverage, type-I error, power and verdicts, measured again.

Simulates logs of one design and size whose truth is known, and questions each; `python -m
performative.attribution.calibrate` prints the table of the documentation.
"""

from __future__ import annotations

from collections import Counter
from typing import Any, NamedTuple

import numpy as np

from performative import _checks
from performative.attribution.attribute import Report
from performative.attribution.estimate import Estimate
from performative.attribution.simulate import SimulatedLog, simulate_log
from performative.attribution.verdict import CANNOT_TELL


class Calibration(NamedTuple):
    """Shares of simulated logs; NaN where nothing was estimated.

    `coverage` and `bias` (mean error over its standard deviation) are of κ, `model_coverage` of the
    models' part of the last round and feature, `share_coverage` of S, `contraction_coverage` of the
    spectral radius; `rejects` says how often "nothing responds" was rejected at 5 %; `wrong` and
    `untold` how often the verdicts were wrong and `cannot tell`, of {"cause", "response", "loop"}.
    """

    logs: int
    coverage: float
    bias: float
    half_width: float
    model_coverage: float
    share_coverage: float
    contraction_coverage: float
    rejects: float
    wrong: dict[str, float]
    untold: dict[str, float]
    words: dict[str, Counter]


def calibrate(design: str, *, logs: int = 300, seed: int = 0, **setting: Any) -> Calibration:
    """Question `logs` simulated logs of one design and size, see `simulate_log` for the setting.

    >>> found = calibrate("single", logs=5, rounds=8, rows=1000)
    >>> found.untold
    {'cause': 1.0, 'response': 1.0, 'loop': 1.0}
    """
    logs = _checks.integer("logs", logs, low=1)
    questioned = []
    for k in range(logs):
        log = simulate_log(design, seed=seed + k, **setting)
        questioned.append((log, Report(log.summary)))
    return measure(questioned)


def measure(questioned: list[tuple[SimulatedLog, Report]]) -> Calibration:
    """Compare reports with the truth of their logs."""
    found = [_one(log, report) for log, report in questioned]
    errors = np.array([one["error"] for one in found])
    spread = np.nanstd(errors) if np.isfinite(errors).any() else np.nan
    words = {name: Counter(one["words"][name] for one in found) for name in _QUESTIONS}
    return Calibration(
        len(found),
        _mean(found, "covers"),
        float(np.nanmean(errors) / spread) if spread > 0 else np.nan,
        _mean(found, "half_width"),
        _mean(found, "model_covers"),
        _mean(found, "share_covers"),
        _mean(found, "contraction_covers"),
        _mean(found, "rejects"),
        {name: float(np.mean([one["wrong"][name] for one in found])) for name in _QUESTIONS},
        {name: words[name][CANNOT_TELL] / len(found) for name in _QUESTIONS},
        words,
    )


_QUESTIONS = ("cause", "response", "loop")


def _mean(found: list[dict[str, Any]], name: str) -> float:
    values = np.array([one[name] for one in found], dtype=float)
    known = values[np.isfinite(values)]
    return float(known.mean()) if known.size else np.nan


def _covers(estimate: Estimate | None, truth: float) -> float:
    return np.nan if estimate is None else float(estimate.low <= truth <= estimate.high)


def _one(log: SimulatedLog, report: Report) -> dict[str, Any]:
    truth, strength = log.truth, report.strength
    words = report.verdict
    drift = report.drift
    model, error = drift["model"].values[-1, -1], drift["model_se"].values[-1, -1]
    reach = drift.attrs["critical"] * error
    p = report.p_response
    return {
        "covers": _covers(strength, truth.kappa),
        "error": np.nan if strength is None else strength.value - truth.kappa,
        "half_width": np.nan if strength is None else strength.half_width,
        "model_covers": float(abs(model - truth.model[-1, -1]) <= reach) if reach > 0 else np.nan,
        "share_covers": _covers(report.share, truth.share),
        "contraction_covers": _covers(report.contraction, truth.radius),
        "rejects": np.nan if not np.isfinite(p) else float(p < 0.05),
        "words": words,
        "wrong": {
            "cause": _wrong_cause(words["cause"], truth.share),
            "response": words["response"]
            == ("negligible" if np.any(truth.response) else "responds"),
            "loop": words["loop"] == ("stable" if truth.radius >= 1 else "unstable"),
        },
    }


def _wrong_cause(word: str, share: float) -> bool:
    """Whether a verdict contradicts the true share; a small true κ may well be negligible."""
    return {
        "mostly the model": not share > 0.5,
        "mostly the world": not share < 0.5,
        "both": not 0.1 < share < 0.9,
        "no drift": np.isfinite(share),
    }.get(word, False)


def table(logs: int = 300) -> list[tuple[str, Calibration]]:
    """The settings of the documentation's table."""
    asked = [
        (design, kappa, *size)
        for design in ("pair", "canary", "holdout")
        for kappa in (0.0, 0.3, 0.8, 1.2)
        for size in ((8, 1000), (24, 10_000))
    ]
    asked += [("dither", kappa, 24, 10_000) for kappa in (0.0, 0.8)]
    asked += [("single", kappa, 24, 10_000) for kappa in (0.0, 0.8)]
    found = []
    for design, kappa, rounds, rows in asked:
        name = f"{design}, κ = {0.7 * kappa:.2f}, {rounds} × {rows:,}"
        setting = {"kappa": kappa, "rounds": rounds, "rows": rows}
        found.append((name, calibrate(design, logs=logs, **setting)))
    return found


def main(logs: int = 300) -> None:
    """Print the table, as Markdown."""
    heads = ["log", "κ covers", "model's part covers", "share covers", "responds: p < .05"]
    heads += [f"{name}: wrong / untold" for name in ("cause", "loop")]
    print("|", " | ".join(heads), "|\n|", " | ".join(["---"] * len(heads)), "|")
    for name, one in table(logs):
        figures = (one.coverage, one.model_coverage, one.share_coverage, one.rejects)
        told = ["–" if np.isnan(value) else f"{value:.2f}" for value in figures]
        told += [f"{one.wrong[word]:.2f} / {one.untold[word]:.2f}" for word in ("cause", "loop")]
        print("|", " | ".join([name, *told]), "|", flush=True)


if __name__ == "__main__":
    import sys

    main(*(int(value) for value in sys.argv[1:]))
