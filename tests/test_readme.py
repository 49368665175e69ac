"""The README's Python runs as printed: its blocks in order, in one namespace."""

import re
import warnings
from pathlib import Path

from performative.worlds import credit_data

NEEDS_DATA = "<!-- needs the credit data -->"
README = Path(__file__).parent.parent / "README.md"


def credit_data_is_here():
    try:
        return credit_data.locate() is not None
    except FileNotFoundError:
        return False


def test_the_python_of_the_readme_runs(tmp_path, monkeypatch):
    text = README.read_text(encoding="utf-8")
    blocks = list(re.finditer(r"^```python\n(.*?)^```$", text, flags=re.MULTILINE | re.DOTALL))
    assert blocks
    monkeypatch.chdir(tmp_path)
    namespace = {"__name__": "readme"}
    for block in blocks:
        if text[: block.start()].endswith(f"{NEEDS_DATA}\n") and not credit_data_is_here():
            warnings.warn("README: the block on the credit data did not run: no data", stacklevel=1)
            continue
        # Padded with empty lines, so that a traceback points at the line of the README.
        source = "\n" * text.count("\n", 0, block.start(1)) + block[1]
        exec(compile(source, README, "exec"), namespace)
