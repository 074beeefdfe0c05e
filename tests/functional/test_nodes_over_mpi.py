"""The strategies' nodes over real MPI processes: the same bits as simulated, where the order decides nothing."""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.functional.mpi_programs.launch import mpirun
from tests.functional.mpi_programs.memory import HOW, SIZE, WRITES
from tests.simulations import NUM_TRAIN, simulation

pytestmark = pytest.mark.mpi
EPOCHS = 2
COORDINATED = "tests.coordinated:Coordinated"
Case = dict[str, Any]
# What each rank hands in.
Nodes = list[dict[str, Any]]

# One worker, or workers that wait for each other.
SAME_BITS: tuple[Case, ...] = (
    {"strategy": "parameter_server", "workers": 2, "servers": 1, "momentum": 0.9},
    {"strategy": "parameter_server", "workers": 2, "servers": 2, "batch_size": 15, "batch_scope": "global"},
    {"strategy": "ring", "workers": 2},
    {"strategy": "ring", "workers": 4, "batch_size": 14, "batch_scope": "global", "optimizer": "adam"},
    {"strategy": "parameter_server", "workers": 2, "servers": 2, "compression": "top_k", "compression__density": 0.1},
    {"strategy": "ring", "workers": 4, "compression": "eight_bit"},
    {"strategy": "local_sgd", "workers": 3, "strategy__period": 3},
    {"strategy": "stale_synchronous", "workers": 1, "servers": 2},
    {"strategy": "stale_synchronous", "workers": 1, "servers": 2, "strategy__bound": 2, "strategy__reads": "cached"},
    {"strategy": "asynchronous", "workers": 1, "servers": 2},
    {"strategy": "softsync", "workers": 1, "servers": 1},
    {"strategy": "backup_workers", "workers": 1, "servers": 1, "strategy__backups": 0},
    {"strategy": "downpour", "workers": 1, "servers": 2, "strategy__n_push": 2, "strategy__n_fetch": 3},
    {"strategy": "elastic_averaging", "workers": 1, "servers": 1, "strategy__period": 3},
    {"strategy": "gossip", "workers": 1},
    {"strategy": COORDINATED, "workers": 3, "batch_size": 14, "batch_scope": "global"},
    {"strategy": "sandblaster", "workers": 1, "servers": 2},
    {"strategy": "hogwild", "workers": 1},
    {"strategy": "hogwild", "workers": 1, "strategy__sparse": True},
)
# Workers that do not wait.
ASYNCHRONOUS: tuple[Case, ...] = (
    {"strategy": "asynchronous", "workers": 3, "servers": 1},
    {"strategy": "stale_synchronous", "workers": 3, "servers": 1},
    {"strategy": "gossip", "workers": 3},
    {"strategy": "elastic_averaging", "workers": 3, "servers": 1},
)
# Whoever computes a portion of the gradient, and however often, the result is the same; messages are not.
PORTIONS: Case = {"strategy": "sandblaster", "workers": 2, "servers": 1, "strategy__history": 2}
SHARED_MEMORY: Case = {"strategy": "hogwild", "workers": 3}


def num_ranks(case: Case) -> int:
    return int(case["workers"]) + case.get("servers", 0) + (case["strategy"] in (COORDINATED, "sandblaster"))


def epochs_of(case: Case) -> int:
    """Return the epochs of a case: those of sandblaster are evaluations, of which a pair of its history takes some."""
    return 8 if case["strategy"] == "sandblaster" else EPOCHS


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Nodes]:
    """Return what the nodes of each case hand in; one start for all of them."""
    cases = sorted([*SAME_BITS, *ASYNCHRONOUS, PORTIONS, SHARED_MEMORY], key=num_ranks, reverse=True)
    given = json.dumps([(num_ranks(case), case | {"epochs": epochs_of(case)}) for case in cases])
    ended = mpirun(tmp_path_factory.mktemp("nodes"), num_ranks(cases[0]), "nodes", given, timeout_s=120)
    assert ended.code == 0, ended.output
    return {
        str(case): [found[number] for found in ended.results[: num_ranks(case)]] for number, case in enumerate(cases)
    }


