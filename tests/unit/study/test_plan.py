"""Runs that cannot be started here are refused before anything is."""

import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from dlbench.errors import UserError
from dlbench.records import files, parquet
from dlbench.scenario.cluster import this_machine
from dlbench.scenario.cluster.cluster_file import ClusterOptions
from dlbench.scenario.read.scenario_file import parse
from dlbench.scenario.run_spec import RunSpec
from dlbench.scenario.scenario import Repeats
from dlbench.scenario.settings import Settings
from dlbench.strategies import horovod
from dlbench.study import plan
from dlbench.study.folder import create, new_record, open_study
from dlbench.study.plan import Request, cluster_of, plan_study, require_launchable
from dlbench.study.resume import with_runs
from tests.unit.study.makers import ended

HERE: Any = SimpleNamespace(is_here=True)
ELSEWHERE: Any = SimpleNamespace(is_here=False)


def asked(**settings: Any) -> tuple[RunSpec, ...]:
    return (RunSpec(scenario="s", label="", repeat=0, settings=Settings(launcher="local", **settings)),)


def test_a_strategy_whose_library_is_missing_is_refused_with_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(horovod, "find_spec", lambda name: None)
    with pytest.raises(UserError, match=r"the strategy 'horovod' cannot be used here: .*`make horovod` builds it"):
        require_launchable(asked(strategy="horovod"), ELSEWHERE)
    require_launchable(asked(strategy="single"), ELSEWHERE)


def test_all_that_a_command_lacks_is_said_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.py").touch()
    runs = [run for command in ("pyton x.py", "python trian.py --x 1") for run in asked(command=command)]
    with pytest.raises(UserError) as refused:
        require_launchable(runs, HERE)
    said = str(refused.value)
    assert said.startswith("2 things are missing:")
    assert all(part in said for part in ("no program 'pyton'", "no script 'trian.py'", "did you mean 'train.py'?"))
    require_launchable(asked(command="python train.py"), HERE)


def test_what_python_and_shells_cannot_execute_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name, text in {
        "t.ipynb": "{}",
        "py2.py": "print 'x'",
        "train.sh": "set -e\npython train.py",
        "train.py": "",
        "folder/x.py": "",
        "package/__main__.py": "",
        "package/train.py": "",
        "train.pyc": "\0",
    }.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    for command, part in {
        "bash missing.sh": "no script 'missing.sh'",
        "sh -eu -o pipefail trian.sh 1": "did you mean 'train.sh'?",
        "env A=1 python missing.py": "no script 'missing.py'",
        "python -u missing.py": "no script 'missing.py'",
        "python -m nomod.train": "no module 'nomod.train'",
        "python -m package.trian": "did you mean 'package.train'?",
        "python -m package.sub.train": "no module 'package.sub.train'",
        "python -m folder": "no module 'folder'",
        "python t.ipynb": "nbconvert --to script t.ipynb",
        "python train.sh": "train.sh does not compile: line 2",
        "env A=1 python py2.py": "py2.py does not compile: line 1",
        "python folder": "folder is a folder",
        "bash package": "package is a folder",
    }.items():
        with pytest.raises(UserError) as refused:
            require_launchable(asked(command=command), HERE)
        assert part in str(refused.value), command
    for command in (
        "python package",
        f"{sys.executable} package",
        "python -m package.train",
        "python -m package",
        "python -m folder.x",
        "python -m json.tool",
        "python -Wignore -Ic 'import nowhere' x.py",
        "python -um train x",
        "python {model}.py",
        "python -m {model}",
        "python train.pyc",
        "python /dev/stdin",
        "bash -c 'python missing.py'",
        "bash -ec 'python missing.py' x",
        "bash -s x",
        "bash train.sh missing.sh python",
        "env PYTHONPATH=x python -m elsewhere",
        "env -C folder python x.py",
        "env A=1",
    ):
        require_launchable(asked(command=command), HERE)


TEXT = "# source: A\n# x: workers\nworkers,train_time_s\n1,2\n"


@pytest.fixture
def started_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the folder dlbench is started in, with a reference of the project's; this machine is not looked at."""
    folder = tmp_path / "scenarios" / "reference"
    folder.mkdir(parents=True)
    (folder / "theirs.csv").write_text(TEXT)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(plan, "describe", dict)
    return tmp_path


def test_a_scenario_file_and_a_mapping_bring_the_numbers_they_name(started_in: Path) -> None:
    path = started_in / "scenarios" / "s.yaml"
    path.write_text("reference: theirs\nbase: {trainer: numpy}\n")
    for scenario in (path, {"reference": "theirs", "base": {"trainer": "numpy"}}):
        found, _ = plan_study(Request(scenario))
        assert found.reference == TEXT
    found, _ = plan_study(Request({"base": {"trainer": "numpy"}}, where=ClusterOptions("localhost:1")))
    assert new_record(found, "").where == ("--hosts", "localhost:1")
    assert found.reference == ""
    with pytest.raises(UserError, match=r"no reference 'ours'; there are: theirs"):
        plan_study(Request({"reference": "ours", "base": {"trainer": "numpy"}}))


def test_a_study_that_goes_on_asks_for_no_reference(started_in: Path) -> None:
    found, _ = plan_study(Request({"reference": "theirs", "base": {"trainer": "numpy"}}))
    study = create(started_in, found)
    (started_in / "scenarios" / "reference" / "theirs.csv").unlink()
    found, folder = plan_study(Request(None, study=study.path))
    assert folder is not None
    assert found.reference == ""
    assert (study.path / files.REFERENCE).read_text() == TEXT


