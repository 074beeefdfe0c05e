from pathlib import Path

import pytest

from dlbench.cli.options import read_only, read_repeats
from dlbench.errors import UserError
from dlbench.scenario.cluster import this_machine
from dlbench.scenario.cluster.cluster_file import ClusterOptions
from dlbench.scenario.scenario import Repeats
from dlbench.study.plan import cluster_of


def test_only_is_read_as_a_mapping_and_refused_in_another_form() -> None:
    assert read_only(("model.hidden=[64]", "command=a=b")) == {"model.hidden": "[64]", "command": "a=b"}
    for texts, part in ((("workers",), "axis=value"), (("=2",), "axis=value"), (("a=1", "a=2"), "twice")):
        with pytest.raises(UserError, match=part):
            read_only(texts)


def test_repeats_are_a_number_or_as_many_as_decide() -> None:
    assert [read_repeats(text) for text in (None, "5", "5..40")] == [None, 5, Repeats(min=5, max=40)]
    for text in ("0", "x", "2..5", "9..5", "5..", "5..201", "1.5"):
        with pytest.raises(UserError, match=r"is neither a number nor MIN\.\.MAX"):
            read_repeats(text)


def test_the_cluster_is_this_machine_unless_hosts_are_named(tmp_path: Path) -> None:
    assert cluster_of(ClusterOptions()) == this_machine()
    assert [host.address for host in cluster_of(ClusterOptions("a:1,b:2")).hosts] == ["a", "b"]
    (tmp_path / "hosts").write_text("c slots=3\n")
    assert cluster_of(ClusterOptions(None, tmp_path / "hosts")) == cluster_of(ClusterOptions("c:3"))
    with pytest.raises(UserError, match="--hosts and --hostfile both say where"):
        cluster_of(ClusterOptions("a:1", tmp_path / "hosts"))
    with pytest.raises(UserError, match="has an empty place"):
        cluster_of(ClusterOptions(""))
    with pytest.raises(UserError, match="absent: there is no such file"):
        cluster_of(ClusterOptions(None, tmp_path / "absent"))
