"""Every file in scenarios/ is a valid scenario whose runs are possible, and opens by saying what it is for."""

from pathlib import Path

import pytest

from dlbench.errors import UserError
from dlbench.scenario.cluster import Cluster, Host
from dlbench.scenario.doubts import doubts
from dlbench.scenario.expand import expand
from dlbench.scenario.read import read

SCENARIOS = sorted((Path(__file__).parents[2] / "scenarios").glob("*.y*ml"))
TWO_CORES = Cluster(hosts=(Host(address="localhost", slots=2, cores=(0, 1)),))


def names() -> set[str]:
    return {path.name for path in SCENARIOS}


def test_there_are_scenarios() -> None:
    assert {"quickstart.yaml", "digits-batch-workers.yaml", "cifar10-resnet20.yaml"} <= names()


@pytest.mark.parametrize("path", SCENARIOS, ids=lambda path: path.name)
def test_a_scenario_is_valid_and_possible_on_two_cores(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(path.parents[1])
    scenario = read(path)
    try:
        runs = expand(scenario, TWO_CORES, {})
    except UserError as error:
        # Pictures that must be fetched first: everything else about the scenario is in order.
        assert "data/" in str(error), error
        return
    assert len({run.run_id for run in runs}) == len(runs) > 1
    assert doubts(scenario, runs, TWO_CORES) == ()


@pytest.mark.parametrize("path", SCENARIOS, ids=lambda path: path.name)
def test_a_scenario_opens_with_purpose_command_hardware_and_expectation(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    header = text[: text.index("\n\n", text.rindex("\n#", 0, text.index("\nbase:")))]
    assert f"dlbench run scenarios/{path.name}" in header
    assert "cores" in header
    assert "Expect" in header
    assert read(path).description
