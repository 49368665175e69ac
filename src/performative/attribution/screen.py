"""A report in words: the verdict first, then the evidence, the checks, what to do next.

Written for somebody who runs a model and has never heard of performative prediction. The sentences
are made here once, for the terminal and for the page of `html`; the figures are the report's.
"""

from __future__ import annotations

import math
import re
import textwrap
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from performative.attribution.estimate import Estimate
from performative.attribution.log import listed
from performative.attribution.verdict import CANNOT_TELL

if TYPE_CHECKING:
    from performative.attribution.attribute import Report
    from performative.attribution.plan import Experiment

LABEL = 19
"""Width of the column of questions."""

WIDTH = 80
MOST_FEATURES = 8
MOST_NAMED = 5
LONG = 26
"""An experiment of more rounds than this is worth an alternative."""

UNITS = {"min": "minute", "h": "hour", "d": "day", "w": "week", "mo": "month", "q": "quarter"}


class Answer(NamedTuple):
    """A question, the answer in a word or two, and the sentences that go with it."""

    question: str
    word: str
    says: list[str]


class Line(NamedTuple):
    """One feature's drift from the first round to the last, in within-round deviations."""

    name: str
    control: bool
    total: float
    model: float
    model_error: float
    world: float
    world_error: float


def render(report: Report, width: int = WIDTH) -> str:
    """The whole report as plain text."""
    blocks = [block(a.question, [a.word, *a.says], width) for a in answers(report)]
    blocks.append(_table(report))
    blocks += [block(label, says, width) for label, says in evidence(report).items()]
    return "\n".join(block for block in blocks if block)


# Answers


def answers(report: Report) -> list[Answer]:
    """The three questions and where to go, answered."""
    found = [_cause(report), _response(report), _loop(report)]
    where = _where(report)
    return [*found, Answer("Where to?", "", where)] if where else found


def _cause(report: Report) -> Answer:
    question, word, share = "Was it my model?", report.verdict["cause"], report.share
    if word == "no drift":
        return Answer(question, "NO DRIFT.", ["The data moved no more than chance does."])
    if word != CANNOT_TELL and share is not None:
        return Answer(question, f"{word.upper()}.", [shares(share)])
    says = _why_not(report, "cause")
    if report.trap is not None:
        says += _trap(report)
    elif share is not None and share.high - share.low < 1:
        if _conditional(report):
            says.append(f"If the arms are comparable: {_lower(shares(share))}")
        elif not report.objection:
            says.append(shares(share))
    return Answer(question, "CANNOT TELL.", says)


def shares(share: Estimate) -> str:
    interval = f"[{_percent(share.low)}, {_percent(share.high)}]"
    part = f"Your model's part of the drift is {_percent(share.value)} {interval}"
    if share.high < 0:
        return f"{part}: it pushed against the world, and without it the data would have moved further."
    if share.low > 1:
        return f"{part}: the world pushed back, else the data would have moved further."
    if not 0 <= share.value <= 1:
        return f"{part}: {'none' if share.value < 0 else 'all'} of it, as far as one can see."
    return (
        f"{_percent(share.value)} of the drift is your model's doing {interval}; "
        f"{_percent(1 - share.value)} is the world's."
    )


def _trap(report: Report) -> list[str]:
    """The two explanations of this very log, and the regression not to use."""
    trap = report.trap
    assert trap is not None
    slope, each = trap.slope, period(report)
    if report.design.randomised:
        return []
    memory = min(max(slope.value, 0.0), 1.0)
    return [
        "Two stories fit this log equally well: your model moves the data (feedback "
        f"{number(trap.curve(0.0))}) in a world without memory, or it moves nothing (no feedback) in a "
        f"world with {each}-to-{each} memory {number(memory)}.",
        f"(A regression of the data on the weights says {estimate(slope)}. It says the same about "
        "weather. Do not use it.)",
    ]


def _response(report: Report) -> Answer:
    question, word = "Does data respond?", report.verdict["response"]
    strength = report.strength if report.summary.has_weights else None
    p = report.p_response
    if word == "responds":
        says = []
        if strength is not None:
            says.append(
                f"Features move {estimate(strength)} per unit of weight, {_way(strength)}{_p(p)}"
                f"{_for_example(strength)}."
            )
        else:
            says.append(f"What people look like differs with the model they meet{_p(p)}.")
        return Answer(question, "YES.", says + _outcome(report))
    if word == "negligible":
        margin = number(report.cutoffs.margin)
        says = f"Any response is smaller than {margin}"
        says += f": {estimate(strength)} per unit of weight." if strength is not None else "."
        return Answer(question, "NOT NOTICEABLY.", [says, *_outcome(report)])
    says = _why_not(report, "response")
    if strength is not None and (_conditional(report) or not report.objection):
        lead = "If the arms are comparable, features" if _conditional(report) else "Features"
        says.append(f"{lead} move {estimate(strength)} per unit of weight.")
    return Answer(question, "CANNOT TELL.", says)


