"""Gradients of matrices are sent as two thin ones whose product is near; the rest is added to the next step.

Vogels, Karimireddy and Jaggi, "PowerSGD: practical low-rank gradient compression for distributed optimization", 2019:
one step of subspace iteration from where the last one ended. Both factors are summed over all workers.
Vectors, and matrices that two factors would not shorten, are sent whole.
"""

import math
from collections.abc import Mapping, Sequence
from time import perf_counter
from typing import Any

import numpy as np
from pydantic import Field

from dlbench.compressors import AllReduce, Array, Residual
from dlbench.plugins import Options
from dlbench.trainers import flatten, places, unflatten


class LowRankOptions(Options):
    """Options of the compressor `low-rank`."""

    rank: int = Field(2, ge=1, le=4096, description="Columns of the thin matrices.")


OPTIONS = LowRankOptions


class LowRank(Residual):
    """One worker's side; kernels of convolutions are matrices of their outputs by all else."""

    def __init__(
        self,
        options: LowRankOptions,
        shapes: Sequence[tuple[int, ...]],
        dtype: np.dtype[Any],
        all_reduce: AllReduce,
        seed: int,
    ) -> None:
        rank = options.rank
        super().__init__(sum(math.prod(shape) for shape in shapes), dtype)
        self._all_reduce = all_reduce
        self.encoding_s = self.decoding_s = 0.0
        # Where each matrix is, and its shape; all else is sent whole.
        self._matrices: list[tuple[slice, tuple[int, int]]] = []
        self._is_whole = np.ones(self.residual.size, bool)
        for shape, place in zip(shapes, places(shapes), strict=True):
            size = place.stop - place.start
            columns = shape[-1] if len(shape) > 1 else size
            rows = size // max(1, columns)
            if rank * (rows + columns) < size:
                self._matrices.append((place, (rows, columns)))
                self._is_whole[place] = False
        random = np.random.default_rng(seed)
        # The second factors [columns, rank], where the next step begins: on all workers the same.
        self._factors = [random.standard_normal((columns, rank)).astype(dtype) for _, (_, columns) in self._matrices]

    def state(self) -> dict[str, Array]:
        """Return copies of what was left out and of the factors."""
        return super().state() | {"factors": flatten(self._factors, self.residual.dtype)}

    def set_state(self, state: Mapping[str, Array]) -> None:
        """Overwrite them."""
        super().set_state(state)
        self._factors = unflatten(state["factors"], [factor.shape for factor in self._factors])

    def reduce(self, gradient: Array) -> Array:
        """Overwrite the flat gradient with what stands for the sum over all workers; see `Reduction`."""
        started = perf_counter()
        self.residual += gradient
        matrices = [self.residual[place].reshape(shape) for place, shape in self._matrices]
        firsts = [matrix @ factor for matrix, factor in zip(matrices, self._factors, strict=True)]
        whole = self.residual[self._is_whole]
        sent = flatten([*firsts, whole], gradient.dtype)
        self.encoding_s += perf_counter() - started
        sent = self._all_reduce(sent)
        started = perf_counter()
        *firsts, whole = unflatten(sent, [*(first.shape for first in firsts), whole.shape])
        firsts = [np.linalg.qr(first)[0] for first in firsts]
        seconds = [matrix.T @ first for matrix, first in zip(matrices, firsts, strict=True)]
        for matrix, first, second in zip(matrices, firsts, seconds, strict=True):
            matrix -= first @ second.T
        self.residual[self._is_whole] = 0
        sent = flatten(seconds, gradient.dtype)
        self.encoding_s += perf_counter() - started
        sent = self._all_reduce(sent)
        started = perf_counter()
        self._factors = unflatten(sent.copy(), [second.shape for second in seconds])
        gradient[self._is_whole] = whole
        for (place, _), first, second in zip(self._matrices, firsts, self._factors, strict=True):
            gradient[place] = (first @ second.T).ravel()
        self.decoding_s += perf_counter() - started
        return gradient


bind = LowRank
