"""A page of HTML that needs nothing but itself: styles and pictures are inside it.

Templates stand beside this file; all that they are given is escaped, and a page knows nothing of
what it shows.
"""

from __future__ import annotations

import base64
import os
import re
from pathlib import Path
from typing import Any

import jinja2
from markupsafe import Markup, escape

FOLDER = Path(__file__).parent / "templates"


def render(template: str, **content: Any) -> str:
    """The page `template`, filled in."""
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(FOLDER),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["symbols"] = symbols
    style = Markup((FOLDER / "style.css").read_text(encoding="utf-8"))
    return environment.get_template(template).render(style=style, **content)


def symbols(text: str) -> Markup:
    """Plain x_t and x^2 with an index below and an exponent above the line.

    >>> str(symbols("θ_t+1^PS < 2, t^-0.5"))
    'θ<sub>t+1</sub><sup>PS</sup> &lt; 2, t<sup>-0.5</sup>'
    """
    below = re.sub(r"(?<=[\w*])_(t\+1|min|[tTVzθD0-9])(?!\w)", r"<sub>\1</sub>", str(escape(text)))
    above = re.sub(r"\^(-?[0-9.]*[0-9]|-?[A-Za-z½]+)", r"<sup>\1</sup>", below)
    return Markup(re.sub(r"\^\(([^()]+)\)", r"<sup>\1</sup>", above))


def picture(path: Path) -> str:
    """A PNG file as the address of an image inside the page."""
    return "data:image/png;base64," + base64.b64encode(path.read_bytes()).decode("ascii")


def write(text: str, path: Path) -> Path:
    """Write a page, whole or not at all."""
    draft = path.with_name(path.name + ".part")
    try:
        draft.write_text(text, encoding="utf-8")
        os.replace(draft, path)
    finally:
        draft.unlink(missing_ok=True)
    return path
