"""The whole report as one HTML page that needs neither a network nor a script to be read.

Everything that comes from a study is text: it is escaped, its control characters are made visible, and the page's own
policy forbids every script but the one it holds. Pictures alone are taken as they are: dlbench drew them.
"""

import base64
import hashlib
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup, escape

from dlbench.report.formatting import readable
from dlbench.report.page.arms import arm_section
from dlbench.report.page.content import Content
from dlbench.report.page.definitions import definitions
from dlbench.report.page.failures import MOST_FAILURES, failures
from dlbench.report.page.machines import machines
from dlbench.report.page.runs_table import table

if TYPE_CHECKING:
    from dlbench.report.references import ClaimResult

HERE = Path(__file__).parent
TEMPLATE, STYLE, SCRIPT = "page.html.j2", "page.css", "page.js"


def render(content: Content) -> str:
    """Return the page: the same content gives the same text."""
    style, script = _text_of(STYLE), _text_of(SCRIPT)
    runs = table(content.data)
    every = failures(content.data)
    failed = every[:MOST_FAILURES]
    template = _environment().get_template(TEMPLATE)
    return template.render(
        content=content,
        verdicts=_by_reference(content.judged),
        arms=arm_section(content.data),
        table=runs,
        failures=failed,
        num_failures=len(every),
        anchors={failure.key: f"why-{number}" for number, failure in enumerate(failed, 1)},
        machines=machines(content.data),
        definitions=definitions(heading.name for heading in runs.headings),
        policy=policy(style, script),
        style=style,
        script=script,
    )


def policy(style: str, script: str) -> str:
    """Return what a browser may do with the page: use this one style, run this one script, and load nothing (CSP 3).

    Pictures have no style of their own, as `rendering.svg` makes them; an image is one inside a picture.
    """
    rules = (
        "default-src 'none'",
        f"script-src {_hash(script)}",
        f"style-src {_hash(style)}",
        "img-src data:",
        "base-uri 'none'",
        "form-action 'none'",
    )
    return "; ".join(rules)


def _hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def ticked(text: str) -> Markup:
    """Return a text as HTML in which what stands between backticks is code; where one has no partner, none is."""
    parts = readable(text).split("`")
    if len(parts) % 2 == 0:
        return escape("`".join(parts))
    code = Markup("<code>{}</code>")
    return Markup("").join(code.format(part) if place % 2 else escape(part) for place, part in enumerate(parts))


def _by_reference(judged: "Iterable[ClaimResult]") -> "dict[str, list[ClaimResult]]":
    found: dict[str, list[ClaimResult]] = {}
    for one in judged:
        found.setdefault(one.reference, []).append(one)
    return found


def _environment() -> Environment:
    found = Environment(
        loader=FileSystemLoader(HERE),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_finalized,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    found.filters["ticked"] = ticked
    return found


def _finalized(value: object) -> object:
    """Make control characters of every text visible, before it is escaped."""
    return readable(value) if isinstance(value, str) and not isinstance(value, Markup) else value


def _text_of(name: str) -> str:
    return (HERE / name).read_text(encoding="utf-8")
