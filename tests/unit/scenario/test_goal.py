"""What decides between arms, as a scenario or a command line says it."""

from pathlib import Path

import pytest

from dlbench.errors import UserError
from dlbench.scenario.cluster import Prices, read_price
from dlbench.scenario.goal import Goal, read_goal
from dlbench.scenario.metrics import MetricDeclaration, declared
from dlbench.scenario.read.scenario_file import parse

METRICS = declared({"perplexity": MetricDeclaration.model_validate({"better": "lower", "matters": "2%"})})


@pytest.mark.parametrize(
    ("text", "goal"),
    [
        ("time", Goal()),
        ("throughput", Goal(least="throughput")),
        ("time keeping validation_loss", Goal(quality="validation_loss")),
        ("time to validation_accuracy>=0.9", Goal(target=("validation_accuracy", 0.9))),
        ("cost  to perplexity <= 25", Goal(least="cost", target=("perplexity", 25.0))),
    ],
)
def test_goals(text: str, goal: Goal) -> None:
    assert read_goal(text, METRICS) == goal


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("soonest", "not of a known form"),
        ("throughput keeping validation_loss", "not of a known form"),
        ("time to train_time_s<=9", "no run is scored by"),
        ("time to validation_accuracy<=0.9", "other side: validation_accuracy>=0.9"),
        ("time to perplexity>=25", "other side: perplexity<=25"),
        ("time to validation_accuracy>=1.5", "validation accuracy is never 1.5"),
        ("time to perplexity<=e", "is a number"),
    ],
)
def test_mistakes(text: str, problem: str) -> None:
    with pytest.raises(UserError, match=problem):
        read_goal(text, METRICS)


@pytest.mark.parametrize(
    ("text", "prices"),
    [
        ("2.5/worker-hour", Prices(currency="", worker_hour=2.5)),
        ("12 USD/host-hour", Prices(currency="USD", host_hour=12.0)),
        ("0.5EUR / worker-hour", Prices(currency="EUR", worker_hour=0.5)),
    ],
)
def test_prices(text: str, prices: Prices) -> None:
    assert read_price(text) == prices


@pytest.mark.parametrize("text", ["2.5", "2.5/hour", "-1/worker-hour", "nan/worker-hour", "x USD/host-hour"])
def test_wrong_prices(text: str) -> None:
    with pytest.raises(UserError, match="not of the form"):
        read_price(text)


def test_a_scenario_names_the_line_of_a_wrong_goal_and_condition(tmp_path: Path) -> None:
    text = "base: {dataset: digits}\nmatrix: {batch_size: [8, 16]}\ngoal: fastest\ngiven:\n  - batchsize\n"
    with pytest.raises(UserError) as caught:
        parse(text, "s.yaml")
    assert "s.yaml:3: the goal 'fastest'" in str(caught.value)
    assert "s.yaml:5: given names 'batchsize'" in str(caught.value)
    assert "batch_size" in str(caught.value)
    found = parse(text.replace("fastest", "time").replace("batchsize", "batch_size"), "s.yaml")
    assert (found.goal, found.given) == ("time", ("batch_size",))
