"""How a gradient becomes a CUDA graph, and does without one, on a device that is played."""

import contextlib
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from dlbench.trainers._torch_graph import CapturedCall

torch = pytest.importorskip("torch", reason="needs PyTorch")


class Device:
    """Plays `torch.cuda`: what runs within `graph` is a graph, which `replay` runs again in the same memory."""

    def __init__(self, fails: type[Exception] | None = None) -> None:
        self.fails, self.log = fails, []
        self.capturing: Any = None
        stream = SimpleNamespace(wait_stream=lambda other: None)
        self.Stream = self.current_stream = lambda: stream
        self.CUDAGraph = lambda: SimpleNamespace(replay=None)

    def stream(self, stream: Any) -> Any:
        return contextlib.nullcontext()

    @contextlib.contextmanager
    def graph(self, graph: Any, pool: str) -> Iterator[None]:
        assert pool == "pool"
        self.capturing = graph
        try:
            yield
        finally:
            self.capturing = None


def call_on(device: Device) -> Callable[[Any, Any], Any]:
    def function(x: Any, y: Any) -> Any:
        device.log.append("run" if device.capturing is None else "capture")
        if device.capturing is not None and device.fails:
            raise device.fails("operation not permitted when stream is capturing")
        result = x.sum() + y.sum()
        if device.capturing is not None:
            device.capturing.replay = lambda: (device.log.append("replay"), result.copy_(x.sum() + y.sum()))
        return result

    fake = SimpleNamespace(cuda=device, autograd=SimpleNamespace(graph=None), OutOfMemoryError=torch.OutOfMemoryError)
    return CapturedCall(fake, function, "pool")


def results(call: Callable[[Any, Any], Any]) -> list[Any]:
    return [call(torch.full((2,), float(number)), torch.ones(1)) for number in range(4)]


def test_the_second_call_is_captured_and_later_ones_are_replayed_with_their_own_samples() -> None:
    device = Device()
    found = results(call_on(device))
    assert device.log == ["run", "capture", "replay", "replay", "replay"]
    assert [float(value) for value in found] == [1.0, 3.0, 5.0, 7.0]  # each keeps its own after later calls


def test_what_cannot_be_captured_runs_as_it_is_and_is_tried_once() -> None:
    device = Device(RuntimeError)
    assert [float(value) for value in results(call_on(device))] == [1.0, 3.0, 5.0, 7.0]
    assert device.log == ["run", "capture", "run", "run", "run"]


def test_a_lack_of_memory_is_no_reason_to_go_on_without() -> None:
    with pytest.raises(torch.OutOfMemoryError):
        results(call_on(Device(torch.OutOfMemoryError)))
