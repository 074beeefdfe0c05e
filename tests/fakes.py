"""Small fakes: workers as threads, a model of one matrix, a reporter that keeps its messages."""

import json
import queue
import threading
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from dlbench.strategies._step import Between
from dlbench.telemetry.messages import STEP_FIELDS
from dlbench.telemetry.reporter import Reporter
from dlbench.trainers import Sums
from dlbench.worker.observer import Observer

# A worker that compiles on a busy machine takes its time; no other wait is longer.
PATIENCE_S = 120.0


class ThreadCommunicator:
    """A communicator whose workers are threads of one process; the reduction runs in rank order.

    Attributes:
        sent: Receiver and bytes of every point-to-point message that this worker sent.
    """

    library = "threads"
    components: tuple[str, ...] = ()

    def __init__(
        self, rank: int, size: int, board: list[Any], gate: threading.Barrier, boxes: "list[list[queue.Queue[Any]]]"
    ) -> None:
        self.rank, self.size = rank, size
        self._board, self._gate, self._boxes = board, gate, boxes
        self.sent: list[tuple[int, int]] = []

    def _share(self, value: Any) -> list[Any]:
        self._board[self.rank] = value
        self._gate.wait(PATIENCE_S)
        values = list(self._board)
        self._gate.wait(PATIENCE_S)
        return values

    def barrier(self) -> None:
        self._gate.wait(PATIENCE_S)

    def enter_barrier(self) -> Callable[[], bool]:
        self.barrier()
        return lambda: True

    def broadcast(self, array: np.ndarray, root: int = 0) -> None:
        array[...] = self._share(array.copy())[root]

    def all_reduce(self, array: np.ndarray, out: np.ndarray, operation: str = "sum") -> None:
        reduce = {"sum": np.add, "max": np.maximum, "min": np.minimum}[operation].reduce
        result = reduce(np.stack(self._share(array.copy())), axis=0)
        out[...] = result

    def all_gather(self, value: Any) -> list[Any]:
        return [json.loads(text) for text in self._share(json.dumps(value))]

    def sendrecv(self, send: np.ndarray, to: int, receive: np.ndarray, source: int) -> None:
        self.sent.append((to, send.nbytes))
        self._boxes[self.rank][to].put(send.copy())
        received = self._boxes[source][self.rank].get(timeout=PATIENCE_S)
        assert (received.shape, received.dtype) == (receive.shape, receive.dtype)
        receive[...] = received

    def control_variable(self, name: str) -> str | None:
        return None

    def close(self) -> None:
        self.barrier()


