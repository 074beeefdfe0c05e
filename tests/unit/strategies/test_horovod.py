"""Horovod's options, variables and refusals, and the calls that reduce gradients, recorded by a fake Horovod."""

import contextlib
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from dlbench.records.assignment import Assignment
from dlbench.records.mpi import Mpi
from dlbench.scenario.run_spec import Limits
from dlbench.scenario.settings import Mode, Settings
from dlbench.strategies import horovod
from tests.fakes import KeptReporter, LinearTrainer
from tests.unit.launch.fakes import assignment

OPTIONS = horovod.OPTIONS


def given(workers: int = 2, **settings: Any) -> Assignment:
    found = assignment(workers, folder="/logs", **{"collectives": "mpi", **settings})
    limits = Limits(startup_timeout_s=20.5, stall_timeout_s=9)
    return found.model_copy(update={"run": found.run.model_copy(update={"limits": limits})})


def test_autotuning_chooses_what_is_not_given() -> None:
    assert OPTIONS(autotune=True).model_dump() | {"autotune": False} == OPTIONS().model_dump() | {
        "fusion_threshold_mb": None,
        "cycle_time_ms": None,
    }
    assert OPTIONS(fusion_threshold_mb=None, cycle_time_ms=None) == OPTIONS()
    kept = OPTIONS(autotune=True, cycle_time_ms=3)
    assert (kept.fusion_threshold_mb, kept.cycle_time_ms) == (None, 3.0)
    assert OPTIONS(**kept.model_dump()) == kept


def test_every_option_that_is_a_variable_is_set() -> None:
    options = OPTIONS(fusion_threshold_mb=0.5, cycle_time_ms=2.5, hierarchical=True)
    assert horovod.environment(options, given()) == {
        "HOROVOD_CONTROLLER": "mpi",
        "HOROVOD_CPU_OPERATIONS": "mpi",
        "HOROVOD_HIERARCHICAL_ALLREDUCE": "1",
        "HOROVOD_HIERARCHICAL_ALLGATHER": "0",
        "HOROVOD_TORUS_ALLREDUCE": "0",
        "HOROVOD_STALL_CHECK_TIME_SECONDS": "4",
        "HOROVOD_STALL_SHUTDOWN_TIME_SECONDS": "0",
        "HOROVOD_GLOO_TIMEOUT_SECONDS": "30",
        "HOROVOD_FUSION_THRESHOLD": str(2**19),
        "HOROVOD_CYCLE_TIME": "2.5",
    }
    # Controller and operations are of one library.
    for collectives, library in (("mpi", "mpi"), ("gloo", "gloo"), ("nccl", "mpi")):
        env = horovod.environment(OPTIONS(), given(collectives=collectives))
        assert (env["HOROVOD_CONTROLLER"], env["HOROVOD_CPU_OPERATIONS"]) == (library, library), collectives


def test_what_autotuning_chooses_is_left_unset_and_its_log_is_the_attempts() -> None:
    env = horovod.environment(OPTIONS(autotune=True), given())
    assert (env["HOROVOD_AUTOTUNE"], env["HOROVOD_AUTOTUNE_LOG"]) == ("1", "/logs/autotune.csv")
    assert not {"HOROVOD_FUSION_THRESHOLD", "HOROVOD_CYCLE_TIME"} & set(env)
    assert not [name for name in horovod.environment(OPTIONS(), given()) if "AUTOTUNE" in name]


REFUSALS: list[tuple[dict[str, Any], dict[str, Any], str]] = [
    ({}, {}, ""),
    ({"adasum": True}, {"workers": 4}, ""),
    ({"adasum": True}, {"workers": 3}, "needs 1, 2, 4, 8"),
    ({"adasum": True}, {"collectives": "gloo"}, "over MPI, not over gloo"),
    ({"adasum": True, "groups": 2}, {}, "leave strategy.groups at 0"),
    ({"hierarchical": True}, {}, "over mpi Horovod ignores it"),
    ({"hierarchical": True}, {"collectives": "gloo"}, "over gloo Horovod ignores it"),
    ({"hierarchical": True}, {"collectives": "nccl", "mode": Mode.SCALE_UP}, "all workers are on one host"),
    ({"hierarchical": True}, {"collectives": "nccl", "workers_per_host": 1}, ""),
]


