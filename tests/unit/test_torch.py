"""Steps of a device that works behind the loop, and what is read from batches, models and scores."""

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from tests.fakes import KeptReporter
from tests.unit.worker.script.test_hook import Clock, Script

hook: Any = None


@pytest.fixture(autouse=True)
def torch() -> Iterator[Any]:
    global hook
    found = pytest.importorskip("torch", reason="needs PyTorch")
    import dlbench.torch as hook

    yield found


class Device:
    """A queue of work: an event in it passes when what was queued before it is done."""

    def __init__(self, clock: Clock) -> None:
        self.clock, self.free_at, self.waits = clock, 0.0, 0

    def work(self, seconds: float) -> None:
        self.free_at = max(self.free_at, self.clock.now) + seconds

    def event(self, enable_timing: bool) -> Any:
        device = self

        class Event:
            at = 0.0

            def record(self) -> None:
                self.at = max(device.free_at, device.clock.now)

            def query(self) -> bool:
                return device.clock.now >= self.at

            def synchronize(self) -> None:
                device.waits += device.clock.now < self.at
                device.clock.now = max(device.clock.now, self.at)

            def elapsed_time(self, later: "Event") -> float:
                return 1000 * (later.at - self.at)

        assert enable_timing
        return Event()


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    for module in ("dlbench.worker.script.recorder", "dlbench.worker.step_recorder", "dlbench.torch"):
        monkeypatch.setattr(f"{module}.perf_counter", made)
    return made


def test_a_device_says_when_its_steps_have_ended(torch: Any, clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    """The loop queues a step in 0.1 s, the device takes 1 s; before the 30th step data is late."""
    reporter, device = KeptReporter(), Device(clock)
    monkeypatch.setattr(torch, "get_device_module", lambda _: SimpleNamespace(Event=device.event))
    steps = hook.Steps(None)
    steps.run.recorder = Script(reporter, clock, barrier_s=100).recorder
    steps._device = torch.device("cuda")
    for number in range(1, 41):
        clock.now += 20 if number == 30 else 0.1
        steps.begin()
        steps.samples += 4
        device.work(0.75)
        steps.gradient_ready = steps.now()
        steps.reduced = steps.now()
        device.work(0.25)
        steps.add_loss(torch.tensor(2.0), 4)
        steps.end()
    steps.epoch(None, {})
    result = steps.run.recorder.result(None)
    times, waits = reporter.column("step_time_s"), reporter.column("data_wait_s")
    # Where the device was waited for, at borders alone, the next step begins behind the loop.
    late = dict.fromkeys((1, 7, 8, 15, 16, 31, 32), 0.1) | {29: 12 * 0.1 + 20 + 0.1 - 13.1}
    np.testing.assert_allclose(waits, [late.get(step, 0.0) for step in range(40)], atol=1e-9)
    np.testing.assert_allclose(times, [1 + wait for wait in waits])
    assert device.waits == 8, "at borders, and at the end of the epoch"
    np.testing.assert_allclose(reporter.column("update_time_s"), 0.25)
    first = 0
    for piece, steps_before in zip(result.segments, (1, 1, 1, 1), strict=True):
        first += steps_before
        inside = times[first : first + piece.steps]
        assert piece.closed_at_s - piece.opened_at_s == pytest.approx(inside.sum())
        first += piece.steps
    assert first == 40
    assert result.train_time_s == pytest.approx(times.sum())
    assert reporter.of_kind("epoch")[-1]["row"]["train_loss"] == 2.0


def test_the_first_tensor_of_a_batch_says_how_many_samples_it_has(torch: Any) -> None:
    x = torch.zeros(5, 2)
    for batch, samples in (
        (x, 5), ((x, torch.zeros(7)), 5), ({"flag": True, "x": [x]}, 5), ((torch.tensor(1.0), {"x": x}), 5), ((), 0),
    ):  # fmt: skip
        assert hook.num_samples(batch) == samples


def test_weights_are_those_that_are_trained_unless_they_are_shards(torch: Any) -> None:
    model = torch.nn.Linear(2, 1)
    model.bias.requires_grad = False
    model.weight.data = model.weight.data.to(torch.bfloat16)
    (weights,) = hook.weights_of(model)
    assert weights.dtype == np.float32
    np.testing.assert_array_equal(weights, model.weight.detach().float().numpy())
    model.weight.ds_id = 1  # as ZeRO marks a parameter of which each process holds a part
    assert hook.weights_of(model) is None


def test_scores_have_their_names_here() -> None:
    values = {"eval_accuracy": 0.5, "eval_loss": 2, "eval_runtime": 3.0, "val_acc": 0.25, "eval_bleu": 7, "mine": 1}
    assert hook.scores_of(values, {"bleu", "mine"}) == {
        "validation_accuracy": 0.25, "validation_loss": 2.0, "bleu": 7.0, "mine": 1.0,
    }  # fmt: skip
