"""Horovod: gradients are summed inside the compiled step, each as soon as it is ready."""

import csv
from collections.abc import Iterator
from functools import cache
from importlib.util import find_spec
from math import ceil
from os import environ
from pathlib import Path
from sys import executable
from typing import Any, Literal, Protocol
from weakref import WeakKeyDictionary

from pydantic import Field, StrictBool, model_validator

from dlbench.parts import cut
from dlbench.plugins import Options
from dlbench.records.assignment import Assignment
from dlbench.records.mpi import MPICH, OPEN_MPI, mpi_of
from dlbench.records.software import mpirun_path
from dlbench.scenario.needs import Exchange, Needs
from dlbench.scenario.settings import Mode, Settings
from dlbench.strategies import Communicator
from dlbench.strategies._step import Inside
from dlbench.telemetry.reporter import Reporter
from dlbench.trainers import Trainer

NEEDS = Needs(
    exchange=Exchange.INSIDE,
    collectives=("mpi", "gloo", "nccl"),
    communicators=("horovod",),
    trainers=("keras_tensorflow",),
    as_one_worker={},
    jit=False,
    changes_batch=True,
)

LOG_VARIABLE = "HOROVOD_AUTOTUNE_LOG"
LOG_FILE = "autotune.csv"
_MIB = 2**20
# What a build of Horovod has in it by the library that it is for.
_MARKS = {OPEN_MPI: b"libmpi.so.40", MPICH: b"libmpi.so.12", "NCCL": b"ncclAllReduce"}
# Our columns by the columns of the log.
_AUTOTUNED = {"tensor_fusion_threshold": "autotuned_fusion_threshold_mb", "cycle_time_ms": "autotuned_cycle_time_ms"}
# What autotuning chooses; a number that is given is kept, as in Horovod itself.
_TUNED = ("fusion_threshold_mb", "cycle_time_ms")


class HorovodOptions(Options):
    """Options of the strategy `horovod`; the defaults are Horovod 0.28.1's own (`common/operations.cc`)."""

    overlap: bool = Field(
        True,
        description="Each gradient begins to travel once it is ready, while others are still computed; false: none "
        "moves before all are ready.",
    )
    groups: int = Field(
        0,
        ge=0,
        le=10**6,
        description="Gradients travel in at most this many groups, each once all of it are ready; 0: each by itself, "
        "and Horovod fuses those that are ready in the same cycle.",
    )
    fusion_threshold_mb: float | None = Field(
        128.0,
        ge=0,
        le=65536,
        allow_inf_nan=False,
        description="Most MiB of gradients that are joined into one message; 0 joins none. Empty where `autotune` "
        "chooses it.",
    )
    cycle_time_ms: float | None = Field(
        1.0,
        ge=0,
        le=10**5,
        allow_inf_nan=False,
        description="Interval at which Horovod checks which gradients are ready. Empty where `autotune` chooses it.",
    )
    compression: Literal["none", "fp16"] = Field(
        "none",
        description="`fp16`: gradients travel as float16, scaled so that each worker sends its local mean.",
    )
    hierarchical: bool = Field(
        False, description="Reduce within each host first, then between hosts; over `nccl` on several hosts only."
    )
    adasum: bool = Field(
        False,
        description="Combine gradients by Adasum instead of their mean (arXiv 2006.02924): orthogonal ones add, "
        "parallel ones average. N workers then do not equal one; over MPI, with a power of two of workers.",
    )
    autotune: StrictBool = Field(
        False,
        description="Let Horovod search for the fusion threshold and the cycle time while it trains, some 1300 steps "
        "long; those steps are slower. Its log is autotune.csv beside the workers' logs.",
    )

    @model_validator(mode="before")
    @classmethod
    def _leave_to_autotune(cls, values: Any) -> Any:
        """Leave what is not given to autotuning, or without it to the defaults."""
        if not isinstance(values, dict):
            return values
        if values.get("autotune") is True:
            return dict.fromkeys(_TUNED) | values
        return {name: value for name, value in values.items() if name not in _TUNED or value is not None}


OPTIONS = HorovodOptions


class GraphCommunicator(Communicator, Protocol):
    """A communicator that has loaded Horovod and names the library that moves its bytes."""

    # The modules `horovod.tensorflow` and `tensorflow`.
    hvd: Any
    tf: Any

    def facts(self) -> dict[str, Any]:
        """Return `collectives`, `horovod_version` and, where MPI is in use, `mpi_version`."""