def test_what_horovod_would_ignore_or_fail_at_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(horovod, "library", lambda: None)
    for options, settings, part in REFUSALS:
        reason = horovod.refuse(OPTIONS(**options), Settings(**{"workers": 2, "collectives": "mpi", **settings}))
        assert part in reason, (options, settings)
        assert bool(reason) == bool(part), (options, settings)


# What the build's library holds, the collectives, whose mpirun is here, whether that is refused.
BUILDS: list[tuple[bytes, str, str, bool]] = [
    (b"..MPI_Allreduce..", "nccl", "", True),
    (b"..ncclAllReduce..", "nccl", "", False),
    (b"..MPI_Allreduce..", "mpi", "", False),
    (b"..libmpi.so.40..", "mpi", "Open MPI", False),
    (b"..libmpi.so.40..", "mpi", "MPICH", True),
    (b"..libmpi.so.40..", "mpi", "Intel MPI", True),
    (b"..libmpi.so.12..", "mpi", "Intel MPI", False),
    (b"..libmpi.so.12..", "mpi", "Open MPI", True),
    (b"..libmpi.so.40..", "mpi", "", False),
    (b"..libmpi.so.40..", "gloo", "MPICH", False),
    (b"..gloo only..", "mpi", "MPICH", False),
]


def test_a_build_without_nccl_or_for_another_mpi_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for number, (content, collectives, family, is_refused) in enumerate(BUILDS):
        file = tmp_path / f"mpi_lib-{number}.so"
        file.write_bytes(content)
        monkeypatch.setattr(horovod, "library", lambda file=file: file)
        monkeypatch.setattr(horovod, "mpi_of", lambda mpirun, family=family: Mpi(family, "1"))
        reason = horovod.refuse(OPTIONS(), Settings(collectives=collectives, workers_per_host=1))
        part = "built without NCCL" if collectives == "nccl" else f"the mpirun here is {family}'s"
        assert (part in reason) == bool(reason) == is_refused, BUILDS[number]


def test_without_horovod_the_command_that_builds_it_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(horovod, "find_spec", lambda name: None)
    assert "`make horovod` builds it" in horovod.available(Settings())
    assert "`make horovod` builds it" in horovod.available(Settings(command="python train.py"))
    monkeypatch.setattr(horovod, "find_spec", lambda name: SimpleNamespace(submodule_search_locations=[str(tmp_path)]))
    assert "not installed for TensorFlow" in horovod.available(Settings()), "it is there, for another engine"
    assert horovod.available(Settings(command="python train.py")) == ""
    (tmp_path / "tensorflow").mkdir()
    (tmp_path / "tensorflow" / "mpi_lib.cpython.so").touch()
    assert horovod.available(Settings()) == ""


class Graph(SimpleNamespace):
    """A graph that is being traced."""

    outer_graph: Any = None
    __hash__ = object.__hash__
    __eq__ = object.__eq__


class Notes:
    """Horovod and TensorFlow in one, for numbers: it doubles what it reduces and notes how."""

    Sum, Average, Adasum = "sum", "average", "adasum"
    Compression = SimpleNamespace(none="no compression", fp16="float16")

    def __init__(self, size: int = 3) -> None:
        self.size, self.hvd, self.tf = size, self, self
        self.graph = Graph()
        self.compat = SimpleNamespace(v1=SimpleNamespace(get_default_graph=lambda: self.graph))
        self.calls: list[tuple[Any, ...]] = []
        self.waited_for: list[float] = []

    def allreduce(self, tensor: float, **how: Any) -> float:
        self.calls.append((tensor, how))
        return 2 * tensor

    def grouped_allreduce(self, tensors: list[float], **how: Any) -> list[float]:
        self.calls.append((tensors, how))
        return [2 * tensor for tensor in tensors]

    @contextlib.contextmanager
    def control_dependencies(self, tensors: list[float]) -> Iterator[None]:
        self.waited_for = list(tensors)
        yield

    def custom_gradient(self, function: Any) -> Any:
        def call(tensor: float) -> float:
            value, backward = function(tensor)
            backward(1.0)
            return float(value)

        return call

    def identity(self, tensor: float) -> float:
        assert self.waited_for
        return tensor


def reduce(notes: Notes, **options: Any) -> list[float]:
    strategy = horovod.create(OPTIONS(**options), notes, None)  # type: ignore[arg-type]
    return strategy.in_graph([1.0, 2.0, 3.0, 4.0])


