"""Every file in scenarios/ is a valid scenario whose runs are possible, and opens by saying what it is for."""

import functools
import io
import os
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from PIL import Image

from dlbench.datasets import image_folder
from dlbench.scenario.check.warnings import warnings
from dlbench.scenario.cluster import Cluster, Host, cluster_file
from dlbench.scenario.cluster.host_list import parse_hosts
from dlbench.scenario.expand.arms import unused_excludes
from dlbench.scenario.expand.runs import expand
from dlbench.scenario.read.scenario_file import read, reference_of

SCENARIOS = sorted((Path(__file__).parents[2] / "scenarios").glob("*.y*ml"))
CLUSTERS = {path.name: path for path in (Path(__file__).parents[2] / "scenarios/clusters").iterdir()}
TWO_CORES = Cluster(hosts=(Host(address="localhost", slots=2, cores=(0, 1)),))
QUOTA = "a worker that has used up its quota lets the others wait"
FOUR_GPUS = Cluster(hosts=(Host(address="localhost", slots=4, cores=(0, 1, 2, 3)),))


def header(path: Path) -> str:
    """Return what a file says before its first section."""
    text = path.read_text(encoding="utf-8")
    return text[: text.index("\n\n", text.rindex("\n#", 0, text.index("\nbase:")))]


def cluster_of(path: Path) -> Cluster:
    """Return what a file says that it is made for: the hosts of its command, four GPUs, or two cores."""
    hosts = re.search(rf"^#   dlbench run scenarios/{re.escape(path.name)} --hosts (\S+)$", header(path), re.MULTILINE)
    if hosts:
        return parse_hosts(hosts[1])
    return FOUR_GPUS if "one host with 4 GPUs" in header(path) else TWO_CORES


def test_the_studies_to_repeat_are_there_each_with_a_small_variant() -> None:
    studies = {
        "kim2023-batch-size": "kim2023-batch-size-small",
        "kim2018-scale-up": "kim2018-two-hosts-small",
        "kim2018-scale-out": "kim2018-two-hosts-small",
        "kim2018-as-published": "kim2018-as-published-small",
    }
    assert {f"{name}.yaml" for name in ("quickstart", *studies, *studies.values())} <= {path.name for path in SCENARIOS}


def test_a_repeated_study_is_compared_with_its_numbers(subtests: pytest.Subtests) -> None:
    for path in [path for path in SCENARIOS if path.name.startswith("kim")]:
        with subtests.test(path=path):
            found = reference_of(read(path), path)
            assert found is not None
            assert found.claims
            assert found.source.split()[-1] == path.name[3:7]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder with what scenarios expect under data/: names and numbers of files, one black picture, listed once."""
    place, picture = tmp_path_factory.mktemp("scenarios"), io.BytesIO()
    Image.new("RGB", (32, 32)).save(picture, "png")
    for part, count in (("train", 5000), ("test", 1000)):  # as CIFAR-10 has
        for label in range(10):
            pictures = place / "data/cifar10" / part / f"class-{label}"
            pictures.mkdir(parents=True)
            (first := pictures / "0.png").write_bytes(picture.getvalue())
            for number in range(1, count):
                os.link(first, pictures / f"{number}.png")  # several times as quick
    (place / "data/text.txt").write_text("a text of several words, again and again. " * 30_000)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(image_folder, "read_listing", functools.cache(image_folder.read_listing))
        yield place


@pytest.mark.parametrize("path", SCENARIOS, ids=lambda path: path.name)
def test_a_scenario_is_valid_and_possible_where_it_is_made_for(
    path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    scenario = read(path)
    cluster = cluster_of(path)
    runs = expand(scenario, cluster, {})
    assert len({run.run_id for run in runs}) == len(runs) > 1
    assert unused_excludes(scenario, cluster) == ()
    assert not_said(path, warnings(runs, cluster)) == []


def not_said(path: Path, found: tuple[str, ...]) -> list[str]:
    """Return the warnings but two: of shares of a core, which a scenario's header must say, and of logical devices."""
    assert any(QUOTA in text for text in found) == (QUOTA in header(path).replace("\n# ", " ")), path
    return [text for text in found if QUOTA not in text and "logical-devices" not in text]


def test_a_scenario_opens_with_purpose_command_hardware_and_expectation(subtests: pytest.Subtests) -> None:
    for path in SCENARIOS:
        with subtests.test(path=path):
            said = header(path)
            assert f"dlbench run scenarios/{path.name}" in said
            assert "cores" in said
            assert "Expect" in said
            assert read(path).description


def test_the_arms_of_the_placebo_do_identical_work() -> None:
    path = next(path for path in SCENARIOS if path.name == "placebo.yaml")
    runs = expand(read(path), TWO_CORES, {})
    work = {run.settings.model_copy(update={"learning_rate_base_batch": None, "seed": 0}) for run in runs}
    arms = {run.settings.learning_rate_base_batch for run in runs}
    assert len(work) == 1
    assert work.pop().learning_rate_scale == "none"
    assert (len(arms), len(runs)) == (18, 90)


def test_a_cluster_file_holds_the_hosts_of_each_scenario_that_names_it(
    folder: Path, monkeypatch: pytest.MonkeyPatch, subtests: pytest.Subtests
) -> None:
    monkeypatch.chdir(folder)
    used = [(path, name) for path in SCENARIOS for name in CLUSTERS if name in header(path)]
    assert {name for _, name in used} == set(CLUSTERS)
    for path, name in used:
        with subtests.test(path=path, name=name):
            cluster = cluster_file.read(CLUSTERS[name])
            runs = expand(read(path), cluster, {})
            assert [host.slots for host in cluster.hosts] == [host.slots for host in cluster_of(path).hosts]
            assert not_said(path, warnings(runs, cluster)) == []
