"""The sections of `python -m tests.bench`, in this one place: what each measures and compares, how long it takes."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from tests.bench import costs, imitation, throttled, training
from tests.bench.rows import Found, Recorder
from tests.bench.tables import Comparison
from tests.bench.training import CASES, WAYS


@dataclass(frozen=True)
class Effort:
    """How much is measured.

    Attributes:
        window_s: Length of a timed window.
        telemetry_s: How long imitated workers report.
    """

    window_s: float = 5.5
    telemetry_s: float = 60.0


# `dlbench run` extends a window below 5 s; a quick try is about whether everything works.
QUICK = Effort(window_s=0.5, telemetry_s=3.0)
QUICK_TURNS = 2


@dataclass(frozen=True)
class Section:
    """One section.

    Attributes:
        about: What it measures.
        turns: How often every side is measured; six give an interval of 97%.
        minutes: About how long it takes on two quiet cores.
        measure: Measures so many turns.
        comparisons: Which sides are compared within each turn.
        is_extra: Run only where it is named.
    """

    about: str
    turns: int
    minutes: float
    measure: Callable[[Recorder, int, Effort], None]
    comparisons: tuple[Comparison, ...] = ()
    is_extra: bool = False


def start(record: Recorder, turns: int, effort: Effort) -> None:
    record.turns({"": costs.show_help}, turns)
    record.turns({"": costs.numpy_run}, turns)
    record.turns({"": costs.small_check}, turns)
    record.turns({"": costs.large_check}, max(2, turns // 3))
    record.turns({"": costs.gaps}, max(2, turns // 3))
    # What a core is said to be in a tenth of the time is the same.
    durations = {"0.05 s": 0.05, "0.4 s": 0.4}
    record.turns({side: partial(costs.core_of, took, is_busy=False) for side, took in durations.items()}, turns)
    record.turns({side: partial(costs.core_of, took, is_busy=True) for side, took in durations.items()}, turns)


def report(record: Recorder, turns: int, effort: Effort) -> None:
    record.turns({"": lambda: costs.report("9 runs of the quickstart", 0)}, turns)
    record.turns({"": lambda: costs.report("1,000 runs with 1,000,000 rows of steps", 1)}, max(2, turns // 3))


def telemetry(record: Recorder, turns: int, effort: Effort) -> None:
    for num_workers in (1024, 4096):
        record.turns({"": lambda: costs.telemetry_of(num_workers, effort.telemetry_s)}, turns)  # noqa: B023


def simulation(record: Recorder, turns: int, effort: Effort) -> None:
    # A quick try is about whether everything works.
    workers = (16, 64, 256, 1024, 4096, 16384) if effort.window_s > 1 else (16, 64)
    for num_workers in workers:
        record.turns({"": lambda: costs.simulation(num_workers, 20)}, turns)  # noqa: B023
    record.turns({"": lambda: costs.simulation(max(w for w in workers if w <= 4096), 100)}, turns)


def servers(record: Recorder, turns: int, effort: Effort) -> None:
    record.turns(training.nodes(CASES["resnet20"], effort.window_s), turns)


def imitations(record: Recorder, turns: int, effort: Effort) -> None:
    def measure() -> Found:
        found: dict[str, tuple[float, str]] = {}
        for strategy in ("parameter_server", "asynchronous"):
            for workers in (1, 2):
                found |= imitation.imitation(strategy, workers, effort.window_s)
        return found

    record.turns({"": measure}, turns)


def on_throttled_links(record: Recorder, turns: int, effort: Effort) -> None:
    with throttled.hosts() as hosts:
        record.turns({"": partial(throttled.throttled, hosts)}, turns)


def training_of(model: str) -> Callable[[Recorder, int, Effort], None]:
    return lambda record, turns, effort: record.turns(training.sides(CASES[model], effort.window_s), turns)


def hook(record: Recorder, turns: int, effort: Effort) -> None:
    for model in ("resnet20", "mlp"):
        record.turns(training.hook(CASES[model], effort.window_s), turns)


def observers(record: Recorder, turns: int, effort: Effort) -> None:
    for model in ("resnet20", "mlp"):
        record.turns(costs.observers(CASES[model], effort.window_s), turns)


def noise_scale(record: Recorder, turns: int, effort: Effort) -> None:
    for model in ("resnet20", "mlp"):
        record.turns(costs.noise_scale(CASES[model], effort.window_s), turns)


def overlap(record: Recorder, turns: int, effort: Effort) -> None:
    found = {f"overlap {name}": {"strategy.overlap": on} for name, on in (("on", True), ("off", False))}
    record.turns(training.ways(CASES["resnet20"], effort.window_s, found, strategy="horovod"), turns)


def waiting(record: Recorder, turns: int, effort: Effort) -> None:
    found = {
        name: {"launcher.mca": {"mpi_yield_when_idle": value}} for name, value in (("yielding", "1"), ("polling", "0"))
    }
    record.turns(training.ways(CASES["resnet20"], effort.window_s, found, strategy="horovod"), turns)


# Sides, with compressor and options: those that send least send one value of a thousand.
COMPRESSORS = {
    "threshold": ("threshold", {"threshold": 3.3e-3}),
    "threshold, entropy coded": ("threshold", {"threshold": 3.3e-3, "entropy_coded": True}),
    "top-k": ("top_k", {"density": 0.001}),
    "bfloat16": ("half", {}),
    "float16": ("half", {"format": "float16"}),
    "eight-bit": ("eight_bit", {}),
}


def compression(record: Recorder, turns: int, effort: Effort) -> None:
    sides = {side: partial(costs.coded, *what) for side, what in COMPRESSORS.items()}
    record.turns({"copy": costs.copied, **sides}, turns)


def strategies(record: Recorder, turns: int, effort: Effort) -> None:
    found = {
        f"{precision}, {name}": {**changes, "precision": precision}
        for precision in ("float32", "mixed_bfloat16")
        for name, changes in WAYS.items()
    }
    record.turns(training.ways(CASES["resnet20"], effort.window_s, found), turns)


def of_sides(is_difference: bool) -> tuple[Comparison, ...]:
    """Return what is compared of the sides of a training, as a ratio of rates or a difference of times."""
    aim = "" if is_difference else ">= 0.99"
    pairs = (
        ("dlbench mpi", "plain mpi", aim),
        ("dlbench horovod", "plain horovod", aim),
        ("dlbench horovod, one group", "plain horovod, one group", aim),
        ("dlbench mpi", "Keras fit, 1 worker", ""),
        ("dlbench mpi", "MultiWorkerMirroredStrategy", ""),
        ("dlbench mpi", "PyTorch DDP over Gloo", ""),
    )
    return tuple(Comparison(first, second, aim, is_difference) for first, second, aim in pairs)


SECTIONS = {
    "resnet20": Section(
        "resnet20 by dlbench, plain scripts and peers: samples/s", 6, 14, training_of("resnet20"), of_sides(False)
    ),
    "mlp": Section(
        "mlp, a step of a fraction of a millisecond: microseconds per step", 6, 9, training_of("mlp"), of_sides(True)
    ),
    "cnn": Section(
        "cnn, a step of about a millisecond: microseconds per step", 6, 8, training_of("cnn"), of_sides(True)
    ),
    "hook": Section(
        "the plain script with and without reporting each step through `dlbench.worker`",
        6,
        5,
        hook,
        (Comparison("reporting", "alone", ">= 0.99"),),
    ),
    "observers": Section(
        "dlbench's loop with and without its reporter and sensors",
        6,
        5,
        observers,
        (Comparison("reporter and sensors", "neither", ">= 0.99"),),
    ),
    "noise": Section(
        "dlbench's loop with and without the norms that the gradient noise scale is made of",
        6,
        5,
        noise_scale,
        (Comparison("norms of gradients", "none", ">= 0.99"),),
    ),
    "added": Section(
        "seconds that dlbench adds to a run of few steps",
        6,
        2,
        lambda record, turns, effort: record.turns(costs.added(CASES["mlp"]), turns),
        (Comparison("dlbench", "plain mpi", "<= 1 s", True),),
    ),
    "start": Section(
        "commands: help, check, one NumPy run, the time between runs, and how quiet the machine is", 10, 3, start
    ),
    "report": Section("`dlbench report` of a small study and of a large one", 9, 2.5, report),
    "reduction": Section(
        "the all-reduce of ResNet-18's gradients against a bare `Allreduce`",
        30,
        1,
        lambda record, turns, effort: record.given(costs.reduction(turns)),
        (
            Comparison("dlbench", "bare Allreduce, in place", ">= 0.95"),
            Comparison("dlbench", "bare Allreduce, two buffers"),
        ),
    ),
    "compression": Section(
        "compressors on the gradient of ResNet-18 (45 MB), beside a copy of it: GB/s",
        10,
        0.5,
        compression,
        tuple(Comparison(side, "copy") for side in COMPRESSORS),
    ),
    "sender": Section(
        "rows of steps from the training thread to the server",
        10,
        0.5,
        lambda record, turns, effort: record.turns({"": costs.send}, turns),
    ),
    "telemetry": Section("one telemetry server under thousands of workers", 1, 2.5, telemetry),
    "simulation": Section(
        "simulated asynchronous workers on one core: events per second, and 4,096 workers with 100 updates each",
        6,
        10,
        simulation,
    ),
    "servers": Section(
        "ResNet-20 with two workers: all-reduce, and parameter servers beside them",
        6,
        16,
        servers,
        (
            Comparison("asynchronous", "mpi, own-ring"),
            Comparison("asynchronous, 2 servers", "mpi, own-ring"),
            Comparison("parameter_server", "mpi, own-ring"),
            Comparison("parameter_server, 2 servers", "mpi, own-ring"),
            Comparison("parameter_server", "ring"),
            Comparison("parameter_server, 2 servers", "ring"),
        ),
    ),
    "imitation": Section(
        "ResNet-20 with one and two workers and a server: a step, and the same simulated with what was measured",
        6,
        24,
        imitations,
    ),
    "throttled": Section(
        "four hosts on links of 200 Mbit/s (as root), one of them slow or not: a step, and the same simulated",
        3,
        24,
        on_throttled_links,
        is_extra=True,
    ),
    "overlap": Section(
        "Horovod: gradients reduced while others are computed, against not",
        6,
        3,
        overlap,
        (Comparison("overlap on", "overlap off"),),
        is_extra=True,
    ),
    "waiting": Section(
        "Horovod: a rank that waits in MPI gives its core away, against Open MPI's own polling",
        6,
        4,
        waiting,
        (Comparison("yielding", "polling"),),
        is_extra=True,
    ),
    "engines": Section(
        "ResNet-20 with two workers on PyTorch and JAX, beside plain scripts on the same engine",
        6,
        18,
        lambda record, turns, effort: record.turns(training.engines(CASES["resnet20"], effort.window_s), turns),
        (
            Comparison("dlbench torch, ddp", "plain torch, ddp", ">= 0.98"),
            Comparison("dlbench torch, mpi", "plain torch, mpi", ">= 0.98"),
            Comparison("dlbench jax, 1 worker", "plain jax, 1 worker", ">= 0.98"),
            Comparison("dlbench torch, ddp", "PyTorch's own layers, ddp"),
            Comparison("dlbench torch, ddp", "dlbench tensorflow, mpi"),
            Comparison("dlbench jax, mpi", "dlbench tensorflow, mpi"),
        ),
        is_extra=True,
    ),
    "strategies": Section(
        "all strategies side by side, in float32 and mixed_bfloat16", 3, 11, strategies, is_extra=True
    ),
}
