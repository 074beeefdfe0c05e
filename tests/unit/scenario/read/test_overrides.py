"""`--set` replaces values as if the file held them: checked alike, kept in the study, everything else as it was."""

from pathlib import Path

import pytest

from dlbench.errors import UserError
from dlbench.scenario.read.scenario_file import parse, read, read_with_text

TEXT = """\
# A scenario.
description: "1e-3: what?"
base: {dataset: digits, model: mlp, trainer: numpy, epochs: 5}
matrix:
  batch_size: [8, 16]
  workers: [1, 2]
zip: {seed: [1, 2], learning_rate: [0.1, 0.2]}
include: [{momentum: 0.9}]
target: {metric: validation_accuracy, value: 0.9}
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    found = tmp_path / "my study.yaml"
    found.write_text(TEXT)
    return found


def test_values_go_where_the_file_has_them(path: Path) -> None:
    values = {
        "epochs": "2", "batch_size": "[32, 64]", "workers": "1", "repeats": "3", "target.value": "0.5",
        "model.hidden": "[7]", "timeout_s": "5m",
    }  # fmt: skip
    scenario = read(path, values)
    assert (scenario.name, scenario.repeats, scenario.limits.timeout_s) == ("my study", 3, 300)
    assert scenario.base == {"dataset": "digits", "model": "mlp", "trainer": "numpy", "epochs": 2, "model.hidden": [7]}
    assert scenario.matrix == {"batch_size": (32, 64), "workers": (1,)}
    assert scenario.target is not None
    assert scenario.target.value == 0.5


def test_several_values_of_a_setting_become_an_axis_and_nothing_removes_a_target(path: Path) -> None:
    scenario = read(path, {"epochs": "[1, 2]", "target": "null", "name": "other"})
    assert scenario.matrix["epochs"] == (1, 2)
    assert "epochs" not in scenario.base
    assert (scenario.target, scenario.name) == (None, "other")


def test_the_text_that_a_study_keeps_reads_back_to_the_same(path: Path) -> None:
    scenario, text = read_with_text(path, {"epochs": "2", "workers": "[1]"})
    assert text.startswith("# With --set epochs=2 --set workers=[1]\n")
    assert parse(text, "my study.yaml").model_dump() == scenario.model_dump()
    assert read_with_text(path, {})[1] == TEXT


def test_a_wrong_value_is_refused_as_in_the_file(path: Path, subtests: pytest.Subtests) -> None:
    for key, value, said in (
        ("epochs", "two", "base.epochs must be a whole number"),
        ("epochs", "1,2", "write a list: --set epochs='[1, 2]'"),
        ("weight_decay", "0,1", "a fraction has a point: 0.1"),
        ("weight_decay", "0,05", "a fraction has a point: 0.05"),
        ("batch_size", "1,024", "must be a whole number, not '1,024'"),
        ("epoch", "2", "did you mean 'epochs'?"),
        ("model.hiden", "[7]", "did you mean 'model.hidden'?"),
        ("workers", "[1, x]", "matrix.workers[1] must be a whole number"),
        ("seed", "3", "varies together with others"),
        ("target.metric", "accuracy", "did you mean 'validation_accuracy'?"),
        ("epochs", "[", "not readable as YAML"),
        ("momentum", "0.5", "`include` names it, too"),
        ("base", "{epochs: 2}", "it holds many values"),
    ):
        with subtests.test(key=key), pytest.raises(UserError) as caught:
            read(path, {key: value})
        assert said in str(caught.value)
        assert key != "batch_size" or not caught.value.hint
        assert caught.value.where in ("", f"--set {key}") or caught.value.where.startswith(f"--set {key}:")
