"""Every attempt that did not complete, with its whole reason: of runs that a later attempt completed, too."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dlbench.records.outcome import Status
from dlbench.report.data import RUN, ReportData
from dlbench.report.formatting import readable, values

if TYPE_CHECKING:
    import pandas as pd

UNKNOWN_REASON = "no reason was recorded"
# How much of a reason is seen before it is unfolded.
MOST_SHOWN = 300
# More attempts than this are not listed on the page and in Markdown.
MOST_FAILURES = 500


@dataclass(frozen=True)
class FailedRun:
    """One attempt that did not complete.

    Attributes:
        study: The study's name in the report.
        run_id: The run.
        label: The label of its arm, unique in the study.
        attempt: Which launch of the run it was.
        status: How it ended.
        reason: Why, in full.
        last_attempt: The run's last launch.
        last_status: How that one ended.
    """

    study: str
    run_id: str
    label: str
    attempt: int
    status: str
    reason: str
    last_attempt: int
    last_status: str

    @property
    def key(self) -> tuple[str, str, int]:
        """The key of the attempt in a report."""
        return self.study, self.run_id, self.attempt

    @property
    def beginning(self) -> str:
        """The first line of the reason, or as much of it as can be read at a glance."""
        first = self.reason.partition("\n")[0]
        return first if len(first) <= MOST_SHOWN else f"{first[:MOST_SHOWN]} ..."

    @property
    def is_folded(self) -> bool:
        """Whether the reason is longer than its beginning."""
        return self.reason != self.beginning

    @property
    def is_last(self) -> bool:
        """Whether no later attempt was made, so that the run as a whole did not complete."""
        return self.attempt == self.last_attempt

    @property
    def afterwards(self) -> str:
        """How the run ended, where it was launched again."""
        return "" if self.is_last else f"attempt {self.last_attempt}: {self.last_status}"


def failures(data: ReportData) -> tuple[FailedRun, ...]:
    """Return every attempt that did not complete, runs that never did first, in the order of the rows."""
    last = {key: (attempt, status) for key, attempt, status in _ends(data.runs)}
    failed = data.attempts[data.attempts["status"] != Status.COMPLETED]
    columns = (values(failed[name]) for name in (*RUN, "label", "attempt", "status", "reason"))
    found = [
        FailedRun(study, run_id, label or "", attempt, status, _reason(reason), *last[study, run_id])
        for study, run_id, label, attempt, status, reason in zip(*columns, strict=True)
    ]
    return tuple(sorted(found, key=lambda failure: failure.last_status == Status.COMPLETED))


def _ends(runs: "pd.DataFrame") -> Iterable[tuple[tuple[str, str], int, str]]:
    columns = (values(runs[name]) for name in (*RUN, "attempt", "status"))
    return (((study, run_id), attempt, status) for study, run_id, attempt, status in zip(*columns, strict=True))


def _reason(reason: str | None) -> str:
    return readable(reason or "").strip() or UNKNOWN_REASON