def environment(options: HorovodOptions, assignment: Assignment) -> dict[str, str]:
    """Return Horovod's variables; pure.

    Flags that are off are set, too: what is not set, autotuning would switch on and off.
    """
    run = assignment.run
    # Horovod 0.28.1 ends with a segmentation fault where MPI controls and Gloo moves the bytes.
    library = "gloo" if run.settings.collectives == "gloo" else "mpi"
    variables = {
        "HOROVOD_CONTROLLER": library,
        "HOROVOD_CPU_OPERATIONS": library,
        "HOROVOD_HIERARCHICAL_ALLREDUCE": "1" if options.hierarchical else "0",
        "HOROVOD_HIERARCHICAL_ALLGATHER": "0",
        "HOROVOD_TORUS_ALLREDUCE": "0",
        # Horovod names the missing worker before dlbench ends a stalled run; it never ends one itself.
        "HOROVOD_STALL_CHECK_TIME_SECONDS": str(max(1, int(run.limits.stall_timeout_s / 2))),
        "HOROVOD_STALL_SHUTDOWN_TIME_SECONDS": "0",
        "HOROVOD_GLOO_TIMEOUT_SECONDS": str(ceil(run.limits.startup_timeout_s + run.limits.stall_timeout_s)),
    }
    if options.fusion_threshold_mb is not None:
        variables["HOROVOD_FUSION_THRESHOLD"] = str(round(options.fusion_threshold_mb * _MIB))
    if options.cycle_time_ms is not None:
        variables["HOROVOD_CYCLE_TIME"] = f"{options.cycle_time_ms:g}"
    if options.autotune:
        variables |= {"HOROVOD_AUTOTUNE": "1", LOG_VARIABLE: str(Path(assignment.log_folder) / LOG_FILE)}
    return variables


def mca(algorithm: str | None) -> dict[str, str]:
    """Return Open MPI's parameters: Horovod's own thread waits in MPI while others compute, so it yields its core.

    Polling instead, it takes from a worker with one core a third of the samples/s (ResNet-20, batch 32 x 2).
    """
    return {"mpi_yield_when_idle": "1"}


def available(settings: Settings) -> str:
    """Return "" where Horovod is installed for TensorFlow, else what is missing and the command that builds it."""
    if settings.command is not None and find_spec("horovod") is not None:
        return ""  # a script may use it with another engine
    if library() is None:
        return f"Horovod is not installed for TensorFlow beside {executable}; `make horovod` builds it"
    return ""


def refuse(options: HorovodOptions, settings: Settings) -> str:
    """Return why these options and settings exclude each other, or ""."""
    return next(_refusals(options, settings), "")


def _refusals(options: HorovodOptions, settings: Settings) -> Iterator[str]:
    collectives, workers = settings.collectives, settings.workers
    if options.adasum and collectives == "gloo":
        yield "strategy.adasum works over MPI, not over gloo"
    if options.adasum and workers & (workers - 1):
        yield f"strategy.adasum needs 1, 2, 4, 8, ... workers, not {workers}"
    if options.adasum and options.groups:
        yield "strategy.adasum reduces each gradient separately: leave strategy.groups at 0"
    if options.hierarchical and collectives != "nccl":
        yield f"strategy.hierarchical works over nccl; over {collectives} Horovod ignores it"
    if options.hierarchical and settings.mode is Mode.SCALE_UP:
        yield "strategy.hierarchical has no effect where all workers are on one host"
    path = library()
    if path is None or collectives == "gloo":
        return
    built_for = _built_for(path)
    if collectives == "nccl" and "NCCL" not in built_for:
        yield (
            "the Horovod that is installed here was built without NCCL; "
            "`make horovod` with HOROVOD_GPU_OPERATIONS=NCCL builds one where CUDA and NCCL are"
        )
    built = next((family for family in (OPEN_MPI, MPICH) if family in built_for), "")
    here = mpi_of(str(mpirun_path() or ""))
    if built and here.family and here.has_hydra != (built == MPICH):
        yield (
            f"Horovod was built for {built}, and the mpirun here is {here.family}'s: each process would be alone; "
            f"install {built} beside this Python, or use `collectives: gloo`, which needs none"
        )


def library() -> Path | None:
    """Return the file of Horovod's operations for TensorFlow, None where there is none; nothing is imported."""
    spec = find_spec("horovod")
    folders = [] if spec is None else list(spec.submodule_search_locations or [])
    return next((path for folder in folders for path in Path(folder, "tensorflow").glob("mpi_lib*.so")), None)


@cache
def _built_for(path: Path) -> list[str]:
    """Return the libraries that a build loads, an MPI by the name it asks the system for."""
    content = path.read_bytes()
    return [name for name, mark in _MARKS.items() if mark in content]


