from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from dlbench import plugins
from dlbench.cli import group
from dlbench.records.columns import TABLES
from dlbench.scenario.read.scenario_file import read
from dlbench.scenario.settings import Settings


def listed(*arguments: str) -> str:
    result = CliRunner().invoke(group, ["list", *arguments])
    assert result.exit_code == 0, result.output
    return result.stdout


def test_every_plugin_has_a_line() -> None:
    text = listed()
    for kind in plugins.FOLDERS:
        for name in plugins.names(kind):
            assert f"{name} " in text
            assert plugins.load(kind, name).doc in text


def test_commands_are_named_after_it_was_called_in_the_same_process() -> None:
    listed("models")
    assert "recommend" in CliRunner().invoke(group, ["--help"]).stdout
    assert "list" in group.list_commands(click.Context(group))


def test_a_kind_shows_every_option_with_type_default_and_meaning() -> None:
    text = listed("models")
    for name in plugins.names("models"):
        for option, field in plugins.load("models", name).options.model_fields.items():
            assert f"model.{option}" in text
            assert str(field.description) in text
    assert "list of integer" in text
    assert listed("model") == text


def test_one_plugin_alone() -> None:
    text = listed("strategies", "mpi")
    assert "recursive-doubling" in text
    assert "strategy.chunk_bytes" in text
    assert "single" not in text


def test_settings_and_columns() -> None:
    text = listed("settings")
    assert all(name in text for name in Settings.model_fields)
    assert "per-worker or global" in text
    assert listed("settings", "workers").count("\n") == 2
    lines = listed("columns").splitlines()
    assert len(lines) == 1 + sum(len(columns) for columns in TABLES.values())
    assert "samples/s" in listed("columns", "samples_per_s")


def test_what_is_not_there_is_refused_with_the_nearest() -> None:
    for words, part in {
        "modles": "did you mean 'models'?",
        "models mlpp": "did you mean 'mlp'?",
        "settings worker": "did you mean 'workers'?",
        "columns stepps": "did you mean 'steps'?",
        "models no.such.module:function": "package.module:function",
        "scenarios quickstrat": "did you mean 'quickstart'?",
    }.items():
        result = CliRunner().invoke(group, ["list", *words.split()])
        assert (result.exit_code, part in result.stderr) == (2, True), words


def test_a_users_function_shows_its_parameters_as_options(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "my_network_of_a_test.py").write_text('def net(problem, *, width: int = 8):\n    """My net."""\n')
    monkeypatch.syspath_prepend(tmp_path)
    text = listed("models", "my_network_of_a_test:net")
    assert "My net." in text
    assert "model.width  integer  8" in text


def test_scenarios_that_come_with_dlbench_and_the_text_of_one() -> None:
    (path,) = (Path(__file__).parents[3] / "scenarios").glob("quickstart.yaml")
    assert read(path).description in listed("scenarios")
    assert listed("scenarios", "quickstart") == path.read_text(encoding="utf-8")
