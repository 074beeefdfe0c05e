"""The figures of `_table.TABLE`, but for maps (`test_maps`) and those with lines to compare with."""

from math import inf
from pathlib import Path
from typing import Any

from dlbench.report.chart import Role
from dlbench.report.figures._shown import UNEQUAL
from dlbench.report.figures._table import TABLE
from dlbench.report.lines import ALONE
from tests.unit.report.figures.cases import Case, check_cases, drawn, see
from tests.unit.report.figures.makers import Row, base_line, repeats, run

accuracy = TABLE["accuracy"].chart

ONE = repeats(3, workers=1, validation_accuracy=[0.9, 0.94, 0.92], train_loss=[0.1, 0.2, 0.3])
TWO = repeats(3, workers=2, validation_accuracy=[0.8, 0.84, 0.82], train_loss=[0.4, 0.5, 0.6])
TWO_WORKERS = see(0.8, 0.82, 0.84, value=0.82, low=0.8, high=0.84, n=3)

ACCURACY = (
    Case(
        "every run, its median and interval", ONE + TWO,
        {0: {"mpi": {1: 0.92, 2: TWO_WORKERS}}, 3: {"mpi": {1: 0.2, 2: 0.5}}},
        says=["the global batch grows with the workers"], num_runs=6,
    ),
    Case(
        "a global batch does not grow, and divided epochs",
        [run(workers=w, batch_scope="global", divide="epochs") for w in (1, 2)],
        says=["passes over all samples"], silent=["grows"],
    ),
    Case(
        "a task with one arm",
        [run(model="cnn", workers=1), run(model="cnn", workers=2), run(model="lstm")],
        titles=["cnn"] * 4, says=["Left out, without a second arm: lstm."], num_runs=2,
    ),
    Case(
        "random numbers", [run(workers=w, input=i) for w in (1, 2) for i in ("mapped", "synthetic")],
        says=["2 runs on synthetic input left out"], num_runs=2,
    ),
)  # fmt: skip


def test_cases_of_accuracy(tmp_path: Path) -> None:
    check_cases(accuracy, ACCURACY, tmp_path)
    assert [panel.y.label for panel in drawn(accuracy, *ONE, *TWO, tmp_path=tmp_path).panels] == [
        "validation accuracy", "validation loss (nats)", "training accuracy", "training loss (nats)",
    ]  # fmt: skip


devices = TABLE["devices"].chart

GIB = 2**30
BUSY = [
    *repeats(3, batch_size=8, device_utilization=[0.5, 0.7, 0.6], host_memory_peak_bytes=[GIB, GIB, GIB]),
    *repeats(3, batch_size=16, device_utilization=[0.8, 0.9, 0.85], host_memory_peak_bytes=[GIB, 3 * GIB, 2 * GIB]),
]
for row in BUSY:
    row["device_memory_peak_bytes"] = 4 * row["host_memory_peak_bytes"]
# 0.3 s of 2 workers x 1 core x 5 s.
STOLEN = [
    run(batch_size=b, steal_fraction=share, observer_cpu_s=0.3, workers=2) for b, share in ((8, 0.05), (16, 0.002))
]

DEVICES = (
    Case(
        "shares and gibibytes", BUSY, silent=["took more"],
        shows={0: {"mpi": {8: 0.6, 16: 0.85}}, 1: {"mpi": {8: 4, 16: 8}},
         2: {"mpi": {8: 1, 16: see(1, 2, 3, value=2)}}},
    ),
    Case(
        "what the hypervisor and dlbench took", STOLEN,
        says=["In 1 of 2 runs the hypervisor took more than 1% of the processors' time, at most 5.0%.",
              "In 2 of 2 runs dlbench's own observing threads took more than 1%", "at most 3.0%."],
    ),
)  # fmt: skip


def test_cases_of_devices(tmp_path: Path) -> None:
    check_cases(devices, DEVICES, tmp_path)
    assert [(one.y.label, one.y.percent, one.x.scale) for one in drawn(devices, *BUSY, tmp_path=tmp_path).panels] == [
        ("utilisation of the devices", True, "log2"),
        ("peak memory of a device (GiB)", False, "log2"),
        ("peak host memory of a worker (GiB)", False, "log2"),
    ]


