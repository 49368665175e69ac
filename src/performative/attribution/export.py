"""A report as plain numbers and texts, for JSON and for other programs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import xarray as xr

from performative.attribution.estimate import Estimate

if TYPE_CHECKING:
    from performative.attribution.attribute import Report


SCHEMA = 1
"""Goes up when a key of `as_dict` changes its name or meaning, not when one is added."""


def as_dict(report: Report) -> dict[str, Any]:
    """Verdicts, figures, checks and what cannot be known; aggregates only, NaN as None."""
    from performative.attribution.screen import best_plan

    plan = best_plan(report)
    loop, trap, gap = report.loop, report.trap, report.gap
    found = {
        "schema": SCHEMA,
        "verdict": report.verdict,
        "why": report.why,
        "design": {"kind": report.design.kind, "described": report.design.described},
        "assignment": report.summary.data.attrs["assignment"],
        "rounds": report.rounds,
        "rows": int(report.summary.data["rows"].sum()),
        "features": report.features,
        "share": report.share,
        "strength": report.strength,
        "contraction": report.contraction,
        "pooled_contraction": report.pooled_contraction,
        "directions": None
        if loop is None
        else {"known": loop.known, "of": loop.of, "each": loop.directions},
        "sufficient_gamma": report.sufficient,
        "distance_to_stable_point": report.distance,
        "stable_point": report.stable_point,
        "offline_online_gap": report.offline_online_gap,
        "offline": None if gap is None else gap.offline,
        "online": None if gap is None else gap.online,
        "outcome_response": report.outcome_response,
        "extent": report.extent,
        "outside": report.outside if report.design.concurrent else None,
        "drift": report.drift,
        "footprint": report.footprint,
        "naive_regression": None if trap is None else {"slope": trap.slope, "believe": False},
        "checks": [check._asdict() for check in report.checks],
        "tests": {name: test._asdict() for name, test in report.tests.items()},
        "warnings": report.warnings,
        "assumptions": report.assumptions,
        "unknowable": report.unknowable,
        "next_experiment": None
        if plan is None
        else {name: value for name, value in plan.as_dict().items() if name != "models"},
        "fingerprint": report.summary.data.attrs["fingerprint"],
    }
    return {name: plain(value) for name, value in found.items()}


def plain(value: Any) -> Any:
    """Lists, dictionaries, numbers and texts in place of what only Python knows."""
    if isinstance(value, Estimate):
        return {name: plain(float(part)) for name, part in value._asdict().items()}
    if isinstance(value, xr.Dataset):
        names = [*value.coords, *value.data_vars]
        return {str(name): plain(value[name].values) for name in names} | plain(value.attrs)
    if isinstance(value, np.ndarray):
        return plain(value.tolist())
    if isinstance(value, dict):
        return {str(name): plain(part) for name, part in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(part) for part in value]
    if isinstance(value, (bool, np.bool_)):
        return bool(value)
    if isinstance(value, (float, np.floating)):
        return float(value) if np.isfinite(value) else None
    return int(value) if isinstance(value, np.integer) else value
