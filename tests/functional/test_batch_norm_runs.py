"""With synchronised batch norm N real workers equal one on the joined batch, and with local batch norm they do not."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dlbench.trainers import Array
from tests.functional.batch_norm_runs import KINDS, apart, build, train
from tests.functional.horovod_programs.launch import start

pytestmark = [pytest.mark.tensorflow, pytest.mark.slow]

TIMEOUT_S = 240.0
Found = dict[str, list[list[float]]]


def check(seen: list[Found]) -> None:
    """Weights and moving statistics of every worker; local ones are apart by more than rounding could ever be."""
    for found in seen:
        for differences in found["synchronized"]:
            assert max(differences) < 1e-12
        for weights, statistics in found["local"]:
            assert weights > 1e-3
            assert statistics > 1e-3


@pytest.mark.parametrize("workers", [2, 3])
def test_mirrored(workers: int, tmp_path: Path) -> None:
    path = tmp_path / "ends.npz"
    argv = [sys.executable, "-m", "tests.functional.batch_norm_runs", str(workers), str(path)]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
    assert done.returncode == 0, done.stderr
    saved = np.load(path)
    check([{kind: compared([saved[f"{kind} {number}"] for number in range(4)], kind, workers) for kind in KINDS}])


def compared(parts: list[Array], kind: str, workers: int) -> list[list[float]]:
    """Return how far each replica, with statistics of its own, is from one worker on the joined batches."""
    first_weights, first_statistics, weights, statistics = parts
    one = build(kind)
    one.compile(None)
    joined = train(one, (first_weights, np.split(first_statistics, workers)[0]))
    return [apart((weights, own), joined) for own in np.split(statistics, workers)]


@pytest.mark.mpi
@pytest.mark.parametrize(("collectives", "workers"), [("mpi", 2), ("mpi", 3), ("gloo", 2)])
def test_horovod(collectives: str, workers: int, tmp_path: Path) -> None:
    ended = start(tmp_path, collectives, workers, "batch_norm", workers, timeout_s=TIMEOUT_S)
    assert ended.code == 0, ended.output
    results: list[Any] = ended.results
    assert len(results) == workers
    check(results)