def test_models_and_what_a_batch_counts_have_panels_of_their_own(tmp_path: Path) -> None:
    rows = [run(model=m, batch_size=b) for m in ("cnn", "lstm") for b in (8, 16)]
    # The scope follows from the strategy, and must still split the panels.
    rows += [run(batch_size=b, batch_scope="global", strategy="mirrored") for b in (32, 64)]
    made = drawn(devices, *rows, tmp_path=tmp_path)
    assert [(panel.title, panel.x.label) for panel in made.panels[::2]] == [
        ("batch of all workers", "batch size of all workers (samples)"),
        ("cnn, batch of one worker", "batch size of one worker (samples)"),
        ("lstm, batch of one worker", "batch size of one worker (samples)"),
    ]


strategies = TABLE["strategies"].chart


def ways(**values: object) -> list[Row]:
    mpi = repeats(3, workers=2, strategy="mpi", samples_per_s=[150.0, 170.0, 160.0], **values)
    horovod = repeats(3, workers=4, strategy="horovod", samples_per_s=[290.0, 310.0, 300.0], **values)
    return mpi + horovod


WAYS = [*ways(), *base_line(3, samples_per_s=[90.0, 100.0, 110.0])]
SIZES = [
    row
    for size, rate in ((16, 10.0), (64, 20.0))
    for row in (*ways(batch_size=size), *base_line(1, batch_size=size, samples_per_s=rate))
]
STRATEGIES = (
    # The place of a cell is the number of its column.
    Case(
        "rows are ways and columns are workers where the batch does not vary", WAYS, num_runs=9,
        shows={"weak scaling": {ALONE: {0: 100}, "horovod": {2: 300}, "mpi": {1: see(150, 160, 170, value=160)}}},
    ),
    Case(
        "batch sizes are columns where they vary, each way is a row",
        [*SIZES, run(model="cnn", workers=2, batch_size=16)],
        {"mlp": {ALONE: {0: 10, 1: 20}, "horovod": ..., "mpi": {0: 160, 1: 160}}},
        titles=["mlp"], says=["Left out, with one strategy only: weak scaling, cnn"],
    ),
)  # fmt: skip


def test_cases_of_strategies(tmp_path: Path) -> None:
    check_cases(strategies, STRATEGIES, tmp_path)
    (panel,) = drawn(strategies, *ways(extended_steps=9), tmp_path=tmp_path).panels
    assert {mark.flags for one in panel.series for mark in one.marks} == {"extended"}
    (panel,) = drawn(strategies, *WAYS, tmp_path=tmp_path).panels
    assert (panel.form, panel.x.categories) == ("cells", ("1", "2", "4"))
    assert [one.role for one in panel.series] == [Role.BASE_LINE, Role.MEASURED, Role.MEASURED]


time_to_target = TABLE["time_to_target"].chart


def reached(time_s: float | None, epochs: int | None, **values: Any) -> Row:
    target = {"target_metric": "validation_accuracy", "target_value": 0.9}
    return run(**{**target, "time_to_target_s": time_s, "epochs_to_target": epochs, **values})


TIMES = {8: (10.0, 14.0, 12.0), 16: (6.0, 5.0, 9.0)}
IN_TIME = [reached(t, int(t), batch_size=b, repeat=r) for b, found in TIMES.items() for r, t in enumerate(found)]
LATE = [
    reached(10.0, 2, batch_size=8),
    reached(11.0, 3, batch_size=8, repeat=1),
    reached(None, None, batch_size=8, repeat=2, train_time_s=20.0, epochs_completed=4),
    reached(5.0, 1, batch_size=16),
    reached(None, None, batch_size=16, repeat=1, train_time_s=15.0, epochs_completed=4),
    reached(None, None, batch_size=32, train_time_s=12.0, epochs_completed=4),
    reached(None, None, batch_size=8, train_time_s=9.0, status="failed", repeat=4),
]
TIME_TO_TARGET = (
    Case("medians", IN_TIME, {0: {"mpi": {8: 12, 16: 6}}, 1: {"mpi": {8: see(10, 12, 14), 16: see(5, 6, 9)}}}),
    Case(
        "runs that never reached it are shown where they ended, and a failed one is none of them", LATE, num_runs=7,
        says=["3 runs of 6 that completed ended before the target"],
        shows={
            0: {"mpi": {8: see(10, 11, ended=(20,), value=11), 16: see(5, ended=(15,)), 32: see(ended=(12,))}},
            1: {"mpi": {8: see(2, 3, ended=(4,)), 16: see(1, ended=(4,)), 32: see(ended=(4,))}},
        },
    ),
    Case(
        "runs that never reached it are later than all others where it is unknown when they ended",
        [*LATE[:2], *(reached(None, None, batch_size=b, repeat=2, train_time_s=None) for b in (8, 16))],
        {0: {"mpi": {8: see(10, 11, ended=(inf,), value=11, low=None), 16: see(ended=(inf,))}}},
        says=["2 runs of 4 that completed ended before the target: shown as at least what they had come to, where"],
    ),
    Case(
        "how finely the moment is known", [reached(4.0, 2, workers=w, evaluate_every=2) for w in (1, 2)],
        says=["The target is looked for at evaluations alone: every 2 epochs."],
    ),
    Case(
        "random numbers, and no target", num_runs=2, says=["1 run on synthetic input left out"],
        rows=[*(reached(4.0, 1, workers=w) for w in (1, 2)), reached(None, None, workers=4, input="synthetic"), run()],
        shows={0: {"mpi": {1: 4, 2: 4}}},
    ),
)  # fmt: skip


