"""The Python of every page of the docs runs as printed; its links and tables name what is there."""

import inspect
import re
import sys
import types
from pathlib import Path

import matplotlib.pyplot as plt
import pytest

import performative as pp

DOCS = Path(__file__).parent.parent / "docs"
PAGES = sorted(DOCS.glob("*.md"))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_the_python_of_a_page_runs(page, tmp_path, monkeypatch):
    text = page.read_text(encoding="utf-8")
    blocks = list(re.finditer(r"^```python\n(.*?)^```$", text, flags=re.MULTILINE | re.DOTALL))
    assert blocks
    monkeypatch.chdir(tmp_path)
    # A module that can be imported, as a script is: what it defines can be pickled.
    module = types.ModuleType(f"docs_{page.stem}")
    monkeypatch.setitem(sys.modules, module.__name__, module)
    for block in blocks:
        # Padded with empty lines, so that a traceback points at the line of the page.
        source = "\n" * text.count("\n", 0, block.start(1)) + block[1]
        exec(compile(source, page, "exec"), vars(module))
    plt.close("all")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_links_lead_to_pages(page):
    for target in re.findall(r"\]\(([^)#]+)\)", page.read_text(encoding="utf-8")):
        assert (DOCS / target).exists(), target


@pytest.mark.parametrize("room", ["responses", "drifts", "mixing", "losses", "domains"])
def test_every_factory_is_on_the_page_of_worlds(room):
    module = getattr(pp, room)
    text = (DOCS / "worlds.md").read_text(encoding="utf-8")
    helpers = {"sampler_or_distribution", "numpy_sampler", "in_unit_ball", "logistic_link"}
    for name, value in vars(module).items():
        own = inspect.isfunction(value) and value.__module__ == module.__name__
        if own and not name.startswith("_") and name not in helpers:
            assert re.search(rf"`{name}\(", text), f"{room}.{name} is not in worlds.md"


def test_statuses_and_rungs_are_those_of_the_library():
    from performative.targets.points import STATUSES
    from performative.world.expectations import RUNGS

    text = (DOCS / "exactness.md").read_text(encoding="utf-8")
    for name in (*STATUSES, *RUNGS):
        assert f'| "{name}" |' in text
