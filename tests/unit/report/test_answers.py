"""Verdicts on the claims of published studies, of which each study keeps a copy."""

from pathlib import Path

import pytest

from dlbench.analysis.claims.claim_tests import ClaimState
from dlbench.errors import UserError
from dlbench.records import files
from dlbench.report.answers import verdicts
from dlbench.report.data import ReportData
from dlbench.scenario.reference import parse
from tests.unit.report.figures.makers import repeats, report_data

TEXT = """\
# source: Who & <b>Whom</b> 2024
# x: batch_size
# claims:
#   - {claim: falls, column: train_time_s}
batch_size,train_time_s,train_accuracy
8,1000,0.5
16,600,0.8
32,500,
"""


def studies(tmp_path: Path, *texts: str, emulated: str | None = None, factor: float = 1.0) -> ReportData:
    """Return a study for each text, which is its reference; an empty one has none."""
    rows = [
        row
        for number in range(len(texts))
        for size, time_s in ((8, 10.0), (16, 7.0), (32, 5.0))
        for row in repeats(
            3,
            study=f"s{number}",
            batch_size=size,
            train_time_s=[factor * time_s, factor * time_s + 0.1, factor * time_s + 0.2],
            train_accuracy=[0.6, 0.61, 0.62],
            emulated=emulated,
        )
    ]
    found = report_data(*rows, tmp_path=tmp_path)
    for source, text in zip(found.studies, texts, strict=True):
        if text:
            (source.path / files.REFERENCE).write_text(text, encoding="utf-8")
    return found


def test_a_study_has_a_copy_of_its_own_or_none(tmp_path: Path) -> None:
    with_it, without = studies(tmp_path, TEXT, "").studies
    assert with_it.reference == parse(TEXT, "r.csv")
    assert without.reference is None


def test_a_copy_that_is_broken_is_told(tmp_path: Path) -> None:
    found = studies(tmp_path, TEXT.replace("600", "six"))
    with pytest.raises(UserError, match=r"reference\.csv:7: train_time_s needs a number"):
        verdicts(found)


def test_studies_of_one_reference_are_compared_together(tmp_path: Path) -> None:
    other = TEXT.replace("2024", "2025")
    found = studies(tmp_path, TEXT, other, TEXT.replace("\n", "\r\n"), "").references
    assert {known.source[-4:]: names for known, names in found.items()} == {"2024": ["s0", "s2"], "2025": ["s1"]}


def test_a_verdict_says_whose_claim_it_is_and_why(tmp_path: Path) -> None:
    (judged,) = verdicts(studies(tmp_path, TEXT))
    assert judged.reference == "Who & <b>Whom</b> 2024"
    assert judged.claim == "training time falls with batch size, and is nowhere 2% or more above an earlier value"
    assert judged.state == "holds"
    assert judged.why.startswith("least certain from 16 to 32: -28% (95% interval ")


def test_a_claim_that_is_inferred_is_called_so(tmp_path: Path) -> None:
    texts = (TEXT, TEXT.replace("train_time_s}", "train_time_s, inferred: true}"))
    for text, inferred in zip(texts, (False, True), strict=True):
        (judged,) = verdicts(studies(tmp_path, text))
        assert judged.claim.endswith(" (inferred)") == inferred


def test_a_verdict_on_emulated_rows_says_so(tmp_path: Path) -> None:
    (judged,) = verdicts(studies(tmp_path, TEXT, emulated="oversubscribed;logical-devices"))
    assert judged.state is ClaimState.HOLDS
    assert judged.why.startswith("on emulated hardware (logical-devices, oversubscribed): ")


def test_what_is_the_same_of_all_groups_of_runs_is_said_once(tmp_path: Path) -> None:
    rows = [
        row
        for optimizer, sizes in (("sgd", (8, 16, 32)), ("adam", (8, 16, 32)), ("lion", (8,)))
        for size in sizes
        for row in repeats(1, batch_size=size, train_time_s=80.0 / size, optimizer=optimizer)
    ]
    found = report_data(*rows, tmp_path=tmp_path)
    (found.studies[0].path / files.REFERENCE).write_text(TEXT, encoding="utf-8")
    assert {judged.claim.rpartition(" (")[2] for judged in verdicts(found)} == {"adam; sgd)", "lion)"}
    alike = report_data(*[row for row in rows if row["optimizer"] != "lion"], tmp_path=tmp_path)
    (alike.studies[0].path / files.REFERENCE).write_text(TEXT, encoding="utf-8")
    (judged,) = verdicts(alike)
    assert judged.claim.endswith(" (adam; sgd)")


def test_no_reference_no_verdict(tmp_path: Path) -> None:
    assert verdicts(studies(tmp_path, "")) == ()
