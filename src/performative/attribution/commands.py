"""What `performative attribute`, `plan` and `calibrate` do; `cli` has their options.

Prints, writes files, and nothing else: every figure and every sentence is made elsewhere.
"""

from __future__ import annotations

import csv
import json
import shutil
from pathlib import Path
from typing import Any

import typer

from performative import _checks
from performative.attribution import screen
from performative.attribution.attribute import Report, attribute
from performative.attribution.calibrate import calibrate as measured
from performative.attribution.export import plain


def question(log: str, models: str | None, schema: dict[str, Any], **settings: Any) -> Report:
    """The report of a log, or of aggregates kept from one."""
    if log.endswith(".nc"):
        given = {name: value for name, value in schema.items() if value}
        changeable = {"assignment", "immutable"}
        for name in [*(["models"] if models else []), *(set(given) - changeable)]:
            raise ValueError(
                f"{name} must not be given with saved aggregates, which have it; "
                f"{', '.join(sorted(changeable))} may be declared anew."
            )
        if given.get("assignment") == "none":  # the default declares nothing
            del given["assignment"]
        return attribute(log, **settings, **given)
    return attribute(log, models=models, **settings, **schema)


def shares(split: str | None) -> dict[str, float] | None:
    """The intended split, from a text such as old=0.2,new=0.8."""
    if split is None:
        return None
    pairs = [part.partition("=") for part in split.split(",")]
    try:
        return {arm.strip(): float(share) for arm, _, share in pairs}
    except ValueError:
        raise ValueError(
            f"split must be the intended share of every arm, such as old=0.2,new=0.8; got {split!r}."
        ) from None


def check_files(**files: Path | None) -> None:
    """Find out before the work whether its results can be written."""
    for name, file in files.items():
        if file is not None:
            _checks.file_to_write(name, file)


def show(report: Report, *, as_json: bool, html: Path | None, save: Path | None) -> None:
    """Print a report, and write what is wanted of it."""
    if save is not None:
        report.summary.save(save)
    if html is not None:
        report.to_html(html)
    if as_json:
        typer.echo(json.dumps(report.as_dict(), indent=2, ensure_ascii=False))
        return
    typer.echo(screen.render(report, _width()))
    for file in (html, save):
        if file is not None:
            typer.echo(f"Wrote {file}")


def plan(
    report: Report,
    power: float,
    effect: float,
    wanted: dict[str, Any],
    *,
    as_json: bool,
    out: Path | None,
) -> None:
    """Print an experiment, and write its models."""
    options: dict[str, Any] = wanted | {"power": power, "effect": effect}
    if options["question"] is None and options["share"] != 0.5:
        options["question"] = "canary"  # the only one that has a share to choose
    asked = options["question"] is not None
    found = None if asked else screen.best_plan(report, **options)
    found = found or report.experiment(**options)  # which says what is wrong where none was found
    if out is not None:
        _write_models(found.table(), out)
    if as_json:
        typer.echo(json.dumps(plain(found.as_dict()), indent=2, ensure_ascii=False))
        return
    says = [screen.described(report), *screen.planned(report, found)]
    typer.echo(screen.block("Your log:", says[:1], _width()))
    typer.echo(screen.block("Next experiment:", says[1:], _width()))
    if out is not None:
        typer.echo(f"Wrote {out}")


def _write_models(table: dict[str, list[Any]], out: Path) -> None:
    if not table:
        raise ValueError(
            "out must go with models whose weights are known (models); this log has versions only: "
            "keep the outgoing one."
        )
    with open(out, "w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(table)
        writer.writerows(zip(*table.values(), strict=True))


def calibrate(design: str, logs: int, seed: int, setting: dict[str, Any], *, as_json: bool) -> None:
    """Print how often the answers about simulated logs are right."""
    found = measured(design, logs=logs, seed=seed, **setting)
    told = plain(found._asdict())
    if as_json:
        typer.echo(json.dumps(told, indent=2))
        return
    about = ", ".join(f"{name} {value}" for name, value in setting.items())
    typer.echo(f"{logs} logs of design {design!r}: {about}, seeds from {seed}")
    for name, value in told.items():
        if name not in ("logs", "words") and not isinstance(value, dict):
            shown = "not estimated" if value is None else f"{value:.3f}"
            typer.echo(f"  {name.replace('_', ' '):<22} {shown}")
    for name, counts in told["words"].items():
        wrong, untold = told["wrong"][name], told["untold"][name]
        words = ", ".join(f"{word} {count}" for word, count in sorted(counts.items()))
        typer.echo(f"  {name:<22} wrong {wrong:.3f}, cannot tell {untold:.3f}   ({words})")


def _width() -> int:
    return max(60, min(shutil.get_terminal_size().columns, screen.WIDTH))
