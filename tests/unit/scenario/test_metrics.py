"""Metrics are declared once: what a scenario may declare, and what targets take from the declarations."""

import json
from collections.abc import Callable

import pytest

from dlbench.errors import UserError
from dlbench.records.columns import names
from dlbench.scenario.metrics import BUILT_IN, SCORE_COLUMNS, SCORES, declared
from dlbench.scenario.read.scenario_file import parse
from dlbench.scenario.run_spec import RunSpec, Target
from dlbench.scenario.settings import Settings
from dlbench.study.plan import require_tables
from tests.unit.scenario.conftest import Runs

COMMAND = "base: {command: python x.py, strategy: single}\n"
TEXT = """\
metrics:
  perplexity: {better: lower, matters: 2%}
  bleu: {better: higher, matters: 0.5, unit: points, knows_nothing: 0}
"""


def test_a_declaration_says_what_a_metric_is() -> None:
    known = declared(parse(COMMAND + TEXT, "s.yaml").metrics)
    perplexity, bleu = known["perplexity"], known["bleu"]
    assert (perplexity.is_higher_better, perplexity.margin, perplexity.is_share) == (False, 0.02, True)
    assert (bleu.is_higher_better, bleu.margin, bleu.is_share) == (True, 0.5, False)
    assert (bleu.unit, bleu.knows_nothing) == ("points", 0.0)
    assert list(known) == [*BUILT_IN, "perplexity", "bleu"]


@pytest.mark.parametrize(
    ("text", "line", "said"),
    [
        ("metrics:\n  'top-5': {better: higher, matters: 1}", 3, "'top-5' cannot name a metric"),
        ("metrics:\n  m\u0430p: {better: higher, matters: 1}", 3, "cannot name a metric"),  # a Cyrillic letter
        ("metrics:\n  validation_loss: {better: lower, matters: 1}", 3, "validation_loss is known"),
        ("metrics:\n  cost: {better: lower, matters: 1}", 3, "cost is a column of the tables already"),
        ("metrics:\n  bleu:\n    better: more\n    matters: 1", 4, "'higher' or 'lower'"),
        ("metrics:\n  bleu:\n    better: higher\n    matters: 0", 5, "greater than 0"),
        ("metrics:\n  bleu:\n    better: higher\n    matters: little", 5, "a share such as 2%"),
        ("metrics:\n  bleu:\n    bettr: higher\n    better: higher\n    matters: 1", 4, "did you mean 'better'?"),
        ("metrics:\n  bleu: 'BLEU ([0-9]+)'", 3, "metrics.bleu.better is missing"),
        ("metrics:\n  samples_per_s: {better: higher, output: '(x)'}", 3, "samples_per_s is known"),
        ("metrics:\n  samples_per_s: 'images/sec'", 3, "has 0 groups in parentheses"),
        ("metrics:\n  bleu: {better: higher, matters: 1, of: worker}", 3, "`of` needs"),
        ("metrics:\n  samples_per_s: '(a'", 3, "is no regular expression"),
        ("metrics:\n  samples_per_s: {file: log.csv}", 3, "`file` and `key` belong together"),
        ("metrics:\n  samples_per_s: {file: log.csv, key: rate, output: '(a)'}", 3, "exclude each other"),
        ("metrics:\n  validation_accuracy: 'acc: ([0-9.]+)\\s*%'", 3, "the value is in %: set `times`"),
        ("metrics:\n  train_time_s: 'took ((?:[0-9.])+) ms'", 3, "the value is in ms: set `times`"),
        ("metrics:\n  train_time_s: 'took ([0-9.]+) +ms'", 3, "the value is in ms: set `times`"),
        ("metrics:\n  samples_per_s: '([0-9.]+) ?it/s'", 3, "the value is in it/s: set `times` to the samples of one"),
        ("metrics:\n  samples_per_s: '([0-9.]+) steps per second'", 3, "the value is in steps per second"),
        (
            "metrics:\n  train_loss: {file: '{attemptid}/a', key: a}",
            3,
            "metrics.train_loss.file has an unknown placeholder",
        ),
        ("metrics:\n  train_accuracy: {output: '(a)', of: worker}", 3, "`of: worker` is for rates"),
        ("metrics:\n  samples_per_s: 'on 2 CPU(s): ([0-9.]+)'", 3, "printed ones \\( and \\)"),
        ("metrics: [bleu]", 2, "metrics must be a mapping"),
        (TEXT + "target:\n  metric: blue\n  value: 1", 6, "did you mean 'bleu'?"),
        ("target:\n  metric: train_time_s\n  value: 1", 3, "there is no score 'train_time_s'"),
        ("target:\n  metric: accuracy\n  value: 1", 3, "did you mean 'validation_accuracy'?"),
        ("target:\n  metric: validation_accuracy\n  value: 0", 4, "lies between 0 and 1"),
        ("target:\n  metric: train_mean_squared_error\n  value: -1", 4, "lies above 0"),
    ],
)
def test_each_mistake_has_its_line(text: str, line: int, said: str) -> None:
    with pytest.raises(UserError) as caught:
        require_tables(parse(COMMAND + text, "s.yaml"))
    assert str(caught.value).startswith(f"s.yaml:{line}: ")
    assert said in str(caught.value)


