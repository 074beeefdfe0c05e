"""Utilisation and memory against batch size or workers."""

from pathlib import Path

from dlbench.report.figures._table import TABLE
from tests.unit.report.figures.cases import Case, check_cases, drawn, see
from tests.unit.report.figures.makers import repeats, run

chart = TABLE["devices"].chart

GIB = 2**30
ROWS = [
    *repeats(3, batch_size=8, device_utilization=[0.5, 0.7, 0.6], host_memory_peak_bytes=[GIB, GIB, GIB]),
    *repeats(3, batch_size=16, device_utilization=[0.8, 0.9, 0.85], host_memory_peak_bytes=[GIB, 3 * GIB, 2 * GIB]),
]
for row in ROWS:
    row["device_memory_peak_bytes"] = 4 * row["host_memory_peak_bytes"]
STOLEN = [run(batch_size=size, steal_fraction=share, workers=2) for size, share in ((8, 0.05), (16, 0.002))]
# 0.3 s of 2 workers x 1 core x 5 s.
OBSERVED = [run(batch_size=size, observer_cpu_s=0.3, workers=2) for size in (8, 16)]

CASES = (
    Case(
        "shares and gibibytes", ROWS,
        {0: {"mpi": {8: 0.6, 16: 0.85}}, 1: {"mpi": {8: 4, 16: 8}},
         2: {"mpi": {8: 1, 16: see(1, 2, 3, value=2)}}},
    ),
    Case(
        "what the hypervisor took", STOLEN, silent=["observing"],
        says=["In 1 of 2 runs the hypervisor took more than 1% of the processors' time, at most 5.0%."],
    ),
    Case(
        "what dlbench took", OBSERVED, silent=["hypervisor"],
        says=["In 2 of 2 runs dlbench's own observing threads took more than 1%", "at most 3.0%."],
    ),
)  # fmt: skip


def test_cases(tmp_path: Path) -> None:
    check_cases(chart, CASES, tmp_path)
    utilisation, *memory = drawn(chart, *ROWS, tmp_path=tmp_path).panels
    assert (utilisation.y.percent, utilisation.x.scale) == (True, "log2")
    assert [one.y.label for one in memory] == [
        "peak memory of a device (GiB)",
        "peak host memory of a worker (GiB)",
    ]


def test_models_and_what_a_batch_counts_have_panels_of_their_own(tmp_path: Path) -> None:
    rows = [run(model=m, batch_size=b) for m in ("cnn", "lstm") for b in (8, 16)]
    made = drawn(chart, *rows, *(run(batch_size=b, batch_scope="global") for b in (32, 64)), tmp_path=tmp_path)
    assert [(panel.title, panel.x.label) for panel in made.panels[::2]] == [
        ("batch of all workers", "batch size of all workers (samples)"),
        ("cnn, batch of one worker", "batch size of one worker (samples)"),
        ("lstm, batch of one worker", "batch size of one worker (samples)"),
    ]
