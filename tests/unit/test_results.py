"""What results/ says is what its rows give, and its templates hold no measured number and no verdict of their own."""

import re
from pathlib import Path

import pytest

from dlbench.scenario.read.scenario_file import read as read_scenario
from dlbench.scenario.reference import KEPT
from tests.results.__main__ import PAGE, ROOT, TEMPLATE, index, stale, studies
from tests.results.study import StudyText

FOLDERS = sorted(path.parent for path in ROOT.glob("*/runs.csv"))
TEMPLATES = sorted(ROOT.glob("**/*.j2"))
EXPRESSION = re.compile(r"{{.*?}}|{%.*?%}|{#.*?#}", re.DOTALL)
# Names that hold digits: data sets, networks, published studies and their years, files.
NAMES = re.compile(r"CIFAR-10\b|ResNet-\d+|kim20\d\d[\w./-]*|\b20(?:18|23) study\b|\]\([^)]*\)")
NUMBER = re.compile(
    r"\d|\b(?:half|halves|twice|thrice|doubles?|quarters?|thirds? of|tenths?|percent|hundreds?|thousands?)\b"
)
VERDICT = re.compile(r"\b(?:faster|slower|quicker|ahead|behind|better|worse|wins|outperforms|significant(?:ly)?)\b")


def prose(template: Path) -> str:
    """Return what a template says itself."""
    return NAMES.sub("", EXPRESSION.sub("", template.read_text(encoding="utf-8")))


def test_every_study_has_a_template() -> None:
    assert [folder for folder in FOLDERS if (folder / TEMPLATE).exists()] == FOLDERS != []


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda path: path.name)
def test_a_readme_and_its_figures_are_what_the_rows_give(folder: Path) -> None:
    assert list(stale(StudyText(folder))) == [], "run `make results`"


def test_a_study_is_judged_by_its_reference_as_it_is_corrected() -> None:
    """The scenario and the rows stay what was run; what a source claims is read anew."""
    checked = 0
    for folder in FOLDERS:
        scenario = read_scenario(folder / "scenario.yaml")
        if scenario.reference:
            source = ROOT.parent / "scenarios" / "reference" / f"{scenario.reference}.csv"
            assert (folder / KEPT).read_text(encoding="utf-8") == source.read_text(encoding="utf-8"), folder.name
            checked += 1
    assert checked > 10


def test_the_table_of_studies_is_what_the_rows_give() -> None:
    assert (ROOT / PAGE).read_text(encoding="utf-8") == index(studies()), "run `make results`"


@pytest.mark.parametrize("template", TEMPLATES, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_a_template_has_no_number_and_no_verdict_of_its_own(template: Path) -> None:
    said = prose(template)
    assert [said[max(0, found.start() - 30) : found.end()] for found in NUMBER.finditer(said)] == []
    assert [said[max(0, found.start() - 30) : found.end()] for found in VERDICT.finditer(said)] == []


def test_changed_rows_and_a_foreign_note_are_noticed(tmp_path: Path) -> None:
    source = ROOT / "dividing"
    folder = tmp_path / "results" / source.name
    folder.mkdir(parents=True)
    (tmp_path / "scenarios").symlink_to(ROOT.parent / "scenarios")
    for path in source.iterdir():
        (folder / path.name).write_bytes(path.read_bytes())
    assert list(stale(StudyText(folder))) == []
    rows = (folder / "runs.csv").read_text(encoding="utf-8")
    (folder / "runs.csv").write_text(rows.replace(",57520,", ",57521,"), encoding="utf-8")
    assert list(stale(StudyText(folder))) == [f"dividing/{PAGE}"]
    (folder / "notes.md").write_text("<!-- another study -->\nNothing else ran.\n", encoding="utf-8")
    with pytest.raises(ValueError, match="another study"):
        list(stale(StudyText(folder)))
    assert (folder / TEMPLATE).exists()