def test_a_trainer_whose_library_is_missing_is_refused_with_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plan, "find_spec", lambda name: None)
    with pytest.raises(UserError, match="needs tensorflow") as refused:
        require_launchable(asked(), HERE)
    assert "pip install 'dlbench[cpu]'" in refused.value.hint
    require_launchable(asked(trainer="numpy"), HERE)
    require_launchable(asked(command="true"), HERE)


def test_parquet_without_its_library_is_refused_at_its_line(monkeypatch: pytest.MonkeyPatch) -> None:
    scenario = parse("base: {trainer: numpy}\nstep_table: parquet\n", "s.yaml")
    plan.require_tables(scenario)
    monkeypatch.setattr(parquet, "is_installed", lambda: False)
    with pytest.raises(UserError) as refused:
        plan.require_tables(scenario)
    assert (refused.value.where, refused.value.hint) == ("s.yaml:2", "pip install pyarrow")


def test_a_launcher_of_the_cluster_that_does_not_start_a_strategy_is_named() -> None:
    runs = (*asked(), *asked(strategy="mpi"))
    cluster = this_machine().model_copy(update={"launcher": "torchrun"})
    lines = [line for line in plan.notices(runs, cluster) if "torchrun" in line]
    assert [line.partition("does not start ")[2] for line in lines] == ["single: local does", "mpi: local does"]
    for launcher in (None, "local"):
        cluster = this_machine().model_copy(update={"launcher": launcher})
        assert not [line for line in plan.notices(runs, cluster) if "does not start" in line]


def test_an_active_environment_whose_python_a_command_does_not_get_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("python", "torchrun"):
        program = tmp_path / "bin" / name
        program.parent.mkdir(exist_ok=True)
        program.touch(mode=0o755)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    beside = tmp_path / "other" / "python"
    beside.parent.mkdir()
    beside.touch(mode=0o755)
    monkeypatch.setattr(sys, "executable", str(beside))
    for active, command, is_said in (
        (tmp_path, "python train.py", True),
        (tmp_path, "env A=1 python train.py", True),
        (tmp_path, "torchrun train.py", False),  # which is found on PATH
        (tmp_path, f"{program.parent}/python train.py", False),
        (sys.prefix, "python train.py", False),
        ("", "python train.py", False),
    ):
        monkeypatch.setenv("VIRTUAL_ENV", str(active))
        said = "\n".join(plan.notices(asked(command=command), this_machine()))
        assert (f"is {beside}, not" in said and f"`command: {tmp_path}/bin/python ...`" in said) is is_said, command


def test_in_a_job_of_several_hosts_they_or_this_machine_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    nodes = tmp_path / "nodes"
    nodes.write_text("a\na\nb\n")
    monkeypatch.setenv("PBS_NODEFILE", str(nodes))
    named = cluster_of(ClusterOptions(hostfile=nodes)).hosts
    assert [(host.address, host.slots) for host in named] == [("a", 2), ("b", 1)]
    assert cluster_of(ClusterOptions(hosts="localhost:3")).is_here
    with pytest.raises(UserError, match="PBS"):
        cluster_of(ClusterOptions())


@pytest.mark.parametrize(
    ("written", "asked_for", "repeats"),
    [("2", 5, 5), ("2", None, 2), ("{max: 4}", 5, 5), ("{max: 4}", None, Repeats(max=4))],
)
def test_a_study_goes_on_with_the_repeats_that_were_last_asked_for(
    tmp_path: Path, written: str, asked_for: int | None, repeats: int | Repeats
) -> None:
    scenario = tmp_path / "s.yaml"
    scenario.write_text(f"base: {{dataset: digits, model: mlp, trainer: numpy}}\nrepeats: {written}\nbaseline: none\n")
    first, _ = plan_study(Request(scenario=scenario, repeats=asked_for))
    folder = create(tmp_path / "studies", first)
    assert plan_study(Request(scenario=None, study=folder.path))[0].repeats == repeats


def test_repeats_until_decided_may_follow_fixed_ones_and_are_judged_as_such(tmp_path: Path) -> None:
    scenario = tmp_path / "s.yaml"
    scenario.write_text("base: {dataset: digits, model: mlp, trainer: numpy}\nrepeats: 3\nbaseline: none\n")
    folder = create(tmp_path / "studies", plan_study(Request(scenario=scenario))[0])
    made, begun = folder.record.runs[0], Request(scenario=None, study=folder.path, repeats=Repeats(min=3, max=8))
    ended(folder, made)
    planned, _ = plan_study(begun)
    fourth = planned.runs[0].model_copy(update={"repeat": 3})
    known = with_runs(folder, [*planned.runs, fourth]).record.runs
    assert [run.run_id for run in known] == [*(run.run_id for run in folder.record.runs), fourth.run_id]
    assert [run.repeats_rule for run in known] == ["", *["until decided: 3 to 8"] * 3], "what ran is as it was"
    assert plan_study(Request(scenario=None, study=folder.path))[0].repeats == Repeats(min=3, max=8)
    # Of four that were planned without a rule all are made, whatever a budget has decided.
    plan_more, _ = plan_study(Request(scenario=None, study=folder.path, repeats=5))
    with_runs(open_study(folder.path), plan_more.runs)
    assert plan_study(Request(scenario=None, study=folder.path))[0].repeats == 5
