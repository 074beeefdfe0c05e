"""Against workers: the ideal line goes through what was measured, and only where something equal was."""

from pathlib import Path

from dlbench.report.chart import Role
from dlbench.report.figures._table import TABLE
from dlbench.report.lines import ALONE
from tests.unit.report.figures.cases import Case, check_cases, drawn, see
from tests.unit.report.figures.makers import Row, base_line, repeats, run

chart = TABLE["throughput"].chart

IDEAL, OWN = f"ideal: {ALONE} x workers", "ideal: 1 worker of mpi x workers"


def arms(**values: object) -> list[Row]:
    one = repeats(3, workers=1, samples_per_s=[90.0, 80.0, 100.0], **values)
    return one + repeats(3, workers=2, samples_per_s=[170.0, 160.0, 180.0], **values)


BASE = base_line(3, samples_per_s=[100.0, 130.0, 110.0])
HIDDEN = {"model.hidden": "[16]"}
CASES = (
    Case(
        "the ideal line goes through the measured base line", [*arms(), *BASE], num_runs=9,
        says=["Ideal: the median of one worker x workers", "Weak scaling: every worker keeps its batch."],
        shows={"weak scaling": {"mpi": {1: 90, 2: see(160, 170, 180, value=170)}, ALONE: {1: 110},
                                IDEAL: {1: 110, 2: 220}}},
    ),
    Case(
        "without a base line through each strategy's own worker", [*arms(), *arms(strategy="horovod")],
        {"weak scaling": {"horovod": ..., "mpi": ..., "ideal: 1 worker of horovod x workers": {1: 90, 2: 180},
                          "ideal: 1 worker of mpi x workers": {1: 90, 2: 180}}},
    ),
    Case(
        "without any single worker none", [run(workers=2), run(workers=4)], {0: {"mpi": {2: 2000, 4: 4000}}},
        silent=["Ideal:"],
    ),
    *(
        Case(
            f"a single worker of other {key} carries none",
            [*arms(**HIDDEN), *base_line(3, **(HIDDEN | {key: value}))],
            {0: {"mpi": ..., ALONE: ..., OWN: {1: 90, 2: 180}}},
        )
        for key, value in {"batch_size": 64, "cores_per_worker": 2.0, "model.hidden": "[9]", "study": "b"}.items()
    ),
    Case(
        "a single worker that was no base line will do",
        [*repeats(3, strategy="single", workers=1, samples_per_s=[100.0, 110.0, 120.0]), *arms()[3:]],
        {"weak scaling": {"mpi": {2: 170}, ALONE: {1: 110}, IDEAL: {1: 110, 2: 220}}},
    ),
    # With one worker both scopes are the same: one base line serves both.
    Case(
        "weak and strong scaling apart", [*arms(), *arms(batch_scope="global", strategy="mirrored"), *BASE],
        {0: {"mirrored": ..., IDEAL: {1: 110, 2: 220}}, 1: {"mpi": ..., IDEAL: ..., ALONE: ...}},
        titles=["strong scaling", "weak scaling"],
        says=["Weak scaling: every worker keeps its batch.", "Strong scaling: one batch is divided over the workers."],
    ),
    Case(
        "batch sizes stand on x where they vary, without an ideal line",
        [*arms(batch_size=16), *arms(batch_size=64), *base_line(1, batch_size=16, samples_per_s=100.0)],
        {"": {"mpi, 1 worker": {16: 90, 64: 90}, "mpi, 2 workers": {16: 170, 64: 170}, ALONE: {16: 100}}},
        silent=["ideal"],
    ),
    Case(
        "flags are those of the runs at a place",
        [*arms()[:3], *repeats(2, workers=2, extended_steps=9, rate_drift=[0.04, -0.06])],
        {0: {"mpi": {1: see(80, 90, 100, flags=""), 2: see(2000, 2000, flags="extended;unsteady")}, OWN: ...}},
    ),
    Case(
        "emulated runs get no ideal line of real ones",
        [*arms(), *repeats(3, workers=4, samples_per_s=200.0, emulated="oversubscribed"), *BASE],
        {0: {"mpi": ..., "mpi (emulated)": {4: 200}, ALONE: ..., IDEAL: {1: 110, 2: 220}}},
    ),
)  # fmt: skip


def test_cases(tmp_path: Path) -> None:
    check_cases(chart, CASES, tmp_path)
    (panel,) = drawn(chart, *arms(), *BASE, tmp_path=tmp_path).panels
    assert (panel.x.scale, panel.y.scale) == ("log2", "log10")
    assert [one.role for one in panel.series] == [Role.MEASURED, Role.BASE_LINE, Role.IDEAL]