def _way(strength: Estimate) -> str:
    if strength.low > 0:
        return "the way the weights point"
    return "against the weights" if strength.high < 0 else "some with the weights, some against"


def _for_example(strength: Estimate) -> str:
    if strength.low <= 0 <= strength.high:
        return ""
    verb = "rises" if strength.low > 0 else "falls"
    return f": raise a weight by 1, and its feature {verb} by about {number(abs(strength.value))}"


def _outcome(report: Report) -> list[str]:
    tau = report.outcome_response
    if tau is None or report.objection:
        return []
    if tau.low > 0:
        return [
            f"Predictions fulfil themselves: one more predicted is {estimate(tau)} more outcome."
        ]
    if tau.high < 0:
        return [f"Predictions defeat themselves: one more predicted is {estimate(tau)} outcome."]
    return [f"The prediction itself does not noticeably change the outcome: {estimate(tau)}."]


def _loop(report: Report) -> Answer:
    question, word, rho = "Is the loop stable?", report.verdict["loop"], report.contraction
    known = report.loop
    if word == CANNOT_TELL or rho is None or known is None:
        says = _why_not(report, "loop")
        if rho is not None and known is not None and not report.objection:
            says.append(
                f"Contraction {estimate(rho)}, in the {known.known} of {known.of} directions tried."
            )
        return Answer(question, "CANNOT TELL.", says)
    tried = "in every direction" if known.known == known.of else (
        f"in the {known.known} of {known.of} directions you tried"
    )  # fmt: skip
    if word == "stable":
        says = [
            f"Retraining settles, {tried}: contraction {estimate(rho)} < 1, {_shrinks(rho.value)}."
        ]
    else:
        says = [
            f"Retraining chases its own effect: contraction {estimate(rho)} > 1, every retraining "
            f"makes an error {number(rho.value)} times as large. Do not let it run by itself."
        ]
    yes = "YES." if known.known == known.of else "YES, WHERE TRIED."
    return Answer(question, yes if word == "stable" else "NO.", says + _guarantee(report))


def _shrinks(rho: float) -> str:
    if rho <= 0.1:
        return "so that one retraining removes nine tenths of an error or more"
    steps = math.ceil(math.log(0.1) / math.log(min(rho, 0.999)) - 1e-9)
    words = {2: "two", 3: "three", 4: "four", 5: "five", 6: "six", 7: "seven", 8: "eight"}
    return f"so that an error shrinks to a tenth in {words.get(steps, steps)} retrainings"


def _guarantee(report: Report) -> list[str]:
    gamma = report.sufficient
    if gamma is None:
        return []
    if gamma.high < 1:
        return [f"The theorem's condition, gamma < 1, holds as well: {estimate(gamma)}."]
    if gamma.low >= 1:
        return [f"The theorem alone, which needs gamma < 1, would not say so: {estimate(gamma)}."]
    return [f"Whether the theorem's condition, gamma < 1, holds is open: {estimate(gamma)}."]


def _where(report: Report) -> list[str]:
    if report.objection:
        return []
    says = []
    if report.distance is not None:
        says.append(
            f"Retrained on and on, the weights would come to rest {estimate(report.distance)} away "
            "from those deployed now."
        )
    gap = report.gap
    if gap is not None:
        says.append(
            f"Offline evaluation promised {signed(gap.offline.value)} loss, online gave "
            f"{signed(gap.online.value)}: the difference {estimate(gap.gap)} is the data's answer to "
            "your model."
        )
    return says


def _why_not(report: Report, name: str) -> list[str]:
    design = report.design
    if not design.concurrent and not design.randomised and name == "cause":
        return {
            "single": ["One model ran at a time and each was trained on the data before it."],
            "event": ["One model ran at a time, so that the world's moves look like the model's."],
            "schedule": [
                "Two models took turns on a schedule: a world with that rhythm looks the same."
            ],
            "switchback": ["Two models took turns, and nobody declared that a coin decided."],
        }.get(design.kind, [sentence(report.why[name])])
    if name != "cause" and report.objection:
        return ["As above."]
    hint = ["If they were, say so: --assignment units."] if _conditional(report) else []
    return [sentence(report.why[name]), *hint]


