"""Every attempt that did not complete, with its whole reason: of runs that a later attempt completed, too."""

from dlbench.analysis.arm_table import label_of
from dlbench.analysis.arms import Row
from dlbench.records.outcome import Status
from dlbench.report.data import ReportData
from dlbench.report.formatting import readable

UNKNOWN_REASON = "no reason was recorded"
# How much of a reason is seen before it is unfolded.
MOST_SHOWN = 300
# More attempts than this are not listed on the page and in Markdown.
MOST_FAILURES = 500


def key_of(row: Row) -> tuple[str, str, int]:
    """Return the key of an attempt in a report."""
    return row["study"], row["run_id"], row["attempt"]


def failures(data: ReportData) -> list[Row]:
    """Return every attempt that did not complete, runs that never did first, in the order of the rows.

    `reason` says why, in full, and `beginning` as much of it as can be read at a glance; `label` is empty where there
    is none; `afterwards` says how the run ended, where it was launched again.
    """
    lasts = {key_of(row)[:2]: row for row in data.runs}
    failed = [(row, lasts[key_of(row)[:2]]) for row in data.attempts if row["status"] != Status.COMPLETED]
    return [_failure(row, last) for row, last in sorted(failed, key=lambda pair: pair[1]["status"] == Status.COMPLETED)]


def _failure(row: Row, last: Row) -> Row:
    reason = readable(row.get("reason") or "").strip() or UNKNOWN_REASON
    first = reason.partition("\n")[0]
    beginning = first if len(first) <= MOST_SHOWN else f"{first[:MOST_SHOWN]} ..."
    is_last = row["attempt"] == last["attempt"]
    afterwards = "" if is_last else f"attempt {last['attempt']}: {last['status']}"
    return {**row, "label": label_of(row), "reason": reason, "beginning": beginning, "afterwards": afterwards}
