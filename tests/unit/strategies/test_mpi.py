"""The strategy `mpi` with workers that are threads, and how the library's report of its algorithm is judged."""

import numpy as np
import pytest

from dlbench.records.mpi import Mpi
from dlbench.scenario.settings import Settings
from dlbench.strategies import mpi
from tests.fakes import ThreadCommunicator, in_threads

RING = {mpi.DYNAMIC: "true", mpi.ALGORITHM: "ring", mpi.RULES_FILE: ""}


class RingCommunicator(ThreadCommunicator):
    """A communicator whose library reports a ring."""

    components = ("basic", "tuned")

    def control_variable(self, name: str) -> str | None:
        return RING.get(name, "")


def create(communicator: ThreadCommunicator, algorithm: str | None) -> mpi.LibraryAllReduce | mpi.OwnRing:
    return mpi.create(mpi.OPTIONS(), communicator, algorithm)


def test_all_workers_get_the_sum_from_worker_0s_start_and_count_what_is_known() -> None:
    # In a ring of three, two vectors of 6 float64: 2 x 2 n (p - 1) / p elements.
    counts = {None: None, "auto": None, "ring": 128, "own-ring": 128}
    for algorithm, expected in counts.items():

        def work(communicator: ThreadCommunicator, algorithm: str | None = algorithm) -> tuple[object, ...]:
            strategy, parameters = create(communicator, algorithm), np.full(3, communicator.rank + 1.0)
            communicator.broadcast(parameters)
            strategy.all_reduce(np.zeros(6))
            total = strategy.all_reduce(np.arange(6.0) * (communicator.rank + 1))
            return parameters.tolist(), total.tolist(), strategy.bytes_sent

        for found in in_threads(3, work, RingCommunicator):
            assert found == ([1.0] * 3, (np.arange(6.0) * 6).tolist(), expected), algorithm


def test_the_librarys_report_is_a_fact_or_ends_the_run() -> None:
    facts = in_threads(2, lambda communicator: create(communicator, "ring").facts(), RingCommunicator)[0]
    assert "coll_tuned_allreduce_algorithm = ring" in facts["algorithm_proof"]
    with pytest.raises(RuntimeError, match="should be rabenseifner, but the MPI library reports"):
        in_threads(2, lambda communicator: create(communicator, "rabenseifner"), RingCommunicator)
    alone = in_threads(1, lambda communicator: create(communicator, "ring").facts())[0]
    assert alone == {"collectives": "mpi", "mpi_version": "threads"}


def test_reports_that_prove_an_algorithm_and_reports_that_do_not() -> None:
    proof = "component tuned; coll_tuned_use_dynamic_rules = true; coll_tuned_allreduce_algorithm = ring"
    assert mpi.verify_algorithm("ring", ("basic", "libnbc", "tuned"), RING.get) == proof
    assert mpi.verify_algorithm("ring", ("tuned", "monitoring"), RING.get) == proof, "monitoring passes every call on"
    assert mpi.verify_algorithm("auto", ("tuned", "han", "monitoring"), RING.get) == "component han"
    assert mpi.verify_algorithm("auto", (), {}.get) == "", "a silent library"
    contradictions: list[tuple[tuple[str, ...], dict[str, str | None]]] = [
        (("tuned", "han"), {}),
        ((), {}),
        (("tuned",), {mpi.DYNAMIC: "false"}),
        (("tuned",), {mpi.ALGORITHM: "recursive_doubling"}),
        (("tuned",), {mpi.ALGORITHM: None}),
        (("tuned",), {mpi.RULES_FILE: "/etc/rules"}),
    ]
    for components, changed in contradictions:
        with pytest.raises(RuntimeError, match=r"should be ring, but the MPI library reports.*mpirun --mca"):
            mpi.verify_algorithm("ring", components, (RING | changed).get)


def test_launchers_hand_the_algorithm_to_open_mpi() -> None:
    assert mpi.mca("own-ring") == {}
    assert mpi.mca(None) == mpi.mca("auto") == {"coll_base_verbose": "9"}
    forced = mpi.mca("recursive-doubling")
    assert (forced[mpi.ALGORITHM], forced[mpi.DYNAMIC]) == ("recursive_doubling", "1")
    assert int(forced["coll_tuned_priority"]) > 35, "above han"


def test_open_mpis_algorithms_are_refused_under_mpich(monkeypatch: pytest.MonkeyPatch) -> None:
    for algorithm, family, is_refused in (
        ("ring", "MPICH", True),
        ("rabenseifner", "Intel MPI", True),
        ("ring", "Open MPI", False),
        ("ring", "", False),
        ("auto", "MPICH", False),
        ("own-ring", "MPICH", False),
    ):
        monkeypatch.setattr(mpi, "mpi_of", lambda mpirun, family=family: Mpi(family, "1"))
        reason = mpi.refuse(mpi.OPTIONS(), Settings(strategy="mpi", algorithm=algorithm))
        assert (f"{family}'s" in reason) == bool(reason) == is_refused, (algorithm, family)
