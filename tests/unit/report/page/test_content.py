from dlbench.report.data import attempt_of
from dlbench.report.page.content import MOST_SHOWN, UNKNOWN_REASON, Content
from tests.unit.report.figures.makers import report_data, run


def test_titles_questions_and_the_newest_start_are_those_of_all_scenarios_each_once(tmp_path):
    def content(*rows, **others):
        return Content(report_data(*rows, tmp_path=tmp_path, **others))

    rows = [
        run(study="a", scenario="x", started_at="2026-11-21T23:15:30.177+00:00"),
        run(study="b", scenario="x", started_at="2026-11-22T04:15:30.177+05:00"),
        run(study="c", scenario="y", started_at=None),
    ]
    text = "name: s\ndescription: ' Why? '\nbase: {model: mlp}\n"
    every, unknown = content(*rows, scenario=text), content(run(scenario=None, started_at=None), scenario="a: [")
    assert (every.title, every.created, every.questions) == ("x, y", "2026-11-21 23:15 UTC", ("Why?",))
    assert (unknown.title, unknown.created, unknown.questions) == ("study", "", ())
    assert content(*rows).questions == ()


def test_a_study_says_how_its_runs_ended(tmp_path):
    rows = [
        run(emulated="simulated"),
        run(batch_size=8, status="failed"),
        run(batch_size=8, attempt=2, status="out-of-memory"),
        run(batch_size=16, status="failed"),
    ]
    (text,) = Content(report_data(*rows, tmp_path=tmp_path)).studies.values()
    assert text == "3 runs: 1 completed, 1 failed, 1 out-of-memory, 1 emulated, 4 attempts"


def test_every_attempt_that_did_not_complete_is_there_with_how_its_run_ended(tmp_path):
    rows = [
        run(study="a", status="failed", reason="one"),
        run(study="a", attempt=2, status="stalled", reason="two"),
        run(study="a", attempt=3),
        run(study="a", batch_size=8, status="timeout", reason="three"),
        # A run of the same name in another study.
        run(study="b", status="failed", reason="four"),
    ]
    failures = Content(report_data(*rows, tmp_path=tmp_path)).failures
    assert [(row["study"], row["attempt"], row["reason"], row["afterwards"]) for row in failures] == [
        ("a", 1, "three", ""),
        ("b", 1, "four", ""),
        ("a", 1, "one", "attempt 3: completed"),
        ("a", 2, "two", "attempt 3: completed"),
    ]
    assert len(set(map(attempt_of, failures))) == 4


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
    rows = [
        run(run_id=f"mlp-{rate}-r0", phase="tune", label=f"tune batch_size=8 learning_rate={rate}",
            batch_size=8, learning_rate_base=rate)
        for rate in (0.1, 0.3)
    ]  # fmt: skip
    rows += [
        run(batch_size=8, learning_rate_base=0.3, label="batch_size=8", tuned="learning_rate", run_id="mlp-b8-r0"),
        run(batch_size=80, learning_rate_base=0.1, label="batch_size=80", tuned="learning_rate"),
    ]
    tried = Content(report_data(*rows, tmp_path=tmp_path))._searched
    assert [line.partition(":")[0] for line in tried] == [
        "batch_size=8 learning_rate=0.1, repeat 0",
        "batch_size=8 learning_rate=0.3 (chosen), repeat 0",
    ]
