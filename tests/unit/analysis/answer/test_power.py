"""What so many repeats will be able to tell is what simulated arms show."""

import math

import numpy as np
import pytest

from dlbench.analysis.answer.power import compared, detectable, power_text
from dlbench.analysis.judge import judge
from dlbench.scenario.expand.runs import expand
from dlbench.scenario.metrics import TRAIN_TIME
from dlbench.scenario.read.scenario_file import parse
from dlbench.scenario.scenario import Repeats
from tests.unit.study.makers import planned


@pytest.mark.parametrize(("repeats", "arms"), [(3, 2), (5, 2), (4, 6)])
def test_a_difference_of_that_size_is_found_in_about_four_of_five_studies(repeats: int, arms: int) -> None:
    scatter, found = 0.02, 0
    behind = scatter * detectable(repeats, arms, margin=TRAIN_TIME.margin / scatter)
    generator = np.random.default_rng(0)
    for _ in range(200):
        values = scatter * generator.standard_normal((arms, repeats)) + np.array([0.0, *[behind] * (arms - 1)])[:, None]
        times = [{(str(repeat),): math.exp(value) for repeat, value in enumerate(own)} for own in values]
        found += judge(times, TRAIN_TIME).judgements[1].verdict == "loses"
    assert 0.75 < found / 200 < 0.97


def test_what_is_said() -> None:
    assert power_text(5, 1) == ""
    assert power_text(2, 4) == "2 repeats of 4 arms will decide nothing: it takes 3 (`repeats: 5`)"
    assert power_text(5, 2) == "5 repeats of 2 arms will tell times that differ by 4.7% where repeats scatter by 2.0%"
    assert power_text(Repeats(min=3, max=20), 2).startswith("3 to 20 repeats of 2 arms will tell times that differ by")
    assert power_text(5, 1, 2).startswith("no two arms are compared: each has another task")
    assert detectable(2, 2) == math.inf


@pytest.mark.parametrize(
    ("matrix", "given", "size"),
    [
        ("batch_size: [8, 16, 32]", "[]", (3, 1)),
        ("model: [softmax, mlp], batch_size: [8, 16, 32]", "[]", (3, 2)),
        ("momentum: [0.0, 0.9], batch_size: [8, 16, 32]", "[momentum]", (3, 2)),
        ("command: [python a.py, python b.py]", "[]", (1, 2)),
    ],
)
def test_arms_that_the_answer_keeps_apart_are_not_promised_to_be_told_apart(
    matrix: str, given: str, size: tuple[int, int]
) -> None:
    text = f"base: {{strategy: single}}\nmatrix: {{{matrix}}}\ngiven: {given}\nrepeats: 5\n"
    scenario = parse(text, "s.yaml")
    assert compared(expand(scenario, planned().cluster), scenario.given) == size
