"""The README's Python runs as printed: its blocks in order, in one namespace."""

import re
from pathlib import Path

README = Path(__file__).parent.parent / "README.md"


def test_the_python_of_the_readme_runs(tmp_path, monkeypatch):
    text = README.read_text(encoding="utf-8")
    blocks = list(re.finditer(r"^```python\n(.*?)^```$", text, flags=re.MULTILINE | re.DOTALL))
    assert blocks
    monkeypatch.chdir(tmp_path)
    namespace = {"__name__": "readme"}
    for block in blocks:
        # Padded with empty lines, so that a traceback points at the line of the README.
        source = "\n" * text.count("\n", 0, block.start(1)) + block[1]
        exec(compile(source, README, "exec"), namespace)
