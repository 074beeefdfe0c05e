"""What arms are compared with: ideal lines through what was measured, equal base lines, and the fit of updates."""

from pathlib import Path
from typing import Any

from dlbench.analysis.statistics.intervals import ratio_interval
from dlbench.report.chart import Role
from dlbench.report.figures._reference_lines import WHOLE
from dlbench.report.figures._table import TABLE
from dlbench.report.lines import ALONE
from tests.unit.report.figures.cases import Case, check_cases, drawn, see
from tests.unit.report.figures.makers import Row, base_line, line, repeats, run

throughput = TABLE["throughput"].chart

IDEAL, OWN = f"ideal: {ALONE} x workers", "ideal: 1 worker of mpi x workers"


def rated(**values: object) -> list[Row]:
    one = repeats(3, workers=1, samples_per_s=[90.0, 80.0, 100.0], **values)
    return one + repeats(3, workers=2, samples_per_s=[170.0, 160.0, 180.0], **values)


def run_of_sizes(workers: int, **values: object) -> list[Row]:
    return [run(workers=workers, **{"model.hidden": size}, **values) for size in ("[8]", "[9]")]


ALONE_RATES = base_line(3, samples_per_s=[100.0, 130.0, 110.0])
THROUGHPUT = (
    Case(
        "the ideal line goes through the measured base line", [*rated(), *ALONE_RATES], num_runs=9,
        says=["Ideal: the median of one worker x workers", "Weak scaling: every worker keeps its batch."],
        shows={"weak scaling": {"mpi": {1: 90, 2: see(160, 170, 180, value=170)}, ALONE: {1: 110},
                                IDEAL: {1: 110, 2: 220}}},
    ),
    Case(
        "without a base line through each strategy's own worker", [*rated(), *rated(strategy="horovod")],
        {"weak scaling": {"horovod": ..., "mpi": ..., "ideal: 1 worker of horovod x workers": {1: 90, 2: 180},
                          "ideal: 1 worker of mpi x workers": {1: 90, 2: 180}}},
    ),
    Case(
        "without a base line nor across batch sizes", [*rated()[:3], *(run(workers=w, batch_size=64) for w in (2, 4))],
        {"weak scaling": {"mpi": {1: 90, 2: 2000, 4: 4000}}}, silent=["Ideal:"],
    ),
    Case(
        "without any single worker none", [run(workers=2), run(workers=4)], {0: {"mpi": {2: 2000, 4: 4000}}},
        silent=["Ideal:"],
    ),
    Case(
        "a single worker that is no base line carries none", [*rated(), *base_line(3, **{"model.hidden": "[9]"})],
        {0: {"mpi": ..., ALONE: ..., OWN: {1: 90, 2: 180}}},
    ),
    Case(
        "a single worker that was no base line will do",
        [*repeats(3, strategy="single", workers=1, samples_per_s=[100.0, 110.0, 120.0]), *rated()[3:]],
        {"weak scaling": {"mpi": {2: 170}, ALONE: {1: 110}, IDEAL: {1: 110, 2: 220}}},
    ),
    Case(
        "without base lines a setting of theirs distinguishes lines, as in other charts",
        [*run_of_sizes(2), *run_of_sizes(4)],
        {"weak scaling": {"mpi, model.hidden=[8]": {2: 2000, 4: 4000}, "mpi, model.hidden=[9]": {2: 2000, 4: 4000}}},
    ),
    Case(
        "with base lines each has a panel, and the lines the names of other charts",
        [*run_of_sizes(2), *run_of_sizes(4), *run_of_sizes(1, strategy="single", baseline=True)],
        {0: {"mpi, model.hidden=[8]": ..., f"{ALONE}, model.hidden=[8]": ..., IDEAL: ...},
         1: {"mpi, model.hidden=[9]": ..., f"{ALONE}, model.hidden=[9]": ..., IDEAL: ...}},
        titles=["weak scaling, model.hidden=[8]", "weak scaling, model.hidden=[9]"],
    ),
    # With one worker both scopes are the same: one base line serves both.
    Case(
        "weak and strong scaling apart", [*rated(), *rated(batch_scope="global", strategy="mirrored"), *ALONE_RATES],
        {0: {"mirrored": ..., IDEAL: {1: 110, 2: 220}}, 1: {"mpi": ..., IDEAL: ..., ALONE: ...}},
        titles=["strong scaling", "weak scaling"],
        says=["Weak scaling: every worker keeps its batch.", "Strong scaling: one batch is divided over the workers."],
    ),
    Case(
        "a line and an ideal for each device, though it follows from the workers, and none across them",
        [*(run(command="imported", workers=w, device_name="A" if w < 4 else "B", samples_per_s=100.0 * w)
           for w in (2, 4, 8)),
         *base_line(1, command="imported", device_name="A", samples_per_s=110.0)],
        {"weak scaling": {"mpi, A": {2: 200}, "mpi, B": {4: 400, 8: 800}, f"{ALONE}, A": {1: 110},
                          f"ideal: {ALONE}, A x workers": {1: 110, 2: 220}}},
    ),
    Case(
        "batch sizes stand on x where they vary, without an ideal line",
        [*rated(batch_size=16), *rated(batch_size=64), *base_line(1, batch_size=16, samples_per_s=100.0)],
        {"": {"mpi, 1 worker": {16: 90, 64: 90}, "mpi, 2 workers": {16: 170, 64: 170}, ALONE: {16: 100}}},
        silent=["ideal"],
    ),
    Case(
        "flags are those of the runs at a place",
        [*rated()[:3], *repeats(2, workers=2, extended_steps=9, rate_drift=[0.04, -0.06])],
        {0: {"mpi": {1: see(80, 90, 100, flags=""), 2: see(2000, 2000, flags="extended;unsteady")}, OWN: ...}},
    ),
    Case(
        "emulated runs get no ideal line of real ones",
        [*rated(), *repeats(3, workers=4, samples_per_s=200.0, emulated="oversubscribed"), *ALONE_RATES],
        {0: {"mpi": ..., "mpi (emulated)": {4: 200}, ALONE: ..., IDEAL: {1: 110, 2: 220}}},
    ),
)  # fmt: skip


