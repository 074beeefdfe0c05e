"""Reduce vectors of several lengths so many times; hands in sums, bytes, messages and the library's account."""

import sys

import numpy as np

from dlbench.drivers.mpi import connect
from dlbench.strategies import mpi
from tests.functional.mpi_programs.launch import hand_in


def main(workers: int, algorithm: str, times: int, chunk_bytes: int, lengths: list[int]) -> None:
    """Reduce; the error is relative to the largest sum, over all lengths."""
    driver = connect(workers)
    strategy = mpi.create(mpi.OPTIONS(chunk_bytes=chunk_bytes), driver, algorithm)
    errors, bits = [0.0], []
    for length in lengths:
        of = [np.random.default_rng([length, rank]).normal(size=length) for rank in range(workers)]
        expected = np.sum(of, axis=0)
        for _ in range(times):
            result = strategy.exchange(of[driver.rank].copy())
            errors.append(float(np.max(np.abs(result - expected)) / np.max(np.abs(expected))))
        bits.append(result.tobytes().hex()[:64])
    hand_in(
        driver.rank,
        {
            "error": max(errors),
            "bits": bits,
            "bytes_sent": strategy.bytes_sent,
            "messages_sent": strategy.messages_sent,
            "facts": strategy.facts(),
            "thread_level": thread_level(),
        },
    )
    driver.close()


def thread_level() -> str:
    """Return the level of threads that MPI gave."""
    from mpi4py import MPI

    return {MPI.THREAD_SERIALIZED: "serialized", MPI.THREAD_MULTIPLE: "multiple"}.get(MPI.Query_thread(), "other")


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2], int(sys.argv[3]), int(sys.argv[4]), [int(text) for text in sys.argv[5:]])
