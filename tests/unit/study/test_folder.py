import json
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from dlbench.errors import UserError
from dlbench.records import files
from dlbench.records.columns import SCHEMA_VERSION
from dlbench.scenario.cluster import Cluster
from dlbench.scenario.cluster.cluster_file import ClusterOptions
from dlbench.scenario.cluster.host_list import parse_hosts
from dlbench.scenario.metrics import MetricDeclaration
from dlbench.study.folder import create, newest, open_study, scenario_of, studies_of
from dlbench.study.plan import cluster_of
from dlbench.study.resume import refuse_other_hosts, resumed
from tests.unit.study.makers import TEXT, planned, runs

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


@pytest.mark.parametrize("parent", ["plain", "with space", "quo'te\"s", "new\nline", "한국어"])
def test_a_study_comes_back_as_it_was_made_in_odd_places(tmp_path, parent):
    made = create(tmp_path / parent, planned(), NOW)
    assert made.path.name == "시험 'x'-20260102T030405Z"
    assert (made.path / files.SCENARIO).read_text() == TEXT
    found = open_study(made.path)
    assert found.record == made.record
    assert found.record.runs == runs()
    assert not (made.path / files.REFERENCE).exists()
    assert scenario_of(found).name == "시험 'x'"


def test_the_newest_study_of_a_scenario_is_found_among_others(tmp_path):
    other = create(tmp_path, planned(TEXT.replace("시험 'x'", "other")), NOW.replace(year=2030))
    old = create(tmp_path, planned(), NOW)
    new, of_the_same_second = (create(tmp_path, planned(), NOW.replace(hour=9)) for _ in range(2))
    (tmp_path / "half made").mkdir()
    paths = [study.path for study in studies_of(tmp_path, "시험 'x'")]
    assert paths == [old.path, new.path, of_the_same_second.path]
    assert (newest(tmp_path, "시험 'x'").path, newest(tmp_path).path) == (paths[-1], other.path)
    with pytest.raises(UserError, match="no study of 'none'"):
        newest(tmp_path, "none")
    with pytest.raises(UserError, match="there is no study in "):
        newest(old.path)


def test_what_is_no_study_is_said(tmp_path):
    with pytest.raises(UserError, match="no runs"):
        create(tmp_path, planned(asked=()))
    assert list(tmp_path.iterdir()) == []
    made = create(tmp_path, planned(), NOW)
    with pytest.raises(UserError, match=r"is not a study.*\n.*20260102T030405Z"):
        open_study(tmp_path)
    text = (made.path / files.STUDY).read_text()
    (made.path / files.STUDY).write_text(text.replace(f'"schema_version": {SCHEMA_VERSION}', '"schema_version": 999'))
    with pytest.raises(UserError, match="schema version 999"):
        open_study(made.path)
    (made.path / files.STUDY).write_text(text[:100])
    with pytest.raises(UserError, match="cannot be read"):
        open_study(made.path)


def test_another_scenario_or_other_hardware_is_refused_with_the_difference(tmp_path):
    made = create(tmp_path, planned(), NOW)
    assert resumed(made, planned("# Another comment.\n" + TEXT)) == made
    noted = MetricDeclaration(better="lower", output="(a)", times=1)  # of a version that wrote what was not given
    assert resumed(made, planned(asked=tuple(it.model_copy(update={"metrics": {"a": noted}}) for it in runs()))) == made
    edited = TEXT.replace("batch_size: 8", "batch_size: 16")
    cpu = {"model": "Another", "cores": 2, "usable_cpus": 2, "smt": False}
    for asked, differences in (
        (planned(edited, runs(batch_size=16)), ["-base: {trainer: numpy, batch_size: 8}", "+base: {trainer: numpy, "]),
        (planned(asked=runs(batch_size=16)), ["batch_size: 8 -> 16"]),  # by a default, the scenario is the same
        (planned(cpu=cpu), ["CPU model: was A CPU, is Another"]),
        (planned(slots=4), ["hosts: localhost:2 -> localhost:4"]),
    ):
        with pytest.raises(UserError) as caught:
            resumed(made, asked)
        assert [line for line in differences if line not in str(caught.value)] == []