def test_cases_of_throughput(tmp_path: Path) -> None:
    check_cases(throughput, THROUGHPUT, tmp_path)
    (panel,) = drawn(throughput, *rated(), *ALONE_RATES, tmp_path=tmp_path).panels
    assert (panel.x.scale, panel.y.scale) == ("log2", "log10")
    assert [one.role for one in panel.series] == [Role.MEASURED, Role.BASE_LINE, Role.IDEAL]


efficiency = TABLE["efficiency"].chart


def base(**values: object) -> list[Row]:
    return base_line(3, samples_per_s=[100.0, 110.0, 120.0], **values)


def two(**values: object) -> list[Row]:
    return repeats(3, workers=2, samples_per_s=[176.0, 198.0, 220.0], **values)


INTERVAL = ratio_interval([88.0, 99.0, 110.0], [100.0, 110.0, 120.0])
MODELS = [row for m in ("cnn", "lstm") for row in (*base(model=m), *two(model=m), *two(model=m, batch_scope="global"))]
EFFICIENCY = (
    Case(
        "a point is one run over the median of its base line", [*base(), *two()], num_runs=3,
        shows={"weak scaling": {WHOLE: {2: 1}, "mpi": {
            2: see(0.8, 0.9, 1.0, value=0.9, low=INTERVAL.low, high=INTERVAL.high, coverage=INTERVAL.coverage)}}},
        says=["over those of one worker alone at the same batch size;"],
    ),
    Case(
        "batches that no row tells may differ",
        [*base(batch_scope=None), *two(batch_scope=None)],
        {0: {"mpi": {2: 0.9}, WHOLE: ...}}, says=["one worker alone, whatever their batch sizes are;"],
    ),
    Case(
        "one worker that could communicate has one too",
        [*base(), *repeats(3, workers=1, samples_per_s=[88.0, 99.0, 110.0]), *two()],
        {0: {"mpi": {1: 0.9, 2: 0.9}, WHOLE: ...}},
    ),
    Case(
        "weak and strong scaling and models apart", MODELS,
        {f"{kind} scaling, {model}": {f"mpi, batch_scope={scope}": {2: 0.9}, WHOLE: ...}
         for kind, scope in (("strong", "global"), ("weak", "per-worker")) for model in ("cnn", "lstm")},
    ),
    Case(
        "emulated runs are not compared with real ones", [*base(), *two(), *two(emulated="oversubscribed")],
        {0: {"mpi": {2: 0.9}, WHOLE: ...}},
        says=["No efficiency, for lack of a base line with equal settings"],
    ),
    Case(
        "arms that share a place keep their median alone",
        [*base(), *two(), *(row | {"run_id": f"other-r{n}", "evaluate_every": 2} for n, row in enumerate(two()))],
        {0: {"mpi": {2: see(0.8, 0.8, 0.9, 0.9, 1.0, 1.0, value=0.9, low=None)}, WHOLE: ...}},
    ),
)  # fmt: skip


def test_cases_of_efficiency(tmp_path: Path) -> None:
    check_cases(efficiency, EFFICIENCY, tmp_path)
    (panel,) = drawn(efficiency, *base(), *two(), tmp_path=tmp_path).panels
    assert (panel.y.low, panel.y.high, panel.y.percent) == (0.0, 1.1, True)
    assert line(panel, WHOLE).role is Role.IDEAL


steps = TABLE["steps_to_target"].chart

TARGET = {"target_metric": "validation_accuracy", "target_value": 0.9}
SIZES = (16, 32, 64, 128, 256, 512)
PERFECT_SCALING, FIT = "perfect scaling", "fit of mpi"


def planted(batch: int, least: int = 100, critical: int = 128) -> int:
    return least * (batch + critical) // batch


