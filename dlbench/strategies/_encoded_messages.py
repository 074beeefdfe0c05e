"""Nodes whose gradients are compressed in messages: those that workers push to servers, encoded on the way.

Neither side knows of it: a worker's port encodes the body of what it pushes, for each shard with what it has left out
of earlier ones, and a server gets it decoded. Parameters travel back as they are. What a server drops is lost with what
it held.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from dlbench.compressors import Array, Compressor, decode, encode
from dlbench.scenario.needs import WORKER
from dlbench.strategies._protocol import Memory, Message, OtherNode, Port, World

_PUSHES = ("push", "push_pull")


class EncodingPort:
    """A worker's port that encodes the gradients it pushes."""

    memory: Memory | None = None

    def __init__(self, port: Port, world: World, make: Callable[[int], Compressor]) -> None:
        self._port = port
        self.updating, self.updated, self.dropped = port.updating, port.updated, port.dropped
        self._compressors = [make(part.stop - part.start) for part in world.shards]

    def send(self, to: int, message: Message) -> None:
        """Send a message to a node, a gradient in it encoded."""
        if message.type in _PUSHES and message.body is not None:
            message = message._replace(body=encode(self._compressors[message.shard], message.body))
        self._port.send(to, message)


class DecodingNode:
    """A server that gets gradients decoded; all else is its own."""

    def __init__(self, node: OtherNode, size: int, dtype: Any, make: Callable[[int], Compressor]) -> None:
        self._node, self._size, self._dtype = node, size, dtype
        self._compressor = make(size)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._node, name)

    def on_message(self, message: Message) -> None:
        """Take a message, a gradient in it encoded."""
        if message.type in _PUSHES and message.body is not None:
            gradient: Array = np.zeros(self._size, self._dtype)
            decode(self._compressor, message.body, gradient)
            message = message._replace(body=gradient)
        self._node.on_message(message)


def make_node(create: Callable[..., Any], options: Any, world: World, role: str, index: int, port: Port) -> Any:
    """Return a strategy's node of a role; gradients that it sends or gets are compressed where the world says so."""
    make = world.make_compressor
    if make is None or not world.num_servers:
        return create(options, world, role, index, port)
    if role == WORKER:
        return create(options, world, role, index, EncodingPort(port, world, make))
    node = create(options, world, role, index, port)
    return DecodingNode(node, node.parameters.size, world.parameters.dtype, make)