def _conditional(report: Report) -> bool:
    """Whether only the missing declaration stands between the figures and a verdict."""
    undeclared = report.summary.data.attrs["assignment"] == "none"
    return report.design.concurrent and undeclared and report.objection == report.design.missing


# Evidence


def evidence(report: Report) -> dict[str, list[str]]:
    """What was tested, assumed, cannot be known, and comes next; the empty are left out."""
    found = {
        "Log:": [described(report)],
        "Checked:": _checked(report),
        "Mind:": [sentence(text) for text in report.warnings],
        "Assumed:": [sentence(text) for text in report.assumptions if report.design.concurrent],
        "Not knowable here:": [sentence(text) for text in report.unknowable],
        "Next experiment:": next_experiment(report),
    }
    return {label: sentences for label, sentences in found.items() if sentences}


def described(report: Report) -> str:
    """The log in a sentence."""
    data = report.summary.data
    labels = data["round_label"].values
    span = f"{labels[0]} to {labels[-1]}" if labels[0] != labels[-1] else str(labels[0])
    assigned = {
        "units": "units were assigned at random, as you declare",
        "coin-flip": "a coin decided, as you declare",
        "schedule": "on a schedule, as you declare",
        "none": "how units were assigned was not declared",
    }[data.attrs["assignment"]]
    rows = int(data["rows"].sum())
    return (
        f"{rows:,} rows in {report.rounds} {_plural(period(report), report.rounds)} ({span}), "
        f"{len(report.features)} {_plural('feature', len(report.features))} "
        f"({listed(report.features, MOST_NAMED)}); "
        f"{report.design.described}; {assigned}."
    )


def _checked(report: Report) -> list[str]:
    says = []
    for word, passed in (("Passed", True), ("FAILS", False)):
        found = [c for c in report.checks if c.passed is passed]
        named = ", ".join(f"{c.name} ({_p(c.p).strip(' ()')})" for c in found)
        says += [f"{word}: {named}."] if found else []
    skipped = [check.name for check in report.checks if check.passed is None]
    if skipped:
        says.append(f"Not testable in this log: {', '.join(skipped)}.")
    if not report.immutable and report.design.concurrent:
        says.append("(Name features that no model can move, such as age: --immutable age.)")
    if report.summary.has_units:
        says.append("Rows of one unit go together: standard errors by 40 buckets of units.")
    return says


def next_experiment(report: Report) -> list[str]:
    """The experiment that would settle what is open, in words."""
    found = best_plan(report)
    if found is None:
        return []
    lead = ["Nothing is left open. To see it again, or smaller effects:"] if settled(report) else []
    last = ["`performative plan … --out plan.csv` writes the models to deploy."]
    return [*lead, *planned(report, found), *(last if found.models is not None else [])]


def settled(report: Report) -> bool:
    """Whether every question is answered, in all directions."""
    told = all(word != CANNOT_TELL for word in report.verdict.values())
    return told and report.loop is not None and report.loop.known == report.loop.of


def planned(report: Report, experiment: Experiment) -> list[str]:
    """An experiment in words, and what its cost assumes."""
    each = period(report)
    says = [sentence(_upper(str(experiment))).replace("round", each)]
    if experiment.cost is not None:
        says.append(f"(The cost is an estimate: {experiment.cost_assumes}.)")
    return says


def best_plan(report: Report, **wanted: Any) -> Experiment | None:
    """The report's own proposal, or the other kind where it is much shorter."""
    plan, other = _plan(report, wanted), None
    long = plan is None or (plan.rounds > LONG and plan.question == "canary")
    if long and wanted.get("question") is None and report.summary.has_weights:
        other = _plan(report, wanted | {"question": "directions"})
    if plan is None or other is None:
        return plan or other
    return other if other.rounds < plan.rounds / 2 else plan


def _plan(report: Report, wanted: dict[str, Any]) -> Experiment | None:
    try:
        return report.experiment(**wanted)
    except ValueError:
        return None


def lines(report: Report) -> list[Line]:
    """The drift of the features that moved most, and of all controls."""
    drift = report.drift.isel(round=-1)
    scale = np.where(drift["deviation"].values > 0, drift["deviation"].values, 1.0)
    critical = float(drift.attrs["critical"])
    parts = [
        drift[name].values / scale for name in ("total", "model", "model_se", "world", "world_se")
    ]
    table = [
        Line(name, name in report.immutable, t, m, critical * me, w, critical * we)
        for name, t, m, me, w, we in zip(report.features, *parts, strict=True)
    ]
    return sorted(table, key=lambda line: (line.control, -abs(line.total)))