def took(updates: int | None, batch: int, **values: Any) -> Row:
    """Return a run of 10 epochs of 1000 steps, which reached its target after `updates` of them."""
    per_epoch = 1000 if updates is None else updates // 5
    epochs = None if updates is None else 5
    more = {"time_to_target_s": None if updates is None else 1.0, "epochs_to_target": epochs, "epochs_completed": 10}
    return run(**{**TARGET, "batch_size": batch, "steps": 10 * per_epoch, **more, **values})


def curve(**values: Any) -> list[Row]:
    return [took(planted(batch), batch, **values) for batch in SIZES]


UPDATES = {batch: planted(batch) for batch in SIZES}
PERFECT = {batch: 900 * 16 / batch for batch in SIZES}
SPREAD = [took(5 * (planted(b) // 5 + extra), b, repeat=n) for b in SIZES for n, extra in enumerate((-3, 0, 3))]
GRID = [took(900, 16, workers=1), took(505, 32, workers=1), took(500, 16, workers=2), took(300, 32, workers=2)]
STEPS = (
    Case(
        "epochs become updates of the global batch", GRID,
        {0: {"mpi, 1 worker": {16: 900, 32: 505}, "mpi, 2 workers": {32: 500, 64: 300}, PERFECT_SCALING: ...}},
    ),
    Case(
        "where servers apply gradients each counts, at the batch of one; of workers' own updates those of one worker",
        [*(took(40, 32, workers=4, strategy=name, repeat=repeat, train_samples=396)
           | {"updates": updates, "samples_per_update": samples}
           for name, repeat, updates, samples in (
               ("asynchronous", 0, 160, 31.4), ("backup_workers", 0, 80, 94.1), ("backup_workers", 1, 80, 94.0),
               ("gossip", 0, 320, None), ("parameter_server", 0, 80, 99.0), ("softsync", 0, 84, 123.0))),
         *base_line(1, **took(90, 32, workers=1, strategy="single"))],
        {0: {"asynchronous": {32: 80}, "backup_workers": {96: 40}, "gossip": {128: 40}, "softsync": {128: 42},
             "parameter_server": {128: 40}, ALONE: {32: 90}, PERFECT_SCALING: {32: 90, 96: 30, 128: 22.5}}},
        says=["the global batch is what enters one update"],
    ),
    Case(
        "the fit finds what was planted, and perfect scaling goes through the smallest batch", curve(),
        {0: {"mpi": UPDATES, PERFECT_SCALING: PERFECT, FIT: UPDATES}},
        says=["Critical batch of mpi: 128 [128, 128] samples, S_min 100 updates (fit of S = S_min (1 + B_c / B)",
              "to 6 runs, residuals 0.0%)."],
    ),
    Case(
        "repeats give it an interval", SPREAD,
        says=["Critical batch of mpi: 129 [113, 147] samples", "to 18 runs"],
    ),
    Case(
        "epochs of a batch that changes have unequal numbers of updates",
        [took(800, 16), took(400, 32), took(310, 16, batch_policy="step-doubling", strategy="single")],
        {0: {"mpi": {16: 800, 32: 400}, PERFECT_SCALING: ...}}, says=["Left out, of a batch that changes: "],
    ),
    Case(
        "batch sizes at which a run never arrived are not fitted",
        [*curve(), took(None, 512, repeat=1), took(5, 512, repeat=2)],
        {0: {"mpi": UPDATES | {512: see(5, planted(512), ended=(10_000,))}, PERFECT_SCALING: ..., FIT: ...}},
        says=["Critical batch of mpi: 128 [128, 128] samples", "to 5 runs"],
    ),
    Case(
        "what cannot be told is said", [took(800, 16), took(400, 32)],
        {0: {"mpi": {16: 800, 32: 400}, PERFECT_SCALING: ...}},
        says=["Critical batch of mpi: not identifiable; it needs 3 or more batch sizes"],
    ),
    Case(
        "a target that a batch reaches in a few evaluations tells nothing of how epochs depend on the batch",
        [took(planted(batch), batch, epochs_to_target=3 if batch == 16 else 5) for batch in SIZES],
        {0: {"mpi": ..., PERFECT_SCALING: ...}},
        says=["Critical batch of mpi: not identifiable; at batch 16 the target is reached by evaluation 3: it takes 5"],
    ),
    Case(
        "models and targets have panels and fits of their own",
        [*curve(model="cnn"), *curve(model="lstm"), *curve(target_value=0.5, study="other")],
        {number: {"mpi": UPDATES, PERFECT_SCALING: PERFECT, FIT: UPDATES} for number in range(3)},
        titles=["validation accuracy of at least 0.5", "validation accuracy of at least 0.9: cnn",
                "validation accuracy of at least 0.9: lstm"],
    ),
    Case(
        "emulated runs are fitted apart", [*curve(), *curve(emulated="simulated")],
        {0: dict.fromkeys(("mpi", "mpi (emulated)", PERFECT_SCALING, FIT, f"{FIT} (emulated)"), ...)},
        says=["Critical batch of mpi, emulated:"],
    ),
)  # fmt: skip


def test_cases_of_steps_to_target(tmp_path: Path) -> None:
    check_cases(steps, STEPS, tmp_path)
