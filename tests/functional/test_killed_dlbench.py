"""dlbench is killed (-9): its workers end themselves, `--resume` completes, nothing acknowledged is lost.

`python -m tests.soak kills` does so at every moment with every launcher, and with workers that hang in any way.
"""

from pathlib import Path

import pytest

from tests.functional.faults.fault import Fault
from tests.functional.faults.kill import LIMITS, MOMENTS, Kill, examine
from tests.functional.faults.study import Shape

ALONE, RING = Shape(**LIMITS), Shape(2, "ring", **LIMITS)
SOAKED = ("folder", "launch", "collecting", "struck")
# Before there is a study, before its first worker connects, while workers train, while rows are written.
KILLS = [
    Kill("folder", 0.01, ALONE),
    Kill("launch", 0.05, RING),
    Kill("training", 0.1, RING),
    Kill("collecting", 0.0, ALONE),
    # A worker that cannot end itself by its own code.
    Kill("struck", 0.3, RING, Fault("stop", "gradient", 0, 12, 0)),
]


@pytest.mark.slow
@pytest.mark.mpi
@pytest.mark.parametrize(
    "kill",
    [pytest.param(kill, marks=pytest.mark.soak if kill.moment in SOAKED else ()) for kill in KILLS],
    ids=str,
)
def test_killed(tmp_path: Path, kill: Kill) -> None:
    assert kill.fault or kill.moment in MOMENTS
    found, complaints = examine(tmp_path / "study", kill)
    assert not complaints, found