def test_groups_keep_the_order_of_gradients_and_wait_for_all_without_overlap() -> None:
    for groups, sent in (
        (0, [1.0, 2.0, 3.0, 4.0]),  # each by itself
        (1, [[1.0, 2.0, 3.0, 4.0]]),
        (3, [[1.0, 2.0], [3.0], [4.0]]),
        (9, [[1.0], [2.0], [3.0], [4.0]]),
    ):
        notes = Notes()
        assert reduce(notes, groups=groups) == [2.0, 4.0, 6.0, 8.0]
        assert [tensors for tensors, _ in notes.calls] == sent
        assert len({how["name"] for _, how in notes.calls}) == len(sent)
        hows = {(how["op"], how["compression"], how["ignore_name_scope"]) for _, how in notes.calls}
        assert hows == {("sum", "no compression", True)}
        assert notes.waited_for == []
    for groups in (0, 2):
        notes = Notes()
        assert reduce(notes, overlap=False, groups=groups) == [2.0, 4.0, 6.0, 8.0]
        assert notes.waited_for == [1.0, 2.0, 3.0, 4.0]


def test_compression_and_adasum_see_local_means() -> None:
    """Gradients divided by the samples of all are multiplied by the number of workers; Adasum gets means already."""
    cases: list[tuple[dict[str, Any], str, str, int]] = [
        ({"compression": "fp16"}, "average", "float16", 4),
        ({"adasum": True}, "adasum", "no compression", 1),
        ({"adasum": True, "compression": "fp16"}, "adasum", "float16", 1),
    ]
    for options, operation, compression, factor in cases:
        notes = Notes(size=4)
        reduce(notes, **options)
        strategy = horovod.create(OPTIONS(**options), notes, None)  # type: ignore[arg-type]
        assert strategy.bind(LinearTrainer(1, 1), KeptReporter()).takes_local_means is ("adasum" in options)
        assert [tensor for tensor, _ in notes.calls] == [1.0 * factor, 2.0 * factor, 3.0 * factor, 4.0 * factor]
        assert {(how["op"], how["compression"]) for _, how in notes.calls} == {(operation, compression)}


def test_a_sum_in_the_forward_pass_needs_other_workers() -> None:
    notes = Notes(size=1)
    strategy = horovod.create(OPTIONS(), notes, None)  # type: ignore[arg-type]
    assert strategy.in_forward(5.0) == 5.0
    assert notes.calls == []
    notes.size = 2
    assert strategy.in_forward(5.0) == strategy.in_forward(5.0) == 10.0
    # A graph that is traced within another one goes on counting; another graph begins anew.
    notes.graph = Graph(outer_graph=notes.graph)
    assert strategy.in_forward(5.0) == 10.0
    notes.graph = Graph(outer_graph=Graph())
    assert strategy.in_forward(5.0) == 10.0
    names = [how["name"] for _, how in notes.calls]
    assert names == [
        f"forward_{name}" for name in ("0", "0_gradient", "1", "1_gradient", "2", "2_gradient", "0", "0_gradient")
    ]


# Logs as Horovod writes them.
HEADER = (
    "hierarchical_allreduce,hierarchical_allgather,torus_allreduce,cache_enabled,cycle_time_ms,"
    "tensor_fusion_threshold,score\n"
)
SAMPLES = "0,0,0,1,5,4,20.5\n0,0,0,1,50,32,10\n0,0,0,1,7.25,16.5,31.25\n0,0,0,0,7.25,16.5,30\n"
BEST = "0,0,0,1,7.25,16.5,31.25\n"


def test_autotunings_last_line_is_its_result_once_the_search_has_ended(tmp_path: Path) -> None:
    log = tmp_path / "autotune.csv"
    log.write_text(HEADER + SAMPLES + BEST)
    assert horovod.autotuned(str(log)) == {"autotuned_fusion_threshold_mb": 16.5, "autotuned_cycle_time_ms": 7.25}
    unfinished = ("", HEADER, HEADER + SAMPLES, HEADER + SAMPLES + BEST[:-1], "score\n1\n1\n", HEADER + "a,b\na,b\n")
    for text in unfinished:
        log.write_text(text)
        assert horovod.autotuned(str(log)) == {}, text
    assert horovod.autotuned("") == horovod.autotuned(str(tmp_path / "none.csv")) == {}
