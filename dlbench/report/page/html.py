"""The whole report as one HTML page that needs neither a network nor a script to be read.

Everything that comes from a study is text: it is escaped, its control characters are spelled out, and the page's own
policy forbids every script but the one it holds. Pictures alone are taken as they are: dlbench drew them.
"""

import base64
import hashlib
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined, select_autoescape
from markupsafe import Markup, escape

from dlbench.report.formatting import readable
from dlbench.report.page.content import Content
from dlbench.report.page.failures import MOST_FAILURES, failures, key_of
from dlbench.report.page.machines import machines
from dlbench.report.page.runs_table import table

HERE = Path(__file__).parent
TEMPLATE, STYLE, SCRIPT = "page.html.j2", "page.css", "page.js"


def render(content: Content) -> str:
    """Return the page: the same content gives the same text."""
    style, script = ((HERE / name).read_text(encoding="utf-8") for name in (STYLE, SCRIPT))
    every = failures(content.data)
    templates = environment()
    templates.filters["ticked"] = ticked
    return templates.get_template(TEMPLATE).render(
        content=content,
        runs=table(content.data),
        failures=every[:MOST_FAILURES],
        num_failures=len(every),
        anchors={key_of(row): f"why-{number}" for number, row in enumerate(every[:MOST_FAILURES], 1)},
        key_of=key_of,
        machines=machines(content.data),
        policy=policy(style, script),
        style=style,
        script=script,
    )


def policy(style: str, script: str) -> str:
    """Return what a browser may do with the page: use this one style, run this one script, and load nothing (CSP 3).

    Pictures have no style of their own, as `rendering.svg` makes them; an image is one inside a picture.
    """
    return (
        f"default-src 'none'; script-src {_hash(script)}; style-src {_hash(style)}; img-src data:; base-uri 'none'; "
        "form-action 'none'"
    )


def _hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def ticked(text: str) -> Markup:
    """Return a text as HTML in which what stands between backticks is code; where one has no partner, none is."""
    parts = readable(text).split("`")
    if len(parts) % 2 == 0:
        return escape("`".join(parts))
    code = Markup("<code>{}</code>")
    return Markup("").join(code.format(part) if place % 2 else escape(part) for place, part in enumerate(parts))


def environment() -> Environment:
    """Return what reads the templates of page and Markdown: a name that is not there is an error."""
    return Environment(
        loader=FileSystemLoader(HERE),
        autoescape=select_autoescape([TEMPLATE.partition(".")[2]]),
        undefined=StrictUndefined,
        finalize=_finalized,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )


def _finalized(value: object) -> object:
    """Spell out control characters of every text, before it is escaped."""
    return readable(value) if isinstance(value, str) and not isinstance(value, Markup) else value
