"""A report as one page: self-contained, offline, of aggregates only; for screens, phones and paper.

The sentences are `screen`'s and the pictures `pictures`'; here they are laid out, with the table of
what each kind of log can tell and the declarations that the verdicts rest on.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from html import escape
from pathlib import Path
from string import Template
from typing import TYPE_CHECKING

import numpy as np

from performative.attribution import pictures, screen

if TYPE_CHECKING:
    from performative.attribution.attribute import Report

KINDS = {
    "single": ("One model a round, retrained on its data", "nothing; only which pairs fit"),
    "event": (
        "One model, each version held for several rounds",
        "nothing without trusting the world",
    ),
    "segments": (
        "Segments with models of their own, not random",
        "nothing: segments differ anyway",
    ),
    "schedule": ("Two models in turns, on a schedule", "their difference, if the world is smooth"),
    "switchback": ("Two models in turns, by coin flip", "their difference (wide)"),
    "dither": ("One model, logged random perturbations", "the response's size (wide)"),
    "canary": (
        "Outgoing and new model side by side, random units",
        "cause, response and stability along what changed",
    ),
    "holdout": (
        "A holdout beside the models, random units",
        "the model's footprint, whatever the response; cause",
    ),
    "arms": (
        "Several models side by side, random units",
        "cause, response, stability in the directions tried",
    ),
}
"""What each kind of log can tell."""

STYLE = """
:root { --ink: #1d2330; --soft: #5b6474; --line: #dfe3ea; --back: #ffffff; --card: #f6f7f9; }
* { box-sizing: border-box; }
body { margin: 0 auto; padding: 1.5rem 1rem 3rem; max-width: 56rem; color: var(--ink);
  background: var(--back); font: 16px/1.5 system-ui, -apple-system, "Segoe UI", sans-serif; }
h1 { font-size: 1rem; font-weight: 600; color: var(--soft); margin: 0 0 1rem; }
h2 { font-size: 1.15rem; margin: 2.2rem 0 .5rem; }
p { margin: .3rem 0; }
.answers { display: grid; gap: .8rem; }
.answer { background: var(--card); border-left: 5px solid #888; border-radius: 4px;
  padding: .8rem 1rem; }
.answer h3 { font-size: .95rem; font-weight: 600; color: var(--soft); margin: 0; }
.answer .word { font-size: 1.35rem; font-weight: 700; letter-spacing: .01em; }
.told { border-color: #0072B2; } .untold { border-color: #999; } .bad { border-color: #D55E00; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; width: 100%; font-size: .92rem; }
th, td { text-align: left; padding: .35rem .6rem; border-bottom: 1px solid var(--line);
  vertical-align: top; }
th { color: var(--soft); font-weight: 600; }
td.n, th.n { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }
tr.yours { background: #e6f1f8; font-weight: 600; }
svg { width: 100%; height: auto; display: block; }
svg text { font: 11px system-ui, sans-serif; fill: #1d2330; }
svg text.tick { fill: #5b6474; font-size: 10.5px; }
svg text.panel { font-weight: 600; font-size: 12px; }
.key { color: var(--soft); font-size: .9rem; }
.key b.m { color: #0072B2; } .key b.w { color: #D55E00; } .key b.t { color: #333; }
ul { padding-left: 1.2rem; margin: .3rem 0; }
footer { margin-top: 2.5rem; color: var(--soft); font-size: .85rem; }
code { background: var(--card); padding: 0 .25em; border-radius: 3px; }
@media (max-width: 40rem) { body { font-size: 15px; padding: 1rem .8rem 2rem; }
  .pictures { overflow-x: auto; } .pictures svg { min-width: 34rem; } }
@media print { body { max-width: none; padding: 0; font-size: 10.5pt; }
  .answer, tr, svg { break-inside: avoid; } h2, .key, .label { break-after: avoid; }
  .answer, tr.yours { -webkit-print-color-adjust: exact; print-color-adjust: exact; } }
"""

PAGE = Template("""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Was it my model? $word</title>
<style>$style</style>
</head>
<body>
<h1>$log</h1>
<main>
$body
</main>
<footer>Data fingerprint <code>$fingerprint</code>. Counts, means and variances of groups of at least
30 rows; nothing about any single row is in this page. Made by performative $version.</footer>
</body>
</html>
""")


def write(report: Report, path: str | os.PathLike[str]) -> Path:
    """Write the page of a report to a file, and return its path."""
    place = Path(path)
    place.write_text(page(report), encoding="utf-8")
    return place


def page(report: Report) -> str:
    """The page of a report."""
    from performative import __version__

    answers = screen.answers(report)
    evidence = screen.evidence(report)
    parts = [
        f'<div class="answers">{"".join(_answer(a) for a in answers)}</div>',
        _stories(report),
        _section("Next experiment", _paragraphs(evidence.get("Next experiment:", []))),
        _drift(report),
        _contrasts(report),
        _dial(report),
        _section("Checked", _checks(report)),
        _section("Mind", _list(evidence.get("Mind:", []))),
        _section("Assumed, and not testable with this log", _list(_assumed(report))),
        _section("Not knowable from such a log", _list(evidence["Not knowable here:"])),
        _section("What a log can tell", _kinds(report)),
        _section("Declared", _declared(report)),
    ]
    return PAGE.substitute(
        word=escape(answers[0].word),
        style=STYLE,
        log=escape(screen.described(report)),
        body="\n".join(part for part in parts if part),
        fingerprint=escape(str(report.summary.data.attrs["fingerprint"])),
        version=__version__,
    )


def _answer(answer: screen.Answer) -> str:
    kind = "untold" if answer.word in ("", "CANNOT TELL.") else "told"
    if answer.question == "Is the loop stable?" and answer.word == "NO.":
        kind = "bad"
    word = f'<p class="word">{escape(answer.word)}</p>' if answer.word else ""
    return (
        f'<section class="answer {kind}"><h3>{escape(answer.question)}</h3>{word}'
        f"{_paragraphs(answer.says)}</section>"
    )


def _section(title: str, body: str) -> str:
    return f"<section><h2>{escape(title)}</h2>{body}</section>" if body else ""


def _paragraphs(sentences: Iterable[str]) -> str:
    return "".join(f"<p>{_code(text)}</p>" for text in sentences)


def _list(sentences: Sequence[str]) -> str:
    return (
        f"<ul>{''.join(f'<li>{_code(text)}</li>' for text in sentences)}</ul>" if sentences else ""
    )


def _code(text: str) -> str:
    """Escaped, with what stands between backticks as code."""
    parts = escape(text).split("`")
    return "".join(f"<code>{p}</code>" if k % 2 else p for k, p in enumerate(parts))


def _table(head: Sequence[str], rows: Iterable[Sequence[str]], numbers: int = 0) -> str:
    """`numbers`: how many of the last columns are figures."""
    first = len(head) - numbers
    mark = [' class="n"' if k >= first else "" for k in range(len(head))]
    top = "".join(f"<th{m}>{escape(text)}</th>" for m, text in zip(mark, head, strict=True))
    body = "".join(
        "<tr>"
        + "".join(f"<td{m}>{escape(t)}</td>" for m, t in zip(mark, row, strict=True))
        + "</tr>"
        for row in rows
    )
    return f'<div class="scroll"><table><thead><tr>{top}</tr></thead><tbody>{body}</tbody></table></div>'


def _drift(report: Report) -> str:
    if report.rounds < 2:
        return ""
    split = report.design.concurrent and not report.objection
    each = screen.period(report)
    key = (
        '<p class="key"><b class="t">Black: the data.</b> '
        + (
            '<b class="m">Blue: your model\'s part.</b> <b class="w">Orange: the world\'s part.</b> '
            "Bands: 95 % intervals. "
            if split
            else "Its parts cannot be told apart. "
        )
        + f"Since {each} 1, in standard deviations of a {each}'s rows.</p>"
    )
    rows = []
    for line in screen.lines(report):
        name = f"{line.name} (control)" if line.control else line.name
        row = [name, f"{line.total:+.2f}"]
        if split:
            pairs = ((line.model, line.model_error), (line.world, line.world_error))
            row += [
                f"{value:+.2f} ± {error:.2f}" if np.isfinite(value) else "unknown"
                for value, error in pairs
            ]
        rows.append(row)
    head = ["feature", "drift", "your model", "world"] if split else ["feature", "drift"]
    table = _table(head, rows[:60], len(head) - 1)
    label = '<p class="label">{}</p>'
    picture = (
        label.format("All features together, as a distance:")
        + pictures.distance(report)
        + label.format("Feature by feature:")
        + pictures.drift(report)
    )
    return _section("Where the data went", f'{key}<div class="pictures">{picture}</div>{table}')


def _stories(report: Report) -> str:
    picture = pictures.stories(report)
    key = (
        '<p class="key">Every point of the line fits this log equally well, from <b class="m">only '
        'your model</b> to <b class="w">only the world</b>; a longer log would not help.</p>'
    )
    return _section(
        "Why nobody can tell", f'{key}<div class="pictures">{picture}</div>' * bool(picture)
    )


def _contrasts(report: Report) -> str:
    picture = pictures.contrasts(report)
    if not picture:
        return ""
    key = (
        '<p class="key">A dot: one arm, one round, one feature, next to the other arms of the same '
        'round. <b class="m">Blue: the response</b> with its 95 % interval; flat means that people '
        "do not react. The world moves all arms of a round alike, and is not in this picture.</p>"
    )
    return _section("What the arms showed", key + f'<div class="pictures">{picture}</div>')


def _dial(report: Report) -> str:
    picture = pictures.dial(report)
    if not picture:
        return ""
    key = (
        '<p class="key">What is left of an error after one retraining. Between the '
        '<b class="w">edges at −1 and 1</b> retraining settles; beyond, it runs away. gamma is the '
        "theory's own bound, sufficient but not necessary.</p>"
    )
    return _section("The retraining loop", key + f'<div class="pictures">{picture}</div>')


def _checks(report: Report) -> str:
    words = {True: "passed", False: "FAILED", None: "not testable"}
    rows = [
        [c.name, c.says, f"{c.p:.3g}" if np.isfinite(c.p) else "–", words[c.passed]]
        for c in report.checks
    ]
    if report.summary.has_units:
        says = "rows of one unit go together; errors are by 40 buckets of units"
        rows.append(["units", says, "–", "allowed for"])
    return _table(["check", "what it asks", "p", "result"], rows) if rows else ""


def _assumed(report: Report) -> list[str]:
    return (
        [screen.sentence(text) for text in report.assumptions] if report.design.concurrent else []
    )


def _kinds(report: Report) -> str:
    rows = "".join(
        f"<tr{' class=yours' if kind == report.design.kind else ''}>"
        f"<td>{escape(name)}{' ← yours' if kind == report.design.kind else ''}</td>"
        f"<td>{escape(tells)}</td></tr>"
        for kind, (name, tells) in KINDS.items()
    )
    head = "<tr><th>kind of log</th><th>what it can tell</th></tr>"
    return f'<div class="scroll"><table><thead>{head}</thead><tbody>{rows}</tbody></table></div>'


def _declared(report: Report) -> str:
    data = report.summary.data
    attrs = data.attrs
    labels = data["round_label"].values
    given = {
        "rows": f"{int(data['rows'].sum()):,}",
        "rounds": f"{report.rounds} ({labels[0]} to {labels[-1]})",
        "length of a round": attrs["every"] or "as numbered in the log",
        "cells (round and arm)": f"{data.sizes['cell']}, smallest {int(data['rows'].min()):,} rows",
        "units": f"about {attrs['units']:,}" if report.summary.has_units else "not named",
        "assignment": attrs["assignment"],
        "features": ", ".join(report.features),
        "immutable": ", ".join(report.immutable) or "none",
        "loss": (attrs["loss"] or "not declared (squared loss where one is needed)")
        + (f", l2 = {attrs['l2']:g}" if attrs["loss"] else ""),
        "negligible below": screen.number(report.cutoffs.margin),
        "intervals": "valid at every look" if report.anytime else "95 %, for one look",
    }
    return _table(["", ""], given.items())