def test_a_study_on_other_hosts_is_refused_with_the_option_that_names_its_own(tmp_path):
    def cluster(text: str, **more: Any) -> Cluster:
        return parse_hosts(text).model_copy(update=more)

    sbatch = {"submitter": "sbatch"}
    for began, now, option in (
        (cluster("a:4,b:4"), cluster("a:4"), "--hosts a:4,b:4"),
        (cluster("a:4,b:4"), cluster("b:4,a:4"), "--hosts a:4,b:4"),
        (cluster("a:4"), cluster("a:5"), "--hosts a:4"),
        (cluster("localhost:3"), cluster("a:4"), "--hosts localhost:3"),
        (cluster("a:4", ssh="ssh -F x"), cluster("a:5"), "without --hosts, --hostfile and --cluster"),
        (cluster("a:4,b:4", **sbatch), cluster("c:4", **sbatch), "without --hosts, --hostfile and --cluster"),
    ):
        study = create(tmp_path, replace(planned(), cluster=began))
        with pytest.raises(UserError, match="hosts: ") as early:
            refuse_other_hosts(study, now)
        with pytest.raises(UserError, match="hosts: ") as late:
            resumed(study, replace(planned(), cluster=now))
        assert [refusal for refusal in (early, late) if option not in refusal.value.hint] == [], began
        refuse_other_hosts(study, began)
    # A queue gives other hosts each time.
    study = create(tmp_path, replace(planned(), cluster=cluster("a:4,b:4", **sbatch)))
    refuse_other_hosts(study, cluster("c:4,d:4", **sbatch))


def test_more_repeats_are_added(tmp_path):
    made = create(tmp_path, planned(asked=runs(2)), NOW)
    assert resumed(made, planned(asked=runs(1))).record.runs == runs(2)
    more = resumed(made, planned(asked=runs(4)))
    assert more.record.runs == runs(4)
    assert open_study(made.path).record == more.record


SECRET = {"MY_TOKEN": "opensesame", "OMP_NUM_THREADS": "4", "XLA_FLAGS": "--xla_x=opensesame"}


def with_variables(environment=SECRET):
    plan = planned()
    return replace(plan, cluster=plan.cluster.model_copy(update={"environment": environment}))


def test_values_of_variables_are_for_the_user_alone_and_come_back(tmp_path):
    made = create(tmp_path, with_variables(), NOW)
    shown = json.loads((made.path / files.STUDY).read_text())["cluster"]["environment"]
    assert shown == {"MY_TOKEN": "sha256:d9fb92e3", "OMP_NUM_THREADS": "4", "XLA_FLAGS": "sha256:ff36828a"}
    private = [path.name for path in made.path.iterdir() if not path.stat().st_mode & 0o077]
    assert [path.name for path in made.path.iterdir() if "opensesame" in path.read_text()] == private
    assert private == [files.ENVIRONMENT]
    assert open_study(made.path).record == made.record
    assert not (create(tmp_path, with_variables({"OMP_NUM_THREADS": "4"}), NOW).path / files.ENVIRONMENT).exists()


def test_a_study_goes_on_with_the_same_variables_alone_and_no_value_is_shown(tmp_path):
    made = create(tmp_path, with_variables(), NOW)
    (made.path / files.ENVIRONMENT).unlink()  # the cluster file is named again
    alone = open_study(made.path)
    assert resumed(alone, with_variables()) == alone
    for other, line in [
        (SECRET | {"MY_TOKEN": "another"}, "environment.MY_TOKEN: sha256:d9fb92e3 -> sha256:"),
        (SECRET | {"OMP_NUM_THREADS": "8"}, "environment.OMP_NUM_THREADS: 4 -> 8"),
        ({}, "environment.MY_TOKEN: sha256:d9fb92e3 -> absent"),
    ]:
        with pytest.raises(UserError) as caught:
            resumed(made, with_variables(other))
        assert line in str(caught.value)
        assert not [value for value in ("opensesame", "another") if value in str(caught.value)]


def test_a_study_of_an_early_version_goes_on_and_loses_the_values_once_it_is_written(tmp_path):
    made = create(tmp_path, with_variables(), NOW)
    (made.path / files.ENVIRONMENT).unlink()
    (made.path / files.STUDY).write_text(made.record.model_dump_json())
    early = open_study(made.path)
    assert early.record == made.record
    assert cluster_of(ClusterOptions(), early.record.cluster).environment == SECRET
    more = resumed(early, replace(with_variables(), runs=runs(4)))
    assert "opensesame" not in (made.path / files.STUDY).read_text()
    assert open_study(made.path).record == more.record


@pytest.mark.parametrize("content", [None, "[1]", "{", '{"MY_TOKEN": 7}', '{"MY_TOKEN": "another", "A": "b"}'])
def test_a_study_without_its_values_is_read_and_needs_the_cluster_file_to_go_on(tmp_path, content):
    made = create(tmp_path, with_variables(), NOW)
    (made.path / files.ENVIRONMENT).unlink()
    if content is not None:
        (made.path / files.ENVIRONMENT).write_text(content)
    cluster = open_study(made.path).record.cluster
    assert cluster.environment["MY_TOKEN"] == "sha256:d9fb92e3"
    with pytest.raises(UserError, match=r"values of MY_TOKEN, XLA_FLAGS\n.*--cluster"):
        cluster_of(ClusterOptions(), cluster)
    assert cluster_of(ClusterOptions(hosts="localhost:2"), cluster).environment == {}
