"""What the rows of a worker's steps say of a strategy that sends messages."""

from time import sleep
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from dlbench.telemetry.messages import STEP_FIELDS
from dlbench.worker.train.node_run import NodeRun
from dlbench.worker.train.node_scores import Replica
from tests.fakes import KeptReporter
from tests.simulations import NUM_TRAIN, simulation

UPDATE_S, NUM_STEPS = 0.005, 4


class Alone:
    """The communicator of one worker, with memory that it shares with no other."""

    rank, size = 0, 1
    bytes_moved = 0

    def probe(self) -> None:
        return None

    def is_sending(self) -> bool:
        return False

    def enter_barrier(self) -> Any:
        return lambda: True

    def all_reduce(self, array: np.ndarray, out: np.ndarray) -> None:
        out[...] = array

    def share(self, first: np.ndarray, workers: int) -> Any:
        self.parameters = first.copy()
        return self

    def read(self) -> tuple[np.ndarray, int]:
        return self.parameters.copy(), 0

    def subtract(self, change: np.ndarray) -> int:
        sleep(UPDATE_S)
        self.parameters -= change
        return 0


class HostApart(Alone):
    """Memory that another host holds."""

    def subtract(self, change: np.ndarray) -> int:
        self.bytes_moved += change.nbytes
        return super().subtract(change)


@pytest.mark.parametrize(
    ("strategy", "communicator", "part"),
    [("ring", Alone, "update_time_s"), ("local_sgd", Alone, "update_time_s"), ("gossip", Alone, "update_time_s"),
     ("hogwild", Alone, "update_time_s"), ("hogwild", HostApart, "communication_time_s")],
)  # fmt: skip
def test_what_a_worker_applies_itself_is_its_update_and_no_message(
    strategy: str, communicator: type[Alone], part: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    found, reporter = simulation(strategy, 1, epochs=1, batch_size=NUM_TRAIN // NUM_STEPS), KeptReporter()
    layout: Any = SimpleNamespace(evaluator=None)
    replica = Replica(found.trainer, found.data)
    node_run = NodeRun(found.run, layout, found._plan, communicator(), reporter, None, replica)  # type: ignore[arg-type]
    worker = found._plan.worker(0, node_run.process)
    if strategy != "hogwild":
        apply = worker._optimizer.apply  # type: ignore[attr-defined]
        slow = SimpleNamespace(apply=lambda *arguments: (sleep(UPDATE_S), apply(*arguments)))
        monkeypatch.setattr(worker, "_optimizer", slow)
    if strategy in ("hogwild", "gossip"):
        node_run.process.hand_out(found.schedule)  # type: ignore[arg-type]
    node_run._train(worker, replica)
    node_run.recorder.flush()
    (rows,) = reporter.blocks
    steps = dict(zip(STEP_FIELDS, rows.T, strict=True))
    assert len(rows) == NUM_STEPS
    assert steps[part].min() > UPDATE_S
    parts = ("data_wait_s", "compute_time_s", "communication_time_s", "update_time_s")
    np.testing.assert_allclose(sum(steps[name] for name in parts), steps["step_time_s"], atol=1e-9)
    assert min(steps[name].min() for name in parts) > 0