def parameters_of(nodes: Nodes, workers: int) -> np.ndarray:
    """Return what the servers hold, or the mean of the workers."""
    found = [np.frombuffer(bytes.fromhex(node["parameters"])) for node in nodes]
    held = [part for part in found[workers:] if part.size]  # a coordinator holds none
    return np.concatenate(held) if held else np.mean(found[:workers], axis=0)


def total(nodes: Iterable[dict[str, Any]], name: str) -> int:
    return sum(node[name] for node in nodes)


def test_simulated_and_real_runs_give_the_same_bits_and_as_many_messages(trained: dict[str, Nodes]) -> None:
    for case in SAME_BITS:
        nodes, simulated = trained[str(case)], simulation(epochs=epochs_of(case), **case)
        result = simulated.train()
        assert parameters_of(nodes, case["workers"]).tobytes() == simulated.parameters().tobytes(), case
        assert (total(nodes, "sent"), total(nodes, "bytes_sent")) == (result.messages, result.bytes_sent), case
        assert total(nodes, "samples") == result.samples_seen == epochs_of(case) * NUM_TRAIN, case


def test_portions_of_a_gradient_give_the_same_bits_whoever_computes_them(trained: dict[str, Nodes]) -> None:
    nodes, simulated = trained[str(PORTIONS)], simulation(epochs=epochs_of(PORTIONS), **PORTIONS)
    simulated.train()
    assert parameters_of(nodes, 2).tobytes() == simulated.parameters().tobytes()
    assert total(nodes, "samples") == epochs_of(PORTIONS) * NUM_TRAIN
    assert total(nodes, "sent") == total(nodes, "received")


def test_workers_that_do_not_wait_end_with_all_messages_delivered(trained: dict[str, Nodes]) -> None:
    for case in ASYNCHRONOUS:
        nodes = trained[str(case)]
        assert total(nodes, "sent") == total(nodes, "received") > 0, case
        assert np.isfinite(parameters_of(nodes, 3)).all(), case
        # Gradients of three workers meet each other's updates, unless the machine ran them one after the other.
        if case["strategy"] in ("asynchronous", "stale_synchronous"):
            assert min(stale for node in nodes for stale in node["staleness"]) >= 0, case


def test_workers_that_share_memory_train_all_samples_and_end_with_the_same_parameters(
    trained: dict[str, Nodes],
) -> None:
    nodes = trained[str(SHARED_MEMORY)]
    assert len({node["parameters"] for node in nodes}) == 1
    assert (total(nodes, "samples"), total(nodes, "sent")) == (EPOCHS * NUM_TRAIN, 0)
    staleness = [stale for node in nodes for stale in node["staleness"]]
    assert 0 <= min(staleness) <= max(staleness) <= EPOCHS * NUM_TRAIN


def test_a_large_message_leaves_while_its_sender_computes(tmp_path: Path) -> None:
    """Over TCP its receiver would wait for the sender's next call of MPI, and others with it."""
    ended = mpirun(tmp_path, 2, "slow_sender", mca={"btl": "self,tcp"})
    assert ended.code == 0, ended.output
    received_after_s = ended.results[1]
    assert received_after_s < 0.5


def test_ranks_that_write_the_same_parameters_lose_no_write_that_cannot_be_lost(tmp_path: Path) -> None:
    ended = mpirun(tmp_path, 3, "memory")
    assert ended.code == 0, ended.output
    for how in HOW:
        results = [result[how] for result in ended.results]
        each = WRITES * (1 if how == "shared" else 1 + 3)
        for found in results:
            assert found["first"] == list(range(SIZE)), how
            assert found["last"] == [number - each for number in range(SIZE)], how
            assert found["versions"] == sorted(found["versions"]), how
        # Each write has a number of its own.
        before = sorted(number for found in results for number in found["before"])
        assert before == list(range(len(before))), how
        assert {found["version"] for found in results} == {len(before)}, how
        # A read moves all numbers, a write those that it changes; shared memory moves nothing between hosts.
        per_turn = SIZE // 3 + SIZE + SIZE
        moved = 0 if how == "shared" else 8 * (WRITES * per_turn + 2 * SIZE)
        assert [found["moved"] for found in results] == [0, moved, moved], how