def test_cases_of_time_to_target(tmp_path: Path) -> None:
    check_cases(time_to_target, TIME_TO_TARGET, tmp_path)
    made = drawn(time_to_target, *IN_TIME, tmp_path=tmp_path)
    assert made.title == "Time and epochs to a validation accuracy of at least 0.9 by batch size"
    assert [one.y.label for one in made.panels] == ["time to target (s)", "epochs to target"]


training_time = TABLE["training_time"].chart


def two_sizes(**values: object) -> list[Row]:
    same = {"samples_seen": 5000, **values}
    return [
        *repeats(3, batch_size=16, train_time_s=[4.0, 2.0, 3.0], **same),
        *repeats(3, batch_size=64, train_time_s=[1.5, 1.0, 2.0], **same),
    ]


BASE = [base_line(2, batch_size=b, train_time_s=t, samples_seen=5000) for b, t in ((16, 5.0), (64, 4.0))]
TRAINING_TIME = (
    Case(
        "one line for each way, with every run and the median, and its base line",
        [*two_sizes(workers=2), *two_sizes(workers=4), *BASE[0], *BASE[1]], num_runs=16, titles=[""],
        shows={0: {"mpi, 2 workers": {16: see(2, 3, 4, value=3, low=2, high=4), 64: 1.5}, "mpi, 4 workers": ...,
                   ALONE: {16: 5, 64: 4}}},
    ),
    Case(
        "both do where the workers make a curve", [row for w in (1, 2, 4) for row in two_sizes(workers=w)],
        {0: {"mpi, 1 worker": ..., "mpi, 2 workers": ..., "mpi, 4 workers": ...},
         1: {"mpi, batch 16": ..., "mpi, batch 64": ...}},
    ),
    Case(
        "the samples seen stand beside it where they differ",
        [*two_sizes(), run(batch_size=64, repeat=3, samples_seen=4900, train_time_s=1.5)],
        {1: {"mpi": {16: 5000, 64: 5000}}}, titles=["", ""],
    ),
    Case(
        "runs that learned nothing or missed their target are flagged",
        [*repeats(2, batch_size=16, train_time_s=4.0, samples_seen=9, validation_accuracy=[0.1, 0.9]),
         *repeats(2, batch_size=64, train_time_s=3.0, samples_seen=9, target_value=0.9, time_to_target_s=[1.0, None]),
         run(batch_size=128, train_time_s=2.0, samples_seen=9)],
        {0: {"mpi": {16: see(4, 4, flags="nothing"), 64: see(3, 3, flags="missed"), 128: see(2, flags="")}}},
    ),
)  # fmt: skip


def test_cases_of_training_time(tmp_path: Path) -> None:
    check_cases(training_time, TRAINING_TIME, tmp_path)
    equal, unequal = (
        drawn(training_time, *two_sizes(**seen), tmp_path=tmp_path) for seen in ({}, {"samples_seen": None})
    )
    assert (equal.title, equal.lead, unequal.lead) == ("Training time by batch size", "", "")
    leads = [drawn(training_time, *case.rows, tmp_path=tmp_path).lead for case in TRAINING_TIME[2:]]
    assert leads == [UNEQUAL, "Arms end at validation accuracy 0.500 to 0.850."]