def test_values_that_a_target_may_have_are_those_of_its_metric() -> None:
    for metric, value in (("validation_accuracy", 1), ("train_loss", 0), ("bleu", -3), ("perplexity", 1e9)):
        found = parse(f"{COMMAND}{TEXT}target: {{metric: {metric}, value: {value}}}", "s.yaml").target
        assert found == Target(metric=metric, value=value), metric


@pytest.mark.parametrize(
    ("metric", "better", "worse"),
    [("validation_accuracy", 0.6, 0.4), ("train_loss", 0.4, 0.6), ("perplexity", 0.4, 0.6), ("bleu", 0.6, 0.4)],
)
def test_a_target_is_reached_from_the_worse_side(metric: str, better: float, worse: float) -> None:
    target = Target(metric=metric, value=0.5)
    metrics = parse(COMMAND + TEXT, "s.yaml").metrics
    run = RunSpec(scenario="s", label="", repeat=0, settings=Settings(), target=target, metrics=metrics)
    cases = ((better, True), (0.5, True), (worse, False), (None, False))
    assert [run.reaches_target({metric: value}) for value, _ in cases] == [ends for _, ends in cases]
    assert not run.reaches_target({})
    assert not run.model_copy(update={"target": None}).reaches_target({metric: better})


def test_runs_carry_declarations_and_keep_their_names(runs: Callable[..., Runs]) -> None:
    plain, declaring = (runs(COMMAND + text)[0] for text in ("", TEXT))
    assert list(declaring.metrics) == ["perplexity", "bleu"]
    assert plain.run_id == declaring.run_id
    assert RunSpec.model_validate(json.loads(declaring.model_dump_json())) == declaring
    old = plain.model_dump(mode="json")
    del old["metrics"]
    assert RunSpec.model_validate(old) == plain


def test_every_score_is_a_column_of_both_tables() -> None:
    assert len(SCORE_COLUMNS) == 2 * len(SCORES)
    for table in ("runs", "epochs"):
        assert [name for name in names(table) if name in SCORE_COLUMNS] == list(SCORE_COLUMNS)
    assert {f"knows_nothing_{name}" for name in SCORES} <= set(names("runs"))


def test_a_score_that_is_never_measured_is_no_target_or_goal(
    runs: Callable[..., Runs], refusal: Callable[..., str]
) -> None:
    error = "validation_mean_squared_error"
    for text in (f"target: {{metric: {error}, value: 1}}", f"goal: cost keeping {error}", f"goal: time to {error}<=1"):
        assert runs(COMMAND + text)
        assert f"which has classes, has no score '{error}'" in refusal(f"base: {{seed: 1}}\n{text}")
    for text, what in (("target: {metric: bleu, value: 1}", "target"), ("goal: time keeping bleu", "goal")):
        message = refusal(f"base: {{seed: 1}}\n{TEXT}{text}")
        assert f"only a script of your own reports bleu, which the {what} is about" in message


def test_what_a_script_prints_needs_a_script() -> None:
    text = "base: {model: softmax}\nmetrics:\n  samples_per_s: 'rate ([0-9.]+)'\n"
    with pytest.raises(UserError, match="and there is no `command`"):
        parse(text, "s.yaml")
    scenario = parse(text.replace("model: softmax", "command: ./train"), "s.yaml")
    assert scenario.metrics["samples_per_s"].is_taken
    assert declared(scenario.metrics) == dict(BUILT_IN)
