from dlbench.report.data import attempt_of
from dlbench.report.page.content import MOST_SHOWN, UNKNOWN_REASON, Content
from tests.unit.report.figures.makers import report_data, run


def test_the_title_names_each_scenario_once(tmp_path):
    rows = [run(study=name, scenario=scenario) for name, scenario in (("a", "x"), ("b", "x"), ("c", "y"))]
    assert Content(report_data(*rows, tmp_path=tmp_path)).title == "x, y"
    unnamed = Content(report_data(run(scenario=None), tmp_path=tmp_path))
    assert unnamed.title == "study"


def test_it_is_as_old_as_its_newest_run(tmp_path):
    rows = [
        run(started_at="2026-11-21T23:15:30.177+00:00"),
        run(started_at="2026-11-22T04:15:30.177+05:00", batch_size=8),
        run(started_at=None, batch_size=16),
    ]
    assert Content(report_data(*rows, tmp_path=tmp_path)).created == "2026-11-21 23:15 UTC"
    assert Content(report_data(rows[2], tmp_path=tmp_path)).created == ""


def test_questions_are_asked_once(tmp_path):
    rows = [run(study="a"), run(study="b")]
    scenario = "name: s\ndescription: ' Why? '\nbase: {model: mlp}\n"
    assert Content(report_data(*rows, tmp_path=tmp_path, scenario=scenario)).questions == ("Why?",)
    assert Content(report_data(*rows, tmp_path=tmp_path, scenario="a: [")).questions == ()
    assert Content(report_data(*rows, tmp_path=tmp_path)).questions == ()


def test_a_study_says_how_its_runs_ended(tmp_path):
    rows = [
        run(emulated="simulated"),
        run(batch_size=8, status="failed"),
        run(batch_size=8, attempt=2, status="out-of-memory"),
        run(batch_size=16, status="failed"),
    ]
    (text,) = Content(report_data(*rows, tmp_path=tmp_path)).studies.values()
    assert text == "3 runs: 1 completed, 1 failed, 1 out-of-memory, 1 emulated, 4 attempts"


def test_every_attempt_that_did_not_complete_is_there(tmp_path):
    rows = [
        run(status="failed", reason="one"),
        run(attempt=2, status="stalled", reason="two"),
        run(attempt=3),
        run(batch_size=8, status="timeout", reason="three"),
        run(batch_size=16),
    ]
    found = Content(report_data(*rows, tmp_path=tmp_path)).failures
    assert [(one["status"], one["attempt"], one["reason"], one["afterwards"]) for one in found] == [
        ("timeout", 1, "three", ""),
        ("failed", 1, "one", "attempt 3: completed"),
        ("stalled", 2, "two", "attempt 3: completed"),
    ]


def test_runs_of_the_same_name_in_two_studies_are_two(tmp_path):
    rows = [run(study="a", status="failed"), run(study="b", status="failed"), run(study="b", attempt=2)]
    found = Content(report_data(*rows, tmp_path=tmp_path)).failures
    assert [(one["study"], one["afterwards"]) for one in found] == [("a", ""), ("b", "attempt 2: completed")]
    assert len({attempt_of(one) for one in found}) == 2


def test_a_reason_is_whole_and_begins_short(tmp_path):
    reasons = ["one line", "first\n  second", "x" * 100_000, None, "\x1b[31mred"]
    rows = [run(batch_size=8 * (place + 1), status="failed", reason=text) for place, text in enumerate(reasons)]
    short, folded, long, unknown, coloured = Content(report_data(*rows, tmp_path=tmp_path)).failures
    assert short["beginning"] == short["reason"] == "one line"
    assert (folded["beginning"], folded["reason"]) == ("first", "first\n  second")
    assert len(long["reason"]) == 100_000
    assert len(long["beginning"]) < MOST_SHOWN + 10
    assert unknown["reason"] == unknown["beginning"] == UNKNOWN_REASON
    assert coloured["reason"] == r"\x1b[31mred"


def test_of_each_search_it_says_what_was_tried_and_chosen(tmp_path):
    def tried(rate: float, accuracy: float, **values: object) -> dict[str, object]:
        label = f"tune batch_size=8 learning_rate={rate}"
        own = {"run_id": f"mlp-{rate}-r0", "phase": "tune", "label": label, "learning_rate_base": rate}
        return run(**own, validation_accuracy=accuracy, **values)

    rows = [
        tried(0.1, 0.5, batch_size=8, repeat=0),
        tried(0.3, 0.9, batch_size=8, repeat=0),
        run(batch_size=8, learning_rate_base=0.3, label="batch_size=8", tuned="learning_rate", run_id="mlp-b8-r0"),
        run(batch_size=80, learning_rate_base=0.1, label="batch_size=80", tuned="learning_rate"),
    ]
    found = Content(report_data(*rows, tmp_path=tmp_path))._searched
    assert [line.partition(":")[0] for line in found] == [
        "batch_size=8 learning_rate=0.1, repeat 0",
        "batch_size=8 learning_rate=0.3 (chosen), repeat 0",
    ]
