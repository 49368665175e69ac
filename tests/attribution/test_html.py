"""The page stands alone: one file, no network, well formed, of aggregates only."""

import re
from html.parser import HTMLParser

import numpy as np
import pytest

from performative.attribution import attribute, simulate_log
from performative.attribution.html import page

VOID = {"meta", "br", "img", "line", "circle", "polyline", "polygon"}


class Checked(HTMLParser):
    """Opens and closes in order."""

    def __init__(self):
        super().__init__()
        self.open, self.links, self.seen = [], [], []

    def handle_starttag(self, tag, attrs):
        self.seen.append(tag)
        self.links += [value for name, value in attrs if name in ("src", "href", "action")]
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        if tag not in VOID:
            assert self.open.pop() == tag


def checked(text):
    parser = Checked()
    parser.feed(text)
    assert parser.open == []
    return parser


@pytest.fixture(scope="module")
def holdout():
    log = simulate_log("holdout", kappa=0.3, rounds=8, rows=6000, seed=1, keep_rows=True)
    return attribute(log.rows, models=log.models, assignment="units", immutable=[]), log


@pytest.mark.parametrize("design", ["pair", "holdout", "single", "dither", "segments"])
def test_the_page_is_one_small_file_that_needs_nothing_else(design, tmp_path):
    report = attribute(simulate_log(design, rounds=8, rows=4000, seed=3).summary)
    file = report.to_html(tmp_path / "report.html")
    text = file.read_text(encoding="utf-8")
    parser = checked(text)
    assert len(text) < 5_000_000 and parser.links == []
    assert ("Every point of the line fits this log" in text) == (design == "single")
    assert "<script" not in text and "url(" not in text and "@import" not in text
    assert text.count("http") == text.count("http://www.w3.org/2000/svg")  # a name, not an address


def test_the_page_begins_with_the_verdict(holdout):
    report, _ = holdout
    text = page(report)
    word = report.verdict["cause"].upper()
    assert f"<title>Was it my model? {word}.</title>" in text
    assert text.index(f'<p class="word">{word}.</p>') < text.index("<table>")
    assert "← yours" in text and report.summary.data.attrs["fingerprint"] in text


def test_names_are_escaped():
    rng = np.random.default_rng(0)
    log = {"round": np.repeat([1, 2], 400), "model": np.tile(["a", "b"], 400)}
    log["<b>x</b> & y"] = rng.normal(size=800)
    text = page(attribute(log, assignment="units"))
    checked(text)
    assert "<b>x</b>" not in text and "&lt;b&gt;x&lt;/b&gt; &amp; y" in text


def test_no_row_is_in_the_page(holdout):
    report, log = holdout
    found = set(re.findall(r"-?\d+\.\d{3,}", page(report)))
    values = {f"{v:.3f}" for v in log.rows["x1"][:2000]} | {f"{v:.6f}" for v in log.rows["x1"]}
    long = {number for number in found if len(number.split(".")[1]) > 3}
    assert not long & values and len(found) < 200


def test_pictures_show_the_figures(holdout):
    report, _ = holdout
    text = page(report)
    assert text.count("<svg") == 4  # distance, features, contrasts, contraction
    dots = len(report.cells.contrast.ravel()[report.cells.contrast.ravel() != 0])
    assert text.count("<circle") >= dots
