"""READMEs and figures of results/ from the committed rows: `python -m tests.results` (`make results`).

With `--check` nothing is written; the exit code is 1 where a README or a figure is not what the rows give.
"""

import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from PIL import Image
from PIL.PngImagePlugin import PngInfo

from dlbench.report.write import ReportRequest, write_report
from tests.results.comparisons import rule
from tests.results.study import StudyText

ROOT = Path(__file__).parents[2] / "results"
TEMPLATE, PAGE, RUNS = "README.md.j2", "README.md", "runs.csv"
# Where a PNG says which numbers it shows.
DIGEST = "dlbench rows"
NOTE = "<!-- Made by `make results` from README.md.j2 and the rows beside it. -->\n\n"


def studies() -> list[StudyText]:
    """Return the committed studies in the order of their names; a template may wait for its rows."""
    return [StudyText(path.parent) for path in sorted(ROOT.glob(f"*/{TEMPLATE}")) if (path.parent / RUNS).exists()]


def render(template: Path, names: dict[str, object]) -> str:
    """Return a README."""
    environment = Environment(
        loader=FileSystemLoader(ROOT),  # for what all templates begin and end with: `_measured.md.j2`, `_trust.md.j2`
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        autoescape=False,
    )
    return NOTE + environment.from_string(template.read_text(encoding="utf-8")).render(names) + "\n"


def page_of(study: StudyText) -> str:
    """Return the README of a study."""
    return render(study.path / TEMPLATE, study.names)


def index(found: list[StudyText]) -> str:
    """Return the README of all studies."""
    return render(ROOT / TEMPLATE, {"studies": found, "rule": rule})


def stale(study: StudyText) -> Iterator[str]:
    """Yield what of a study is not what its rows give."""
    page, written = page_of(study), study.path / PAGE
    if not written.exists() or written.read_text(encoding="utf-8") != page:
        yield f"{study.name}/{PAGE}"
    for name in study.figures:
        path = study.path / f"{name}.png"
        if not path.exists() or digest_in(path) != study.digest(name):
            yield f"{study.name}/{path.name}"


def digest_in(path: Path) -> str | None:
    """Return the checksum that a figure was drawn with."""
    with Image.open(path) as image:
        return image.info.get(DIGEST)


def draw(study: StudyText) -> None:
    """Draw the figures that a README shows, each with the checksum of its numbers."""
    with tempfile.TemporaryDirectory() as folder:
        request = ReportRequest(Path(folder), tuple(study.figures), ("png",))
        if study.figures:
            write_report(study.data, request)
        for name in study.figures:
            text = PngInfo()
            text.add_text(DIGEST, study.digest(name))
            with Image.open(Path(folder, f"{name}.png")) as image:
                image.save(study.path / f"{name}.png", pnginfo=text, optimize=True)


def main(words: list[str]) -> int:
    """Write or check everything; return the exit code."""
    found = studies()
    if words == ["--check"]:
        old = [what for study in found for what in stale(study)]
        old += [PAGE] * ((ROOT / PAGE).read_text(encoding="utf-8") != index(found))
        print("\n".join(f"results/{what} is not what its rows give: run `make results`" for what in old))
        return int(bool(old))
    for study in found:
        (study.path / PAGE).write_text(page_of(study), encoding="utf-8")
        draw(study)
    (ROOT / PAGE).write_text(index(found), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
