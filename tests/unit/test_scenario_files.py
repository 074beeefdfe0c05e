"""Every file in scenarios/ is a valid scenario whose runs are possible, and opens by saying what it is for."""

from pathlib import Path

import pytest

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


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with what scenarios expect under data/: names and numbers of files, nothing to look at."""
    place = tmp_path_factory.mktemp("scenarios")
    for part, count in (("train", 520), ("test", 200)):
        for label in range(10):
            pictures = place / "data/cifar10" / part / f"class-{label}"
            pictures.mkdir(parents=True)
            for number in range(count):
                (pictures / f"{number}.png").write_bytes(b"png")
    return place


@pytest.mark.parametrize("path", SCENARIOS, ids=lambda path: path.name)
def test_a_scenario_is_valid_and_possible_on_two_cores(
    path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    scenario = read(path)
    runs = expand(scenario, TWO_CORES, {})
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
