"""Faults of each way to end: right status and reason, nothing left or lost, `--resume` completes.

Those of the soak add what is left of kinds and phases; `python -m tests.soak faults` strikes with each kind in each.
"""

from pathlib import Path

import pytest

from tests.functional.faults.fault import KINDS, PHASES, Fault
from tests.functional.faults.strike import LONG, SHORT, WAITED_FOR, examine, kinds
from tests.functional.faults.study import Shape

STUDIES = {
    "one of two that hangs": (Shape(2, "auto", **SHORT), [Fault("hang_gil", "gradient", 1, 25, 0)]),
}
SOAKED = {
    "ring of three": (
        Shape(3, "own-ring", **LONG),
        [Fault("segfault", "all_reduce", 1, 17, 0)],
    ),
    "one worker": (
        Shape(**LONG),
        [
            Fault("gigabyte", "first", 0, 1, 0),
            Fault("memory", "evaluate", 0, 30, 0),
            Fault("exit0", "finish", 0, 1, 0),
        ],
    ),
    "more of three": (
        Shape(3, "own-ring", **LONG),
        [
            Fault("raise", "update", 0, 9, 0),
            Fault("kill", "exit", 2, 1, 0),
            Fault("exit0", "rendezvous", 2, 1, 0),
            Fault("sysexit0", "broadcast", 1, 1, 0),
        ],
    ),
    "more that hang": (Shape(2, "auto", **SHORT), [Fault("hang", "build", 1, 1, 0), Fault("stop", "update", 1, 8, 0)]),
}
OUT_OF_MEMORY = Fault("oom", "all_reduce", 1, 9, 0)


def test_every_kind_and_every_phase_is_struck() -> None:
    studies = (STUDIES | SOAKED).values()
    faults = [OUT_OF_MEMORY, *(fault for _, listed in studies for fault in listed)]
    assert {fault.kind for fault in faults} == set(KINDS)
    assert {fault.phase for fault in faults} == set(PHASES)
    for shape, listed in studies:
        assert {fault.kind in WAITED_FOR for fault in listed} == {shape.stall_timeout_s == SHORT["stall_timeout_s"]}


@pytest.mark.slow
@pytest.mark.mpi
@pytest.mark.timeout(900)
@pytest.mark.parametrize("name", [*STUDIES, *(pytest.param(name, marks=pytest.mark.soak) for name in SOAKED)])
def test_faults(tmp_path: Path, name: str) -> None:
    reports = examine(tmp_path / "study", *(STUDIES | SOAKED)[name])
    print("\n".join(report.line() for report in reports))
    assert not [report.line() for report in reports if report.complaints]


@pytest.mark.alone  # the kernel counts its kills for the whole machine
@pytest.mark.mpi
@pytest.mark.soak  # the kernel's kill is named in `test_fit`, a killed worker leaves nothing in `test_execute`
def test_a_worker_that_the_kernel_kills_for_lack_of_memory(tmp_path: Path) -> None:
    if "oom" not in kinds():
        pytest.skip("this machine has no control groups of memory that may be written")
    (report,) = examine(tmp_path / "study", Shape(2, "ring", **LONG), [OUT_OF_MEMORY])
    assert not report.complaints, report.line()