def _table(report: Report) -> str:
    if report.rounds < 2:
        return ""
    rows = lines(report)
    free = [row for row in rows if not row.control][:MOST_FEATURES]
    shown = free + [row for row in rows if row.control][:MOST_FEATURES]
    split = not report.objection and report.design.concurrent
    names = [f"{row.name} (control)" if row.control else row.name for row in shown]
    wide = min(max(LABEL - 2, *map(len, names)), 34)
    each = period(report)
    head = f"  {'feature':<{wide}} {'drift':>8}"
    head += f"  {'= your model':>14}  {'+ world':>14}" if split else ""
    unit = f"standard deviations of a {each}'s rows"
    body = [f"  Drift from {each} 1 to {report.rounds}, in {unit}:", head]
    for name, row in zip(names, shown, strict=True):
        text = f"  {textwrap.shorten(name, wide, placeholder='…'):<{wide}} {row.total:>+8.2f}"
        if split:
            text += f"  {_plusminus(row.model, row.model_error):>14}"
            text += f"  {_plusminus(row.world, row.world_error):>14}"
        body.append(text)
    if len(shown) < len(rows):
        body.append(f"  … and {len(rows) - len(shown)} more")
    return "\n".join(body)


def _plusminus(value: float, error: float) -> str:
    return f"{value:+.2f} ± {error:.2f}" if np.isfinite(value) else "unknown"


# Figures in words


def period(report: Report) -> str:
    """What a round is called: week, day, … where the log has such, else round."""
    every = report.summary.data.attrs["every"] or ""
    unit = UNITS.get(every.lstrip("0123456789 ").lower(), "round")
    return unit if every.startswith("1") and not every[1:2].isdigit() else "round"


def number(value: float) -> str:
    """Two decimals, or two digits of what is smaller; a minus that can be read.

    >>> number(0.3149), number(-0.00123), number(1234.5)
    ('0.31', '-0.0012', '1234')
    """
    if not np.isfinite(value):
        return "unknown"
    if abs(value) >= 100:
        return f"{value:.0f}"
    if abs(value) >= 0.095 or value == 0:
        return f"{value:.2f}"
    return (
        f"{float(f'{value:.1e}'):.{1 - math.floor(math.log10(abs(value)))}f}"
        if abs(value) >= 1e-4
        else f"{value:.1e}"
    )


def signed(value: float) -> str:
    return number(value) if value < 0 or not np.isfinite(value) else f"+{number(value)}"


def estimate(found: Estimate) -> str:
    """A figure and its interval, with the same decimals.

    >>> estimate(Estimate(0.314, 0.29, 0.3391))
    '0.31 [0.29, 0.34]'
    """
    width = found.high - found.low
    digits = 2
    if np.isfinite(width) and 0 < width < 0.1:
        digits = min(6, 1 - math.floor(math.log10(width)))
    value, low, high = (f"{part:.{digits}f}" for part in found)
    return f"{value} [{low}, {high}]"


def _percent(value: float) -> str:
    return f"{100 * value:.0f} %".replace("-0 %", "0 %")


def _p(p: float) -> str:
    if not np.isfinite(p):
        return ""
    return " (p < 0.001)" if p < 0.001 else f" (p = {p:.3f})" if p < 0.1 else f" (p = {p:.2f})"


def _plural(word: str, count: int) -> str:
    return word if count == 1 else f"{word}s"


def sentence(text: str) -> str:
    text = _upper(text.strip())
    return text if text.endswith((".", "!", "?", ")")) else f"{text}."


def _upper(text: str) -> str:
    return text[:1].upper() + text[1:]


def _lower(text: str) -> str:
    return text[:1].lower() + text[1:]


def block(label: str, says: Iterable[str], width: int) -> str:
    """A label, and sentences that each begin a line; a word in capitals goes with the next."""
    pad = " " * (LABEL + 1)
    texts = [text for text in says if text]
    if len(texts) > 1 and texts[0].isupper():
        texts = [f"{texts[0]}  {texts[1]}", *texts[2:]]
    found = []
    for text in texts:
        first = pad if found else label.ljust(LABEL) + " "
        tied = re.sub(r" (?=[%=±<]( |$|[\],;.)]))|(?<= [=±<]) (?=\d)", "\u00a0", text)
        found += textwrap.wrap(
            tied, width, initial_indent=first, subsequent_indent=pad, break_on_hyphens=False
        )
    return "\n".join(found).replace("\u00a0", " ")
