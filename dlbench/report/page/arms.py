"""The arms of a report with their medians, as page and Markdown show them: each study's in a table of its own."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from dlbench.analysis.arm_table import ArmTable, arm_table
from dlbench.analysis.arms import Arm
from dlbench.analysis.groups import naming
from dlbench.report.data import ReportData
from dlbench.report.page.runs_table import in_order

if TYPE_CHECKING:
    import pandas as pd

# More arms than this are not listed.
MOST_ARMS = 1_000


@dataclass(frozen=True)
class StudyArms:
    """The arms of one study that have completed runs, in the order of reading.

    Attributes:
        study: Its name.
        table: The first MOST_ARMS of them; what no arm has is left out.
        total: How many there are.
    """

    study: str
    table: ArmTable
    total: int

    @property
    def numbers(self) -> frozenset[str]:
        """The headings of columns that hold numbers."""
        return frozenset(self.table.headings) - self.table.texts - {"arm", "emulated"}


@dataclass(frozen=True)
class ArmSection:
    """The arms of all studies.

    Attributes:
        title: What stands in the cells.
        studies: Those of each study that has any.
        notes: What marks mean, and what all arms have in common.
    """

    title: str
    studies: tuple[StudyArms, ...]
    notes: tuple[str, ...]


def arm_section(data: ReportData) -> ArmSection | None:
    """Return the arms of a report; None where no run completed."""
    found = {source.name: own for source in data.studies if (own := _in_order(data, source.name))}
    if not found:
        return None
    everything = arm_table([arm for own in found.values() for arm in own])
    studies = (StudyArms(study, arm_table(own[:MOST_ARMS], names=naming), len(own)) for study, own in found.items())
    return ArmSection(everything.title, tuple(studies), everything.notes)


def _in_order(data: ReportData, study: str) -> list[Arm]:
    """Return the arms of a study in the order of reading."""
    runs: pd.DataFrame = in_order(data.completed[data.completed["study"] == study].reset_index(drop=True))
    places = {str(name): place for place, name in enumerate(dict.fromkeys(runs["arm"]))}
    return sorted(data.arms[study], key=lambda arm: places[arm.name])
