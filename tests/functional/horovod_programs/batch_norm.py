"""Train with batch norm under Horovod; hands in how far each worker ends from one on the joined batches, by kind."""

import sys
from typing import Any

import numpy as np

from dlbench import plugins
from dlbench.drivers.horovod import connect
from dlbench.scenario.settings import Settings
from dlbench.strategies import horovod
from dlbench.trainers import Threads
from tests.functional.batch_norm_runs import KINDS, apart, build, train
from tests.functional.mpi_programs.launch import hand_in


def main(workers: int) -> None:
    """Train each kind and hand in the differences."""
    plugins.load("trainers", "keras_tensorflow").get("start")(Settings(), Threads(1, 1))
    driver = connect(workers)
    strategy = horovod.create(horovod.OPTIONS(), driver, None)
    found: dict[str, Any] = {}
    for kind in KINDS:
        trainer = build(kind, workers)
        start = trainer.parameters(), trainer.statistics()
        one = build(kind)
        one.compile(None)
        joined = train(one, start)
        trainer.compile(strategy.in_graph, strategy.in_forward)
        ends = train(trainer, start, lambda array: np.array_split(array, driver.size)[driver.rank])
        found[kind] = [apart(ends, joined)]
    hand_in(driver.rank, found)
    driver.close()


if __name__ == "__main__":
    main(int(sys.argv[1]))
