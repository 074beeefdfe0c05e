"""A strategy whose workers send something shorter in place of whole gradients, and count it as it leaves.

What encodes a vector by itself is exchanged over point-to-point messages of dlbench's own: sparse payloads go round a
ring, and each worker adds up all of them in the order of ranks; dense ones are cut into blocks, each worker adds up
one block, encodes the sum and passes that round. What is reduced as it is goes round dlbench's own ring. So all workers
end with the same bits.
"""

from collections.abc import Callable, Mapping
from time import perf_counter
from typing import Any

from dlbench import plugins
from dlbench.compressors import Array, Compressor, Reduction, decode, encode
from dlbench.parts import cut
from dlbench.strategies import Communicator
from dlbench.strategies._payloads import PayloadExchange
from dlbench.strategies._ring import Ring
from dlbench.strategies._step import Between
from dlbench.telemetry.reporter import Reporter
from dlbench.trainers import Trainer


class _Encoded:
    """What both ways of exchanging encoded vectors have: see `Reduction`."""

    def __init__(self, compressors: Mapping[str, Compressor], exchange: PayloadExchange) -> None:
        self._compressors, self._exchange = compressors, exchange
        self.encoding_s = self.decoding_s = 0.0

    def state(self) -> dict[str, Array]:
        """Return copies of what is remembered from step to step."""
        states = {name: compressor.state() for name, compressor in self._compressors.items()}
        return {f"{name}.{key}": array for name, state in states.items() for key, array in state.items()}

    def set_state(self, state: Mapping[str, Array]) -> None:
        """Overwrite it."""
        for name, compressor in self._compressors.items():
            prefix = f"{name}."
            compressor.set_state({k.removeprefix(prefix): array for k, array in state.items() if k.startswith(prefix)})

    def _encode(self, name: str, vector: Array) -> Array:
        started = perf_counter()
        payload = encode(self._compressors[name], vector)
        self.encoding_s += perf_counter() - started
        return payload

    def _decode(self, name: str, payloads: list[Array], out: Array) -> None:
        """Overwrite a vector with the sum of what some workers have sent."""
        started = perf_counter()
        out[:] = 0
        for payload in payloads:
            decode(self._compressors[name], payload, out)
        self.decoding_s += perf_counter() - started


class _Whole(_Encoded):
    """Each worker gets what every other one has sent of its whole gradient."""

    def reduce(self, gradient: Array) -> Array:
        """Overwrite the flat gradient with what stands for the sum over all workers and return it; a collective."""
        self._decode("gradient", self._exchange.gather(self._encode("gradient", gradient)), gradient)
        return gradient


class _InBlocks(_Encoded):
    """Each worker sums one block of all workers' gradients, and sends that to all."""

    def reduce(self, gradient: Array) -> Array:
        """Overwrite the flat gradient with what stands for the sum over all workers and return it; a collective."""
        exchange, blocks = self._exchange, cut(gradient.size, self._exchange.size)
        payloads = [self._encode(f"block {number}", gradient[block]) for number, block in enumerate(blocks)]
        total = gradient[blocks[exchange.rank]]
        self._decode(f"block {exchange.rank}", exchange.all_to_all(payloads), total)
        sums = exchange.gather(self._encode("sum", total))
        for number, (block, payload) in enumerate(zip(blocks, sums, strict=True)):
            self._decode(f"block {number}", [payload], gradient[block])
        return gradient


class Compressed:
    """One worker's side of a strategy that reduces between two calls, whose gradients are compressed.

    It has a state once it is bound to a trainer.

    Args:
        strategy: It.
        communicator: Its messages.
        compressor: The plugin.
        options: Of the plugin.
        seed: The run's.
    """

    _reduction: Reduction

    def __init__(
        self, strategy: Any, communicator: Communicator, compressor: plugins.Plugin, options: plugins.Options, seed: int
    ) -> None:
        self._strategy, self._communicator = strategy, communicator
        self._compressor, self._options, self._seed = compressor, options, seed
        self._exchange, self._ring = PayloadExchange(communicator), Ring(communicator)

    @property
    def bytes_sent(self) -> int:
        """Bytes that have left this worker in reductions."""
        return self._exchange.bytes_sent + self._ring.bytes_sent

    def facts(self) -> dict[str, Any]:
        """Return what is known once; see `dlbench.strategies.Strategy`."""
        return dict(self._strategy.facts())

    def bind(self, trainer: Trainer, reporter: Reporter) -> Between:
        """Return the step: what is compressed is reduced between two compiled calls."""
        self._reduction = self._bind(trainer)
        size = self._communicator.size
        return Between(trainer, reporter, self._communicator.barrier, size, self._reduction.reduce, self._reduction)

    def state(self) -> dict[str, Array]:
        """Return copies of what is remembered from step to step."""
        return self._reduction.state()

    def set_state(self, state: Mapping[str, Array]) -> None:
        """Overwrite it."""
        self._reduction.set_state(state)

    def _bind(self, trainer: Trainer) -> Reduction:
        rank, workers, num_parameters = self._communicator.rank, self._communicator.size, trainer.num_parameters
        dtype, scale, create = trainer.parameters().dtype, 1 / workers, self._compressor.get("create")
        if create is None:
            bind: Callable[..., Reduction] = self._compressor.get("bind")
            return bind(self._options, trainer.shapes, dtype, self._ring.all_reduce, self._seed)
        if self._compressor.get("BYTES_PER_VALUE") is None:
            return _Whole({"gradient": create(self._options, num_parameters, dtype, scale)}, self._exchange)
        sizes = [block.stop - block.start for block in cut(num_parameters, workers)]
        blocks = {f"block {i}": create(self._options, size, dtype, scale) for i, size in enumerate(sizes)}
        total = create(self._options, sizes[rank], dtype, 1.0)
        return _InBlocks(blocks | {"sum": total}, self._exchange)
