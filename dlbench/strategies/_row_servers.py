"""The rows of a lookup table between workers: on servers that own them, or sent to all.

A lookup table is a matrix of which a batch reads, and has gradients for, only the rows that its tokens name.

Servers live beside the workers: with N workers, worker r owns rows r, r + N, r + 2N, ..., so that frequent tokens,
whose numbers are often the lowest, are spread over all owners. A step pulls the rows that its batch needs and pushes
their gradients back; the push repeats no row numbers, since owners know what was pulled.
"""

import numpy as np

from dlbench.strategies import Array
from dlbench.strategies._payloads import PayloadExchange

# What a row's number takes in a message.
ROW_NUMBER = np.dtype(np.int32)


class RowServer:
    """One worker's side of a table on servers: the rows that it owns, and what its batch has pulled.

    Args:
        table: All rows [num_rows, width], the same on all workers.
        exchange: Carries the messages.
    """

    def __init__(self, table: Array, exchange: PayloadExchange) -> None:
        self._exchange, self._shape = exchange, table.shape
        self._rows: Array = table[exchange.rank :: exchange.size].copy()
        self._row_bytes = table.itemsize * table.shape[1]
        # By rank: the rows that this worker has pulled from it, and the places of those that it has pulled from here.
        self._pulled: list[Array] = []
        self._served: list[Array] = []

    def pull(self, rows: Array) -> tuple[Array, Array]:
        """Return (row numbers, their values [n, width]) of some rows, in the order of their owners; a collective.

        Args:
            rows: Rising numbers, int32; each worker has its own, perhaps none.
        """
        exchange, size = self._exchange, self._exchange.size
        self._pulled = [rows[rows % size == owner] for owner in range(size)]
        requests = exchange.all_to_all([_as_bytes(asked) for asked in self._pulled])
        self._served = [request.view(ROW_NUMBER) // size for request in requests]
        replies = exchange.all_to_all(
            [_as_bytes(self._rows[places]) for places in self._served],
            [asked.size * self._row_bytes for asked in self._pulled],
        )
        return np.concatenate(self._pulled), np.concatenate([self._values(reply) for reply in replies])

    def push(self, gradient: Array, learning_rate: float) -> None:
        """Move the gradients of the rows that were pulled to their owners, which update them; a collective.

        Owners sum in the order of ranks and subtract rate x sum, as plain SGD does.

        Args:
            gradient: Of the whole table [num_rows, width]; rows that were pushed become zero.
            learning_rate: Of the update.
        """
        pushed = self._exchange.all_to_all(
            [_as_bytes(gradient[rows]) for rows in self._pulled],
            [places.size * self._row_bytes for places in self._served],
        )
        for rows in self._pulled:
            gradient[rows] = 0
        touched = np.unique(np.concatenate(self._served))
        total = np.zeros((touched.size, self._shape[1]), self._rows.dtype)
        # What is not finite stays so and is seen in losses and weights; a warning would only repeat it.
        with np.errstate(over="ignore", invalid="ignore"):
            for places, values in zip(self._served, pushed, strict=True):
                total[np.searchsorted(touched, places)] += self._values(values)
            self._rows[touched] -= self._rows.dtype.type(learning_rate) * total

    def whole(self, exchange: PayloadExchange) -> Array:
        """Return all rows [num_rows, width] as their owners hold them; a collective."""
        table = np.empty(self._shape, self._rows.dtype)
        for owner, rows in enumerate(exchange.gather(_as_bytes(self._rows))):
            table[owner :: exchange.size] = self._values(rows)
        return table

    def _values(self, payload: Array) -> Array:
        return payload.view(self._rows.dtype).reshape(-1, self._shape[1])


def gather_sum(exchange: PayloadExchange, gradient: Array, rows: Array) -> None:
    """Overwrite a table's gradient with the sum over all workers, of which each sends its rows to all; a collective.

    All workers add in the order of ranks, and end with the same bits.

    Args:
        exchange: Carries the messages.
        gradient: [num_rows, width], zero but for `rows`.
        rows: Rising numbers, int32; each worker has its own, perhaps none.
    """
    payloads = exchange.gather(np.concatenate([_as_bytes(rows), _as_bytes(gradient[rows])]))
    gradient[rows] = 0
    row_bytes = ROW_NUMBER.itemsize + gradient.itemsize * gradient.shape[1]
    with np.errstate(over="ignore", invalid="ignore"):
        for payload in payloads:
            numbers, values = np.split(payload, [payload.size // row_bytes * ROW_NUMBER.itemsize])
            gradient[numbers.view(ROW_NUMBER)] += values.view(gradient.dtype).reshape(-1, gradient.shape[1])


def _as_bytes(array: Array) -> Array:
    return np.ascontiguousarray(array).view(np.uint8).ravel()
