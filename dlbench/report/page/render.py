"""The whole report as one HTML page that needs neither a network nor a script to be read, and as Markdown (GitHub's).

Everything that comes from a study is text: it is escaped, its control characters are spelled out, and the page's own
policy forbids every script but the one it holds. Pictures alone are taken as they are: dlbench drew them.
"""

import base64
import hashlib
from functools import partial
from pathlib import Path
from urllib.parse import quote

from jinja2 import Environment, FileSystemLoader, StrictUndefined, select_autoescape
from markupsafe import Markup, escape

from dlbench.analysis.arm_table import ArmTable
from dlbench.analysis.formatting import readable
from dlbench.report.data import attempt_of
from dlbench.report.markdown import escaped, table
from dlbench.report.page.content import Content, RenderedFigure
from dlbench.report.page.machines import machines
from dlbench.report.page.runs_table import runs_table

HERE = Path(__file__).parent
# More attempts than this are not listed.
MOST_FAILURES = 500
# In Markdown, a sentence of dlbench's own is not cut, whatever names are in it.
WHOLE = 100_000
# What Markdown can show: first what every reader of it shows.
PICTURES = (".png", ".svg")


def html(content: Content) -> str:
    """Return the page: the same content gives the same text."""
    style, script = ((HERE / name).read_text(encoding="utf-8") for name in ("page.css", "page.js"))
    template = _environment().get_template("page.html.j2")
    return template.render(
        content=content,
        runs=runs_table(content.data),
        most_failures=MOST_FAILURES,
        anchors={attempt_of(row): f"why-{place}" for place, row in enumerate(content.failures[:MOST_FAILURES], 1)},
        attempt_of=attempt_of,
        machines=machines(content.data),
        policy=policy(style, script),
        style=style,
        script=script,
    )


def markdown(content: Content) -> str:
    """Return the report as Markdown: the same content gives the same text."""

    def arm_lines(arms: ArmTable) -> str:
        rows = (map(escaped, row) for row in arms.rows)
        return "\n".join(table(list(arms.columns), rows, arms.columns.keys() - arms.texts))

    def picture_of(chart: RenderedFigure) -> str:
        files = [file for suffix in PICTURES for file in chart.files if file.endswith(suffix)]
        return f"![{escaped(chart.title)}]({quote(files[0])})" if files else ""

    template = _environment().get_template("report.md.j2")
    return template.render(content=content, most_failures=MOST_FAILURES, arm_lines=arm_lines, picture_of=picture_of)


def policy(style: str, script: str) -> str:
    """Return what a browser may do with the page: use this one style, run this one script, and load nothing (CSP 3).

    Pictures have no style of their own, as `rendering.svg` makes them; an image is one inside a picture.
    """
    digests = (base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() for text in (script, style))
    allowed = "script-src 'sha256-{}'; style-src 'sha256-{}'; img-src data:".format(*digests)
    return f"default-src 'none'; {allowed}; base-uri 'none'; form-action 'none'"


def ticked(text: str) -> Markup:
    """Return a text as HTML in which what stands between backticks is code; where one has no partner, none is."""
    parts = readable(text).split("`")
    if len(parts) % 2 == 0:
        return escape("`".join(parts))
    code = Markup("<code>{}</code>")
    return Markup("").join(code.format(part) if place % 2 else escape(part) for place, part in enumerate(parts))


def _environment() -> Environment:
    """Return what reads the templates: a name that is not there is an error."""
    environment = Environment(
        loader=FileSystemLoader(HERE),
        autoescape=select_autoescape(["html.j2"]),
        undefined=StrictUndefined,
        # Control characters of every text are spelled out before it is escaped.
        finalize=lambda value: readable(value) if isinstance(value, str) and not isinstance(value, Markup) else value,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters |= {"ticked": ticked, "cut": escaped, "whole": partial(escaped, most=WHOLE)}
    return environment
