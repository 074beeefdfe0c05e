"""The strategies' nodes over real MPI processes: the same bits as simulated, where the order decides nothing."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.functional.mpi_programs.launch import Ended, mpirun
from tests.functional.mpi_programs.memory import SIZE, WRITES
from tests.simulations import NUM_TRAIN, simulation

pytestmark = pytest.mark.mpi
EPOCHS = 2
COORDINATED = "tests.coordinated:Coordinated"


def over_mpi(folder: Path, **chosen: Any) -> Ended:
    """Run one node of a strategy on each of so many ranks."""
    others = (chosen.get("servers") or 0) + (chosen["strategy"] == COORDINATED)
    ended = mpirun(folder, chosen["workers"] + others, "nodes", json.dumps(chosen))
    assert ended.code == 0, ended.output
    return ended


def parameters_of(ended: Ended, workers: int) -> np.ndarray:
    """Return what the servers hold, or the mean of the workers."""
    found = [np.frombuffer(bytes.fromhex(result["parameters"])) for result in ended.results]
    held = [part for part in found[workers:] if part.size]  # a coordinator holds none
    return np.concatenate(held) if held else np.mean(found[:workers], axis=0)


CASES: tuple[dict[str, Any], ...] = (
    {"strategy": "parameter_server", "workers": 2, "servers": 1, "momentum": 0.9},
    {"strategy": "parameter_server", "workers": 3, "servers": 2, "batch_size": 14, "batch_scope": "global"},
    {"strategy": "ring", "workers": 2},
    {"strategy": "ring", "workers": 4, "batch_size": 14, "batch_scope": "global", "optimizer": "adam"},
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
    {"strategy": "hogwild", "workers": 1},
    {"strategy": "hogwild", "workers": 1, "strategy__sparse": True},
)


@pytest.mark.parametrize(
    "case", CASES, ids=lambda case: f"{case['strategy'].split(':')[-1]}-{case['workers']}-{case.get('servers', 0)}"
)
def test_simulated_and_real_runs_give_the_same_bits_and_as_many_messages(tmp_path: Path, case: dict[str, Any]) -> None:
    ended = over_mpi(tmp_path, epochs=EPOCHS, **case)
    simulated = simulation(epochs=EPOCHS, **case)
    result = simulated.train()
    assert parameters_of(ended, case["workers"]).tobytes() == simulated.parameters().tobytes()
    assert sum(found["sent"] for found in ended.results) == result.messages
    assert sum(found["bytes_sent"] for found in ended.results) == result.bytes_sent
    assert sum(found["samples"] for found in ended.results) == result.samples_seen == EPOCHS * NUM_TRAIN


@pytest.mark.parametrize("strategy", ["asynchronous", "stale_synchronous", "gossip", "elastic_averaging"])
def test_workers_that_do_not_wait_end_with_all_messages_delivered(tmp_path: Path, strategy: str) -> None:
    servers = None if strategy == "gossip" else 1
    ended = over_mpi(tmp_path, strategy=strategy, workers=3, servers=servers, epochs=EPOCHS)
    sent, received = (sum(found[name] for found in ended.results) for name in ("sent", "received"))
    assert sent == received > 0
    assert np.isfinite(parameters_of(ended, 3)).all()
    staleness = [stale for found in ended.results for stale in found["staleness"]]
    # Gradients of three workers meet each other's updates, unless the machine ran them one after the other.
    if strategy in ("asynchronous", "stale_synchronous"):
        assert min(staleness) >= 0


def test_a_large_message_leaves_while_its_sender_computes(tmp_path: Path) -> None:
    """Over TCP its receiver would wait for the sender's next call of MPI, and others with it."""
    ended = mpirun(tmp_path, 2, "slow_sender", mca={"btl": "self,tcp"})
    assert ended.code == 0, ended.output
    received_after_s = ended.results[1]
    assert received_after_s < 0.5


@pytest.mark.parametrize("how", ["shared", "one-sided"])
def test_ranks_that_write_the_same_parameters_lose_no_write_that_cannot_be_lost(tmp_path: Path, how: str) -> None:
    ended = mpirun(tmp_path, 3, "memory", how)
    assert ended.code == 0, ended.output
    each = WRITES * (1 if how == "shared" else 1 + 3)
    for found in ended.results:
        assert found["first"] == list(range(SIZE))
        assert found["last"] == [number - each for number in range(SIZE)]
        assert found["versions"] == sorted(found["versions"])
    # Each write has a number of its own.
    before = sorted(number for found in ended.results for number in found["before"])
    assert before == list(range(len(before)))
    assert {found["version"] for found in ended.results} == {len(before)}
    # A read moves all numbers, a write those that it changes; shared memory moves nothing between hosts.
    per_turn = SIZE // 3 + SIZE + SIZE
    moved = 0 if how == "shared" else 8 * (WRITES * per_turn + 2 * SIZE)
    assert [found["moved"] for found in ended.results] == [0, moved, moved]


def test_workers_that_share_memory_train_all_samples_and_end_with_the_same_parameters(tmp_path: Path) -> None:
    ended = over_mpi(tmp_path, strategy="hogwild", workers=3, epochs=4)
    assert len({found["parameters"] for found in ended.results}) == 1
    assert sum(found["samples"] for found in ended.results) == 4 * NUM_TRAIN
    assert [found["sent"] for found in ended.results] == [0, 0, 0]
    staleness = [stale for found in ended.results for stale in found["staleness"]]
    assert 0 <= min(staleness) <= max(staleness) <= 4 * NUM_TRAIN
