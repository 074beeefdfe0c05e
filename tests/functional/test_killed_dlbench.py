"""dlbench is killed (-9): its workers end themselves, `--resume` completes, nothing acknowledged is lost.

`python -m tests.soak kills` does so at every moment with every launcher.
"""

from pathlib import Path

import pytest

from tests.functional.faults.fault import Fault
from tests.functional.faults.kill import LIMITS, MOMENTS, ORPHAN_TIMEOUT_S, Kill, examine
from tests.functional.faults.study import Shape

ALONE, RING = Shape(**LIMITS), Shape(2, "ring", **LIMITS)
SHORT = Shape(startup_timeout_s=15, stall_timeout_s=15, orphan_timeout_s=ORPHAN_TIMEOUT_S)
KILLS = [
    Kill("folder", 0.01, ALONE),
    Kill("prepare", 0.05, RING),
    Kill("launch", 0.05, ALONE),
    Kill("training", 0.1, RING),
    Kill("outcome", 0.0, ALONE),
    Kill("collecting", 0.0, RING),
    # Workers that cannot end themselves by their own code.
    Kill("struck", 0.3, RING, Fault("hang", "gradient", 1, 20, 0)),
    Kill("struck", 0.3, RING, Fault("stop", "gradient", 0, 12, 0)),
    Kill("struck", 0.3, SHORT, Fault("hang_gil", "gradient", 0, 30, 0)),
]


@pytest.mark.slow
@pytest.mark.mpi
@pytest.mark.parametrize("kill", KILLS, ids=str)
def test_killed(tmp_path: Path, kill: Kill) -> None:
    assert kill.fault or kill.moment in MOMENTS
    found, complaints = examine(tmp_path / "study", kill)
    assert not complaints, found
