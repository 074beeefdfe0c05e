"""What Open MPI's daemons on other hosts are told: when one that is not heard of is lost, and whose they are."""

import pytest

from dlbench.launch.launchers import _open_mpi, mpirun
from dlbench.launch.plan import plan
from dlbench.records.assignment import ATTEMPT_VARIABLE
from dlbench.scenario.layout import Layout, Place
from tests.unit.launch.fakes import assignment

PARTS = ("keepalive_time", "keepalive_intvl", "keepalive_probes")


def layout(*hosts: str) -> Layout:
    places = tuple(Place(rank=r, workers=(r,), host=host) for r, host in enumerate(hosts))
    return Layout(places=places, intra_op_threads=1, inter_op_threads=1)


@pytest.mark.parametrize("longest_s", [0.2, 1.0, 2.0, 3.0, 10.0, 30.0, 299.5, 86_400.0])
def test_it_takes_about_as_long_as_is_said(longest_s: float) -> None:
    env = _open_mpi.silence(layout("a", "b"), longest_s)
    for kind in ("OMPI", "PRTE"):
        idle, interval, probes = (int(env[f"{kind}_MCA_oob_tcp_{name}"]) for name in PARTS)
        assert min(idle, interval, probes) >= 1
        assert idle + interval * probes == pytest.approx(longest_s, rel=0.2, abs=2)
    assert len(env) == 6


def test_it_is_within_what_a_kernel_takes() -> None:
    env = _open_mpi.silence(layout("a", "b"), 1e9)
    assert all(int(value) <= 32_767 for value in env.values())


def test_one_host_is_never_lost() -> None:
    assert _open_mpi.silence(layout("localhost", "localhost"), 30.0) == {}


def test_a_plan_has_the_run_s_own_limit_unless_the_user_says_otherwise(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mpirun, "executable", lambda: "/opt/env/bin/mpirun")
    over_hosts = {"layout": layout("a", "b")}
    plain = assignment(workers=2, launcher="mpirun", strategy="mpi").model_copy(update=over_hosts)
    options = {"launcher.mca": {"oob_tcp_keepalive_time": "7"}}
    chosen = assignment(workers=2, options=options, launcher="mpirun", strategy="mpi").model_copy(update=over_hosts)
    name = "PRTE_MCA_oob_tcp_keepalive_time"
    limit = plain.run.limits.orphan_timeout_s
    assert plan(plain, {}).env[name] == _open_mpi.silence(layout("a", "b"), limit)[name] != "7"
    assert plan(chosen, {}).env[name] == "7"


def test_daemons_on_other_hosts_carry_the_attempt_s_id(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mpirun, "executable", lambda: "/opt/env/bin/mpirun")
    here = assignment(workers=2, launcher="mpirun", strategy="mpi")
    env = plan(here.model_copy(update={"layout": layout("a", "b")}), {}).env
    assert env["PRTE_MCA_prte_launch_agent"] == f"env {ATTEMPT_VARIABLE}={here.attempt_id} prted"
    assert env["OMPI_MCA_orte_launch_agent"] == f"env {ATTEMPT_VARIABLE}={here.attempt_id} orted"
    assert not [name for name in plan(here, {}).env if name.endswith("launch_agent")]
