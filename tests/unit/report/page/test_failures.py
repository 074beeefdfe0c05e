from dlbench.report.page.failures import MOST_SHOWN, UNKNOWN_REASON, failures, key_of
from tests.unit.report.figures.makers import report_data, run


def test_every_attempt_that_did_not_complete_is_there(tmp_path):
    rows = [
        run(status="failed", reason="one"),
        run(attempt=2, status="stalled", reason="two"),
        run(attempt=3),
        run(batch_size=8, status="timeout", reason="three"),
        run(batch_size=16),
    ]
    found = failures(report_data(*rows, tmp_path=tmp_path))
    assert [(one["status"], one["attempt"], one["reason"], one["afterwards"]) for one in found] == [
        ("timeout", 1, "three", ""),
        ("failed", 1, "one", "attempt 3: completed"),
        ("stalled", 2, "two", "attempt 3: completed"),
    ]


def test_runs_of_the_same_name_in_two_studies_are_two(tmp_path):
    rows = [run(study="a", status="failed"), run(study="b", status="failed"), run(study="b", attempt=2)]
    found = failures(report_data(*rows, tmp_path=tmp_path))
    assert [(one["study"], one["afterwards"]) for one in found] == [("a", ""), ("b", "attempt 2: completed")]
    assert len({key_of(one) for one in found}) == 2


def test_a_reason_is_whole_and_begins_short(tmp_path):
    reasons = ["one line", "first\n  second", "x" * 100_000, None, "\x1b[31mred"]
    rows = [run(batch_size=8 * (place + 1), status="failed", reason=text) for place, text in enumerate(reasons)]
    short, folded, long, unknown, coloured = failures(report_data(*rows, tmp_path=tmp_path))
    assert short["beginning"] == short["reason"] == "one line"
    assert (folded["beginning"], folded["reason"]) == ("first", "first\n  second")
    assert len(long["reason"]) == 100_000
    assert len(long["beginning"]) < MOST_SHOWN + 10
    assert unknown["reason"] == unknown["beginning"] == UNKNOWN_REASON
    assert coloured["reason"] == r"\x1b[31mred"
