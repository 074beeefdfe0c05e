"""Messages between processes that `torch.distributed` connects over TCP (Gloo), under whatever launcher."""

import json
from datetime import timedelta
from typing import Any

import numpy as np

from dlbench.communicators import _rendezvous
from dlbench.plugins import Options
from dlbench.strategies import Array

OPTIONS = Options
# Where worker 0 listens is in the variables that torchrun sets, too (`MASTER_ADDR`, `RANK`, ...).
NEEDS_ADDRESS = True
# dlbench itself sees who stalls; Gloo's own limit, half an hour, would end a run whose first worker compiles for long.
PATIENCE = timedelta(days=1)


class TorchCommunicator:
    """One rank of the world of `torch.distributed`. One thread at a time may call it.

    Attributes:
        torch: The module.
    """

    def __init__(self, torch: Any) -> None:
        self.torch, self._distributed = torch, torch.distributed
        self._distributed.init_process_group("gloo", timeout=PATIENCE)
        self.rank: int = self._distributed.get_rank()
        self.size: int = self._distributed.get_world_size()
        kinds = self._distributed.ReduceOp
        self._operations = {"sum": kinds.SUM, "max": kinds.MAX, "min": kinds.MIN}

    def barrier(self) -> None:
        """Wait for every worker."""
        self._distributed.barrier()

    def broadcast(self, array: Array, root: int = 0) -> None:
        """Overwrite `array` with the root's."""
        if array.size:
            self._distributed.broadcast(self.torch.from_numpy(array), root)

    def all_reduce(self, array: Array, out: Array, operation: str = "sum") -> None:
        """Write the `sum`, `max` or `min` of all workers' `array` to `out`; `out` may be `array` itself."""
        np.copyto(out, array)
        if array.size:
            self._distributed.all_reduce(self.torch.from_numpy(out), self._operations[operation])

    def all_gather(self, value: Any) -> list[Any]:
        """Return every worker's JSON-able value, by rank."""
        text = np.frombuffer(json.dumps(value).encode(), np.uint8)
        lengths = np.zeros(self.size, np.int64)
        lengths[self.rank] = text.size
        self.all_reduce(lengths, lengths)
        pieces = [self.torch.zeros(int(lengths.max()), dtype=self.torch.uint8) for _ in range(self.size)]
        pieces[self.rank][: text.size] = self.torch.from_numpy(text.copy())
        self._distributed.all_gather(pieces, pieces[self.rank].clone())
        return [json.loads(piece[:length].numpy().tobytes()) for piece, length in zip(pieces, lengths, strict=True)]

    def sendrecv(self, send: Array, to: int, receive: Array, source: int) -> None:
        """Send to one peer and receive from one peer at once (point to point)."""
        sending = self._distributed.isend(self.torch.from_numpy(send), to)
        self._distributed.recv(self.torch.from_numpy(receive), source)
        sending.wait()

    def close(self) -> None:
        """Disconnect; a collective. All are done before the first one goes: worker 0 holds what connects the others."""
        if self._distributed.is_initialized():
            self.barrier()
            self._distributed.destroy_process_group()


def connect(num_workers: int) -> TorchCommunicator:
    """Connect the processes by the variables that torchrun sets, too, and return this rank's communicator.

    Raises:
        RuntimeError: Not exactly `num_workers` distinct processes are connected.
    """
    import torch

    communicator = TorchCommunicator(torch)
    _rendezvous.check(communicator, num_workers, "")
    return communicator
