"""The size of step rows is announced before anything runs."""

import pytest

from dlbench.scenario.check.step_rows import announcement, csv_bytes
from dlbench.scenario.cluster import this_machine
from dlbench.scenario.expand.runs import expand
from dlbench.scenario.read.scenario_file import parse

BASE = "base: {dataset: digits, trainer: numpy, strategy: single, batch_size: 10, epochs: %d}\n"


@pytest.mark.parametrize(
    ("text", "size"),
    [
        # Tests have 1,000 digits: 800 are trained on, in 80 full steps of one worker.
        (BASE % 1 + "baseline: none\n", 80 * 130),
        (BASE % 100 + "baseline: none\nrepeats: 3\n", 80 * 130 * 300),
        ("base: {command: python train.py, launcher: local}\n", 0),
    ],
)
def test_the_size_is_that_of_the_steps_that_are_known(text: str, size: int) -> None:
    runs = expand(parse(text, "s.yaml"), this_machine())
    assert csv_bytes(runs, this_machine()) == size


@pytest.mark.parametrize(("form", "said"), [("auto", True), ("csv", False), ("parquet", False)])
def test_what_nobody_chose_is_announced(form: str, said: bool) -> None:
    large = parse(BASE % 6000 + f"step_table: {form}\n", "s.yaml")
    assert bool(announcement(large, expand(large, this_machine()), this_machine())) == said
    small = parse(BASE % 3 + f"step_table: {form}\n", "s.yaml")
    assert not announcement(small, expand(small, this_machine()), this_machine())
