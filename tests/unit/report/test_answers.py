"""Verdicts on the claims of published studies, of which each study keeps a copy; what cannot be asked for."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from dlbench.analysis.answer.decide import Wanted
from dlbench.analysis.claims.claim_tests import ClaimState
from dlbench.errors import UserError
from dlbench.records import files
from dlbench.report.answers import answers_of, verdicts
from dlbench.report.data import ReportData
from dlbench.scenario.cluster import Prices
from dlbench.scenario.reference import parse
from tests.unit.report.figures.makers import Row, repeats, report_data

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


def studies(tmp_path: Path, *texts: str, rows: list[Row] | None = None, **values: object) -> ReportData:
    """Return a study for each text, which is its reference; an empty one has none."""
    rows = rows or [
        row
        for number in range(len(texts))
        for size, time_s in ((8, 10.0), (16, 7.0), (32, 5.0))
        for row in repeats(
            3, study=f"s{number}", batch_size=size, train_time_s=[time_s, time_s + 0.1, time_s + 0.2], **values
        )
    ]
    found = report_data(*rows, tmp_path=tmp_path)
    for source, text in zip(found.studies, texts, strict=True):
        if text:
            (source.path / files.REFERENCE).write_text(text, encoding="utf-8")
    return found


def test_each_study_has_its_copy_and_those_of_one_reference_are_compared_together(tmp_path: Path) -> None:
    other = TEXT.replace("2024", "2025")
    found = studies(tmp_path, TEXT, other, TEXT.replace("\n", "\r\n"), "")
    assert (found.studies[0].reference, found.studies[3].reference) == (parse(TEXT, "r.csv"), None)
    assert {reference.source[-4:]: names for reference, names in found.references.items()} == {
        "2024": ["s0", "s2"],
        "2025": ["s1"],
    }
    assert verdicts(studies(tmp_path, "")) == ()
    with pytest.raises(UserError, match=r"reference\.csv:7: train_time_s needs a number"):
        verdicts(studies(tmp_path, TEXT.replace("600", "six")))


def test_a_verdict_says_whose_claim_it_is_and_why(tmp_path: Path) -> None:
    (judged,) = verdicts(studies(tmp_path, TEXT))
    assert judged.reference == "Who & <b>Whom</b> 2024"
    assert judged.claim == "training time falls with batch size, and is nowhere 2% or more above an earlier value"
    assert judged.state is ClaimState.HOLDS
    assert judged.why.startswith("least certain from 16 to 32: -28% (95% interval ")
    inferred = TEXT.replace("train_time_s}", "train_time_s, inferred: true}")
    (judged,) = verdicts(studies(tmp_path, inferred, emulated="oversubscribed;logical-devices"))
    assert judged.claim.endswith(" (inferred)")
    assert judged.why.startswith("on emulated hardware (logical-devices, oversubscribed): ")


def test_what_is_the_same_of_all_groups_of_runs_is_said_once(tmp_path: Path) -> None:
    rows = [
        row
        for optimizer, sizes in (("sgd", (8, 16, 32)), ("adam", (8, 16, 32)), ("lion", (8,)))
        for size in sizes
        for row in repeats(1, batch_size=size, train_time_s=80.0 / size, optimizer=optimizer)
    ]
    judged = verdicts(studies(tmp_path, TEXT, rows=rows))
    assert {each.claim.rpartition(" (")[2] for each in judged} == {"adam; sgd)", "lion)"}


@pytest.mark.parametrize(
    ("goal", "wanted"), [("cost", {}), ("", {"deadline_s": 9.0}), ("throughput", {"max_cost": 9.0})]
)
@pytest.mark.parametrize(("rate", "hint"), [(9.0, "--goal throughput"), (None, "")])
def test_a_cost_or_a_deadline_is_refused_where_no_run_has_a_training_time(
    tmp_path: Path, goal: str, wanted: dict[str, float], rate: float | None, hint: str
) -> None:
    rates = studies(tmp_path, "", rows=repeats(3, samples_per_s=rate, train_time_s=None))
    with pytest.raises(UserError, match="training times, which no run here has") as refused:
        answers_of(rates, goal, wanted=Wanted(prices=Prices(currency="USD", worker_hour=1.0), **wanted))
    assert refused.value.hint == hint
    # Of tables alone nothing can be run.
    assert all(answer.next.command.startswith("dlbench report") for answer in answers_of(rates).answers)


@pytest.mark.parametrize(
    ("goal", "wanted"),
    [("cost to validation_accuracy>=0.9", Wanted()), ("", Wanted(deadline_s=9.0))],
)
def test_a_time_to_the_target_alone_has_a_cost_and_a_deadline(tmp_path: Path, goal: str, wanted: Wanted) -> None:
    columns = {"target_metric": "validation_accuracy", "target_value": 0.9, "train_time_s": None}
    rows = [
        row for size, s in ((8, 5.0), (16, 8.0)) for row in repeats(3, batch_size=size, time_to_target_s=s, **columns)
    ]
    (answer,) = answers_of(studies(tmp_path, "", rows=rows), goal, wanted=wanted).answers
    assert answer.use
    assert answer.use.time_s == 5.0


@pytest.mark.parametrize(
    ("ends", "missing", "doubt"),
    [
        # Two candidates, then as many repeats as the measured arm has.
        ([], 2 + 3, "not searched yet: other"),
        (["diverged"], 1 + 3, "not searched yet: other"),
        (["interrupted", "failed"], 1 + 3, "not searched yet: other"),
        (["completed", "diverged"], 3, "not searched yet: other"),
        (["failed", "diverged"], 0, "not measured, since no candidate completed: other"),
    ],
)
def test_while_an_arm_is_not_searched_nothing_is_recommended_and_its_runs_are_missing(
    tmp_path: Path, ends: list[str], missing: int, doubt: str
) -> None:
    tried = [
        row
        for rate, end in enumerate(ends)
        for row in repeats(1, label=f"other rate={rate}", status=end, phase="tune", workers=2 + rate)
    ]
    data = studies(tmp_path, "", rows=[*repeats(3, label="arm"), *tried])
    candidates = [
        {"label": f"other rate={rate}", "repeat": 0, "phase": "tune", "tuned": {"arm": "other"}} for rate in range(2)
    ]
    runs = [*candidates, *({"label": "arm", "repeat": repeat} for repeat in range(3))]
    (data.studies[0].path / files.STUDY).write_text(json.dumps({"runs": runs}), encoding="utf-8")
    (answer,) = answers_of(data).answers
    assert (answer.missing, answer.use is None, answer.doubts[0].text) == (missing, missing > 0, doubt)
    assert answer.next is not None
    assert f"{missing} runs to be made" in answer.next.why or not missing


@pytest.mark.parametrize(
    ("scenario", "axes", "words"),
    [
        ("matrix: {workers: [1, 2], seed: [1]}\nrepeats: 5", [{"workers": 2}],
         " --repeats 2 --only workers=2 --only seed=1"),
        ("matrix: {workers: [1, 2], seed: [1]}\nrepeats: 2", [{"workers": 1}, {"workers": 2}], ""),
        ("include: [{strategy: mpi, workers: 2}, {workers: 3}]\nrepeats: {min: 3}", [{"workers": 3}],
         " --only strategy=single --only workers=3"),
        ("matrix: {compression: [null, half]}\nrepeats: 2", [{"compression": None}], " --only compression=null"),
        ("matrix: [", [{}], ""),
    ],
)  # fmt: skip
def test_a_longer_study_is_of_the_arms_and_repeats_that_were_asked_for(
    tmp_path: Path, scenario: str, axes: list[dict[str, object]], words: str
) -> None:
    common = {"epochs": 5, "target_metric": "validation_accuracy", "target_value": 0.99, "time_to_target_s": None}
    rows = [row for number in range(len(axes) + 1) for row in repeats(2, workers=2 + number, **common)]
    data = studies(tmp_path, "", rows=rows)
    study = replace(data.studies[0], scenario_text=scenario)
    settings = {"strategy": "single", "seed": 1, "compression": None}
    runs = [
        {"label": str(point), "repeat": repeat, "axes": point, "settings": settings}
        for point in axes
        for repeat in range(2)
    ]
    runs += [{"label": "base line", "repeat": repeat, "baseline": True, "axes": {}} for repeat in range(2)]
    again = f"dlbench run {study.path / files.SCENARIO}"
    hosts = [{"address": "a", "slots": 2}, {"address": "b", "slots": 2}]
    for where, option in (
        ({"where": ["--hosts", "a:2,b:2"]}, " --hosts a:2,b:2"),
        ({"where": ["--hostfile", "/gone"]}, " --hosts a:2,b:2"),
        ({"where": ["--cluster", "/gone"]}, " --cluster /gone"),
        ({"where": ["--cluster", "\0"]}, ""),
        ({"where": ["--set", "command=x"]}, ""),
        ({}, ""),
    ):
        record = {"runs": runs, "cluster": {"hosts": hosts}, **where}
        (study.path / files.STUDY).write_text(json.dumps(record), encoding="utf-8")
        (answer,) = answers_of(replace(data, studies=(study,))).answers
        assert answer.next is not None
        assert answer.next.command == f"{again}{option} --output {study.path.parent}{words} --set epochs=10"


def test_a_target_that_a_model_which_knows_nothing_has_is_refused(tmp_path: Path) -> None:
    data = studies(tmp_path, "", rows=repeats(3, knows_nothing_accuracy=0.103, validation_accuracy=0.9))
    with pytest.raises(UserError, match=r"knows nothing already has 0\.103"):
        answers_of(data, "time to validation_accuracy>=0.05")


def test_fresh_seeds_are_not_advised_and_confirm_nothing_for_another_goal_than_the_studies(tmp_path: Path) -> None:
    rows = [
        row | {"label": f"batch {size}"}
        for size, seconds in ((8, 10.0), (16, 5.0))
        for row in repeats(5, batch_size=size, train_time_s=[seconds + n / 50 for n in range(5)], tuned="learning_rate")
    ]
    epochs = [
        {"run_id": row["run_id"], "epoch": 1, "train_time_s": row["train_time_s"], "validation_accuracy": 0.9}
        for row in rows
    ]
    data = report_data(*rows, tmp_path=tmp_path, epochs=epochs)
    (data.studies[0].path / files.STUDY).write_text('{"runs": []}', encoding="utf-8")
    for goal, is_advised in (("", True), ("time to validation_accuracy>=0.8", False)):
        (answer,) = answers_of(data, goal).answers
        assert answer.use, goal
        assert answer.next, goal
        assert ("--confirm" in answer.next.command) is is_advised, (goal, answer.next)
    (study,) = data.studies
    again = replace(study, others=tuple(row | {"phase": "confirm"} for row in study.runs))
    for goal, confirmed in (("", 5), ("cost", 0)):
        (answer,) = answers_of(replace(data, studies=(again,)), goal).answers
        assert answer.confirmed == confirmed, goal


def test_a_run_that_was_interrupted_says_nothing_of_its_arm_and_is_missing(tmp_path: Path) -> None:
    rows = [*repeats(4, label="arm"), *repeats(3, label="other", workers=2, train_time_s=1.0)]
    ended = studies(tmp_path, "", rows=[*rows[:3], rows[3] | {"status": "interrupted"}, *rows[4:]])
    runs = [{"label": row["label"], "repeat": row["repeat"]} for row in rows]
    (ended.studies[0].path / files.STUDY).write_text(json.dumps({"runs": runs}), encoding="utf-8")
    (answer,) = answers_of(ended).answers
    assert [arm.completed for arm in answer.arms if arm.word != "out"] == [3, 3]
    assert "still to be made: 1 run of the study" in [doubt.text for doubt in answer.doubts]
    (ended.studies[0].path / files.STUDY).unlink()
    assert "left out: 1 run interrupted" in [doubt.text for doubt in answers_of(ended).answers[0].doubts]