def in_threads(size: int, body: Callable[[Any], Any], kind: type[ThreadCommunicator] = ThreadCommunicator) -> list[Any]:
    """Run `body` once per worker; return their results by rank, or raise the first error."""
    board: list[Any] = [None] * size
    gate = threading.Barrier(size)
    boxes: list[list[queue.Queue[Any]]] = [[queue.Queue() for _ in range(size)] for _ in range(size)]
    results: list[Any] = [None] * size
    errors: list[BaseException] = []

    def work(rank: int) -> None:
        try:
            results[rank] = body(kind(rank, size, board, gate, boxes))
        except BaseException as error:  # noqa: BLE001 - handed to the test by `raise` below
            if not isinstance(error, threading.BrokenBarrierError):
                errors.append(error)
            gate.abort()

    threads = [threading.Thread(target=work, args=(rank,), daemon=True) for rank in range(size)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(2 * PATIENCE_S)
    if errors:
        raise errors[0]
    return results


class SumStrategy:
    """Sums gradients over all workers; `sabotaged` leaves each with its own."""

    takes_local_means = False

    def __init__(self, communicator: ThreadCommunicator, *, sabotaged: bool = False) -> None:
        self.communicator, self.sabotaged, self.bytes_sent = communicator, sabotaged, 0

    def bind(self, trainer: Any, reporter: Reporter) -> Between:
        communicator = self.communicator
        step = Between(trainer, reporter, communicator.barrier, communicator.size, self.all_reduce)
        step.takes_local_means = self.takes_local_means
        return step

    def all_reduce(self, gradient: np.ndarray) -> np.ndarray:
        if not self.sabotaged:
            self.communicator.all_reduce(gradient, gradient)
            self.bytes_sent += gradient.nbytes
        return gradient

    def facts(self) -> dict[str, Any]:
        return {}


class LinearTrainer:
    """Softmax regression in float64, as short as it can be."""

    flops_per_sample = None
    scores = ("loss", "accuracy")

    def __init__(self, num_inputs: int, num_classes: int, seed: int = 0) -> None:
        self.weights = np.random.default_rng(seed).normal(size=(num_inputs, num_classes))
        self.num_parameters, self.shapes = self.weights.size, (self.weights.shape,)
        self.moving = np.zeros(0)

    def parameters(self) -> np.ndarray:
        return self.weights.ravel().copy()

    def set_parameters(self, flat: np.ndarray) -> None:
        self.weights[...] = flat.reshape(self.weights.shape)

    def state(self, *names: str) -> dict[str, np.ndarray]:
        state = {"parameters": self.parameters(), "statistics": self.moving.copy()}
        return {name: state[name] for name in names or state}

    def set_state(self, state: Mapping[str, np.ndarray]) -> None:
        if "parameters" in state:
            self.set_parameters(state["parameters"])
        self.moving = state.get("statistics", self.moving).copy()

    def replicas(self) -> list[np.ndarray]:
        return [self.parameters()]

    in_graph: Any = None

    def compile(self, in_graph: Any, in_forward: Any = None) -> None:
        self.in_graph = in_graph

    def _forward(self, x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, Sums]:
        scores = x @ self.weights
        scores -= scores.max(axis=1, keepdims=True)
        probabilities = np.exp(scores) / np.exp(scores).sum(axis=1, keepdims=True)
        with np.errstate(divide="ignore"):
            loss = float(-np.log(probabilities[np.arange(len(y)), y]).sum())
        return probabilities, {"loss": loss, "accuracy": int((probabilities.argmax(axis=1) == y).sum())}

    def gradient(self, x: np.ndarray, y: np.ndarray, scale: float) -> tuple[np.ndarray, Sums]:
        probabilities, sums = self._forward(x, y)
        probabilities[np.arange(len(y)), y] -= 1
        return (x.T @ probabilities * scale).ravel(), sums

    def apply(self, update: np.ndarray, learning_rate: float) -> None:
        self.weights -= learning_rate * update.reshape(self.weights.shape)

    def step(self, x: np.ndarray, y: np.ndarray, scale: float, learning_rate: float) -> Sums:
        gradient, sums = self.gradient(x, y, scale)
        self.apply(gradient if self.in_graph is None else self.in_graph(gradient), learning_rate)
        return sums

    def evaluate(self, x: np.ndarray, y: np.ndarray) -> Sums:
        return self._forward(x, y)[1]

    def synchronize(self) -> None:
        pass

    def facts(self) -> dict[str, Any]:
        return {}


class KeptReporter(Reporter):
    """A reporter that keeps its messages."""

    def __init__(self) -> None:
        self.phase, self.step, self.epoch = "start", 0, 0
        self.loss: float | None = None
        self.accuracy: float | None = None
        self.samples_per_s: float | None = None
        self.messages: list[dict[str, Any]] = []
        self.blocks: list[np.ndarray] = []
        self.threads: list[int] = []

    def send(self, message: dict[str, Any]) -> None:
        self.messages.append(message)

    def send_steps(self, rows: np.ndarray) -> None:
        self.blocks.append(rows.copy())

    def drain(self, timeout_s: float) -> bool:
        return True

    def observer_cpu_s(self) -> float:
        return 0.0

    def register_thread(self) -> None:
        self.threads.append(threading.get_ident())

    def of_kind(self, kind: str) -> list[dict[str, Any]]:
        return [message for message in self.messages if message["kind"] == kind]

    @property
    def facts(self) -> dict[str, Any]:
        return {name: value for message in self.of_kind("facts") for name, value in message["facts"].items()}

    @property
    def sensor_rows(self) -> list[list[Any]]:
        return [row for message in self.of_kind("sensors") for row in message["rows"]]

    @property
    def rows(self) -> np.ndarray:
        return np.concatenate(self.blocks)

    def column(self, name: str) -> np.ndarray:
        return self.rows[:, STEP_FIELDS.index(name)]


class IdleObserver(Observer):
    """An observer without sensors; keeps what it was asked for, in order."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def baseline(self) -> None:
        self.asked.append("baseline")

    def zero(self, moment: float) -> None:
        self.asked.append("zero")

    def mark(self) -> None:
        self.asked.append("mark")
