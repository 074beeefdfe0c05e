"""All checks together: what a healthy cluster gives, and one host that does not answer."""

import re

from dlbench.launch.doctor.examine import NAMES, OTHERS, examine, verdicts
from dlbench.launch.doctor.finding import Verdict, worst
from dlbench.launch.links import Link
from dlbench.scenario.cluster import Host
from tests.unit.launch.doctor.facts import facts, two

LINK = Link(0, 1, 3e-5, 1.2e9, "eth0", "eth0")


def test_healthy_hosts_pass_every_check() -> None:
    found = verdicts(examine(two(links=(LINK,))))
    assert found == {(host, check): Verdict.PASS for host in "ab" for check in NAMES}


def test_one_host_alone_has_nothing_between_hosts() -> None:
    found = verdicts(examine(facts(Host(address="localhost", slots=4))))
    assert found == {("localhost", check): Verdict.PASS for check in ("reached", *OTHERS)}


def test_of_a_host_that_does_not_answer_nothing_else_is_known() -> None:
    found = verdicts(examine(two(problem="cannot be reached: ssh: Permission denied (publickey).")))
    assert [check for host, check in found if host == "b"] == ["reached"]
    assert found["b", "reached"] is Verdict.FAIL
    assert found["a", "route"] is Verdict.PASS


def test_the_worst_verdict_counts() -> None:
    assert worst([Verdict.WARN, Verdict.FAIL, Verdict.PASS]) is Verdict.FAIL
    assert worst([Verdict.WARN, Verdict.PASS]) is Verdict.WARN
    assert worst([]) is Verdict.PASS


def test_whatever_is_wrong_has_a_command_that_mends_it() -> None:
    broken = {
        "cores": [0],
        "mpi/mpirun_version": "HYDRA build details:",
        "horovod/library": "",
        "variables": {"OMP_NUM_THREADS": "1"},
        "limits/files": 10,
        "ways": {"error": "no answer within 8 s"},
        "port/error": "Address already in use",
        "home": {"offset_s": -3.0, "round_trip_s": 0.001},
        "machine/software/python": "3.12.0",
        "machine/software/libraries": {},
        "machine/limits/memory_bytes": 1 << 20,
        "shared_memory": {"error": "No such file or directory"},
        "folders.cache": {"error": "no answer within 8 s"},
    }
    remarks = [finding.remark for finding in examine(two(told=broken)) if finding.remark.verdict is not Verdict.PASS]
    assert len(remarks) >= len(broken)
    for remark in remarks:
        assert re.match(r"(ssh b |rsync |--hosts |sudo |docker |export )", remark.mend), remark