def autotuned(path: str) -> dict[str, Any]:
    """Return the parameters that autotuning ended with, by column name; nothing without a log or before its end.

    Each line of the log is one sample of parameters with its score in bytes per microsecond; once the search has
    ended, the best parameters follow as a last line, with the score of the sample that found them
    (`common/parameter_manager.cc`).
    """
    try:
        text = Path(path).read_text(encoding="ascii", errors="replace") if path else ""
    except OSError:
        return {}
    # The last line may be half written.
    rows = list(csv.DictReader(text[: text.rfind("\n") + 1].splitlines()))
    if not rows or rows[-1].get("score") not in [row.get("score") for row in rows[:-1]]:
        return {}
    try:
        return {column: float(rows[-1][name]) for name, column in _AUTOTUNED.items()}
    except (KeyError, TypeError, ValueError):
        return {}


class Horovod:
    """One worker's side: operations in the graph, which the communicator's library carries.

    What compression and Adasum need to see are local means, as Horovod's own optimizer gives them: float16 has no
    numbers below 6e-8, and Adasum's result depends on how the length of a gradient compares with that of the mean. For
    compression gradients, which arrive scaled by 1 / samples of all workers, are multiplied by the number of workers
    first, and averaged: the sum, whatever each worker's samples. Adasum is no sum. It combines two estimates of one
    gradient, so that it gets every worker's own mean. Of an epoch's last, smaller step that means: workers count alike
    although one may have a sample more, and one without samples, whose gradient is zero, leaves the other's as it is
    (a scale by all samples would have doubled that one).
    """

    # Horovod does not count them.
    bytes_sent: int | None = None

    def __init__(self, options: HorovodOptions, communicator: GraphCommunicator) -> None:
        self._options, self._communicator = options, communicator
        self._hvd, self._tf = communicator.hvd, communicator.tf
        self._compression = getattr(self._hvd.Compression, options.compression)
        is_compressed = options.compression != "none"
        self._factor = communicator.size if is_compressed and not options.adasum else 1
        average = self._hvd.Average if is_compressed else self._hvd.Sum
        self._operation = self._hvd.Adasum if options.adasum else average
        # How many sums each graph holds for the forward pass.
        self._num_forward: WeakKeyDictionary[Any, int] = WeakKeyDictionary()

    def in_graph(self, gradients: list[Any]) -> list[Any]:
        """Return the sums of all workers' gradients, or what Adasum makes of them."""
        if self._factor != 1:
            gradients = [gradient * self._factor for gradient in gradients]
        if not self._options.overlap:
            with self._tf.control_dependencies(gradients):  # each is there only when all of them are
                gradients = [self._tf.identity(gradient) for gradient in gradients]
        # Tensors of the same name are summed; scopes are left out, for they depend on what else was traced before.
        how = {"op": self._operation, "compression": self._compression, "ignore_name_scope": True}
        if self._options.groups == 0:
            return [self._hvd.allreduce(each, name=f"gradient_{i}", **how) for i, each in enumerate(gradients)]
        reduced: list[Any] = []
        for group in cut(len(gradients), min(self._options.groups, len(gradients))):
            reduced += self._hvd.grouped_allreduce(gradients[group], name=f"gradients_{group.start}", **how)
        return reduced

    def in_forward(self, tensor: Any) -> Any:
        """Return the sum of all workers' tensors; its gradient is the sum of all workers' gradients."""
        if self._communicator.size == 1:
            return tensor
        name = self._next_forward_name()

        def summed(value: Any) -> Any:
            return self._sum(value, name), lambda gradient: self._sum(gradient, f"{name}_gradient")

        return self._tf.custom_gradient(summed)(tensor)

    def _sum(self, tensor: Any, name: str) -> Any:
        return self._hvd.allreduce(tensor, op=self._hvd.Sum, name=name, ignore_name_scope=True)

    def _next_forward_name(self) -> str:
        """Return the name of a graph's next sum.

        Sums of the same name meet. Left to Horovod, the name would be the tensor's, which differs between graphs: in an
        epoch's last step workers may have graphs for different sizes.
        """
        graph = self._tf.compat.v1.get_default_graph()
        while getattr(graph, "outer_graph", None) is not None and hasattr(graph.outer_graph, "outer_graph"):
            graph = graph.outer_graph
        number = self._num_forward[graph] = self._num_forward.get(graph, -1) + 1
        return f"forward_{number}"

    def bind(self, trainer: Trainer, reporter: Reporter) -> Inside:
        """Return the step: Horovod's operations are in the graph."""
        return Inside(trainer, reporter, self.in_graph, self.in_forward, takes_local_means=self._options.adasum)

    def facts(self) -> dict[str, Any]:
        """Return the libraries and, once autotuning has ended, what it settled on."""
        log = environ.get(LOG_VARIABLE, "") if self._options.autotune else ""
        return self._communicator.facts() | autotuned(log)


def create(options: HorovodOptions, communicator: GraphCommunicator, algorithm: str | None) -> Horovod:
    """Return one worker's side of the all-reduce."""
    return Horovod(options, communicator)
