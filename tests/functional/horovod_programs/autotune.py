"""Reduces until Horovod's autotuning, made short, has ended; hands in what the strategy says of it before and after."""

import os
import sys

import numpy as np

from dlbench import plugins
from dlbench.drivers.horovod import connect
from dlbench.scenario.settings import Settings
from dlbench.strategies import horovod
from dlbench.trainers import Threads
from tests.functional.mpi_programs.launch import hand_in

# Read when the library is loaded.
SHORT = {
    "HOROVOD_AUTOTUNE_WARMUP_SAMPLES": "0",
    "HOROVOD_AUTOTUNE_STEPS_PER_SAMPLE": "1",
    "HOROVOD_AUTOTUNE_BAYES_OPT_MAX_SAMPLES": "3",
}
STEPS = 200


def main(workers: int) -> None:
    """Reduce the same vector over and over."""
    os.environ.update(SHORT)
    plugins.load("trainers", "keras_tensorflow").get("start")(Settings(), Threads(1, 1))
    driver = connect(workers)
    strategy = horovod.create(horovod.OPTIONS(autotune=True), driver, None)
    before, vector = strategy.facts(), np.ones(1000, np.float32)
    for _ in range(STEPS):
        driver.all_reduce(vector, np.empty_like(vector))
    hand_in(driver.rank, {"before": before, "after": strategy.facts()})
    driver.close()


if __name__ == "__main__":
    main(int(sys.argv[1]))
