"""Every check on reports of hosts of which one thing is changed: verdicts, values and the commands that fix it."""

import re
from dataclasses import replace
from typing import Any

from dlbench.hosts.doctor.checks import BETWEEN_HOSTS, FIRST, NAMES, OF_A_HOST, examine, verdicts
from dlbench.hosts.doctor.facts import CheckVerdict, ClusterFacts
from dlbench.hosts.doctor.network import speed
from dlbench.hosts.links import BrokenLink, LinkMeasurement
from dlbench.scenario.cluster import Host
from tests.unit.hosts.doctor.reports import GIB, facts, two

MIB = 1 << 20
LOOPBACK = {"address": "127.0.1.1", "interface": "lo", "is_loopback": True}
UNKNOWN = {"error": "the name is not known: -", "is_unknown": True}
SILENT = {"error": "no answer within 8 s"}
HYDRA = {"mpi/mpirun_version": "HYDRA build details:"}
OPEN_MPI_4 = "mpirun (Open MPI) 4.1.4"
GPUS = [{"name": "H100"}] * 2
SOFTWARE = "machine/software"


def folder(free_bytes: int, **others: Any) -> dict[str, Any]:
    return {"folders.cache": {"path": "/cache", "free_bytes": free_bytes, "is_writable": True, **others}}


# Check, what host b answers otherwise, its verdicts, and what stands in its texts and in its fixes.
ANSWERS: list[tuple[str, dict[str, Any], str, str, str]] = [
    ("python", {f"{SOFTWARE}/python": "3.12.1"}, "fail", "3.12.1, here 3.11.7", "rsync"),
    ("versions", {f"{SOFTWARE}/libraries": {"numpy": "1.26"}}, "fail", "numpy 1.26 (here 2.4.6)", "rsync"),
    ("versions", {f"{SOFTWARE}/libraries": {"numpy": "2.4.6", "jax": "0.9"}}, "fail", "jax 0.9 (here absent)", "rsync"),
    ("versions", {f"{SOFTWARE}/dlbench": {"commit": None}}, "fail pass", "unknown, here abc", "checkout abc"),
    ("versions", {f"{SOFTWARE}/dlbench/dirty": True}, "warn pass", "changed", "rsync"),
    ("mpi", {"mpi/mpirun_version": "mpirun (Open MPI) 5.0.3", "mpi/on_path": ""}, "pass", "v5.0.11", ""),
    ("mpi", {"mpi/mpirun_version": OPEN_MPI_4, "mpi/on_path": ""}, "fail", "4.1.4, but mpi4py loads", "pip install"),
    ("mpi", {**HYDRA, "mpi/on_path": ""}, "fail", "HYDRA build details:, but mpi4py loads Open MPI", "pip install"),
    ("mpi", {**HYDRA, "mpi/on_path": "", "mpi/library_version": "MPICH Version: 4.2.1"}, "pass", "4.2.1", ""),
    ("mpi", {"mpi/mpirun": ""}, "fail", "no mpirun", "pip install"),
    ("mpi", {"mpi/problem": "cannot load MPI library"}, "fail", "cannot load MPI library", "pip install"),
    ("mpi", {"mpi": SILENT}, "warn", "no answer within 8 s", "MPI.Get_library_version()"),
    ("mpi", {"mpi/on_path": "/usr/bin/mpirun", "mpi/on_path_version": OPEN_MPI_4}, "pass warn",
     "/usr/bin/mpirun is first on PATH", "1i export PATH=/env/bin:$PATH"),
    ("horovod", {"horovod": {"library": "", "operations": []}}, "warn",
     "not installed", "make -C /work/dlbench horovod"),
    ("horovod", {"horovod/operations": ["MPI"]}, "warn", "without Gloo", "rm -f /work/dlbench/.venv/installed-horovod"),
    ("horovod", {"machine/gpus": GPUS}, "warn", "without NCCL", "HOROVOD_GPU_OPERATIONS=NCCL"),
    ("horovod", {"machine/gpus": GPUS, "horovod/operations": ["MPI", "Gloo", "NCCL"]}, "pass", "NCCL", ""),
    # A slow host is not reported to lack Horovod.
    ("horovod", {"horovod": SILENT}, "warn", "no answer within 8 s", "import horovod.tensorflow"),
    ("ray", {"ray": {}}, "", "", ""),
    ("ray", {"ray": SILENT}, "warn", "no answer within 8 s", "ray status"),
    ("ray", {"ray": {"problem": "none runs"}}, "fail", "no node of a Ray cluster: none runs",
     "ssh b 'ray start --address=10.0.0.9:6379'"),
    ("ray", {"ray/cluster": "10.0.0.7:6379"}, "fail", "is 10.0.0.7:6379, here 10.0.0.9:6379", "ray stop"),
    ("ray", {"ray/cpus": 1}, "warn", "1 CPUs for 2 slots",
     "ssh b 'ray stop; ray start --address=10.0.0.9:6379 --num-cpus=2'"),
    ("ray", {"ray/cpus": 1, "ray/is_head": True}, "warn", "1 CPUs", "ray stop; ray start --head --num-cpus=2"),
    ("slots", {"cores": [0]}, "warn", "2 slots on 1 core:", "--hosts a:2,b:1"),
    ("slots", {"machine/gpus": GPUS[:1]}, "warn", "2 slots on 1 GPU and 4 cores", "--hosts a:2,b:1"),
    ("slots", {"kernel": "kernel 0"}, "warn",
     "workers of several would get the same cores", "--hosts a:4, or separate `cores:`"),
    ("slots", {"kernel": ""}, "pass", "2 slots on 4 cores", ""),
    ("limits", {"machine/limits": {"cpu_cores": 2.5, "memory_bytes": 4 * GIB}}, "pass", "2.5 cores and 4.0 GiB", ""),
    ("limits", {"machine/limits/cpu_cores": 1.5}, "warn", "1.5 cores for 2 slots", "docker update --cpus=2"),
    ("limits", {"machine/limits/memory_bytes": GIB}, "warn", "1.0 GiB of memory for 2 slots", "--hosts a:2,b:1"),
    ("limits", {"machine/memory/total_bytes": GIB}, "warn", "1.0 GiB of memory for 2 slots", "--hosts a:2,b:1"),
    ("limits", {"machine": SILENT}, "pass", "no control group", ""),
    ("threads", {"variables": {"OMP_NUM_THREADS": "7"}}, "warn", "OMP_NUM_THREADS=7", "grep -rnsE OMP_NUM_THREADS"),
    ("threads", {"limits/processes": 399}, "warn", "399 processes and threads are allowed (ulimit -u)", "nproc 1600"),
    ("threads", {"limits/processes": 400}, "pass", "", ""),
    ("threads", {"limits": None}, "pass", "", ""),
    ("threads", {"limits/group_processes": 100}, "warn", "100 processes and threads", "--pids-limit=1600"),
    ("threads", {"limits/files": 1023}, "warn", "1023 open files are allowed (ulimit -n)", "nofile"),
    ("port", {"port": {"error": "Address already in use"}}, "fail", "Address already in use", "ip_local_port_range"),
    ("home", {"home": {"error": "Connection refused"}}, "fail", "10.0.0.9: Connection refused", "--source b -p tcp"),
    ("home", {"home": {"error": "Network is unreachable"}}, "fail", "unreachable", "ssh b 'ip route get 10.0.0.9'"),
    ("home", {"home": {"error": "Name or service not known"}}, "fail", "replace ADDRESS with",
     """echo '"'"'ADDRESS 10.0.0.9'"'"' | sudo tee"""),
    ("disk", folder(3 * GIB), "pass", "3.0 GiB free", ""),
    ("disk", folder(2047 * MIB), "warn", "/cache", "DLBENCH_CACHE"),
    ("disk", folder(15 * MIB), "fail", "/cache", "DLBENCH_CACHE"),
    ("disk", folder(3 * GIB, is_writable=False), "fail", "/cache", "DLBENCH_CACHE"),
    ("disk", {"folders.cache": SILENT}, "fail", "no answer within 8 s", "DLBENCH_CACHE"),
    ("disk", {"folders.temporary": {"path": "/tmp", "free_bytes": 0, "is_writable": True}}, "fail", "/tmp", "TMPDIR"),
    # Studies lie on this machine only.
    ("disk", {"folders.studies": {"path": "/s", "free_bytes": 0, "is_writable": True}}, "pass", "cache", ""),
    ("shm", {"shared_memory/total_bytes": 64 * MIB}, "warn",
     "64 MiB", "ssh b 'sudo mount -o remount,size=1g /dev/shm'"),
    ("shm", {"shared_memory/total_bytes": 64 * MIB, "machine/virtualisation/container": "docker"}, "warn",
     "may need 128 MiB", "docker run --shm-size=1g"),
    ("shm", {"shared_memory": SILENT}, "warn", "no /dev/shm", "mount"),
    ("noise", {"machine/cpu": {}, "load": None, "machine/memory/transparent_hugepages": None}, "pass", "nothing", ""),
    ("noise", {"machine/virtualisation/hypervisor": "KVM"}, "pass", "its neighbours took", ""),
    ("noise", {"machine/cpu/governor": "powersave"}, "warn", "governor is powersave", "echo performance"),
    ("noise", {"machine/cpu/boost": True}, "warn", "turbo is on", "intel_pstate/no_turbo"),
    ("noise", {"machine/cpu": {"boost": True, "vendor": "AuthenticAMD"}}, "warn", "turbo", "cpufreq/boost"),
    ("noise", {"machine/cpu/smt": True}, "warn", "two hardware threads", "smt/control"),
    ("noise", {"load": 1.34}, "warn", "load of the last minute was 1.3 on 4 cores", "ps -eo"),
    ("noise", {"machine/memory/transparent_hugepages": "always"}, "warn", "huge pages", "echo madvise"),
    ("noise", {"load": 3, "machine/cpu/smt": True}, "warn warn", "hardware threads", "ps -eo"),
    ("route", {}, "pass", "over eth0", ""),
    ("route", {"routes/a": {"error": "no route to 10.0.0.0: refused"}}, "fail", "a: no route to", "ip route get"),
    ("route", {"routes/a": UNKNOWN}, "warn", "the name is not known", "/etc/hosts"),
    ("route", {"routes/a": LOOPBACK}, "fail", "a is 127.0.1.1 there", "10.0.0.0 a"),
    ("route", {"routes/b": LOOPBACK}, "warn", "its own name b is 127.0.1.1 there", "10.0.0.1 b"),
    ("route", {"routes/b": UNKNOWN}, "warn", "its own name b has no address", "10.0.0.1 b"),
    ("route", {"routes": SILENT}, "fail", "a: no answer within 8 s", "ip route get"),
    ("clock", {"home/offset_s": 0.09}, "pass", "0.09 s ahead", ""),
    ("clock", {"home/offset_s": -0.09}, "pass", "0.09 s behind", ""),
    ("clock", {"home/offset_s": 0.11}, "warn", "0.11 s ahead", "chronyc"),
    ("clock", {"home/offset_s": -0.11}, "warn", "0.11 s behind", "chronyc"),
    ("clock", {"home": {"offset_s": 0.11, "round_trip_s": 0.1}}, "pass", "", ""),
    ("clock", {"home": {"error": "timed out"}}, "", "", ""),
]  # fmt: skip


def found_on(found: ClusterFacts, host: str, check: str) -> tuple[str, str, str]:
    """Return the verdicts, texts and fixes of a check on a host, each joined."""
    findings = [finding for finding in examine(found) if (finding.host, finding.check) == (host, check)]
    return tuple(
        " ".join(map(str, words)) for words in zip(*[(f.verdict, f.text, f.fix) for f in findings], strict=True)
    ) or ("", "", "")  # type: ignore[return-value]


def test_what_a_host_answers_decides_the_verdict_and_the_fix() -> None:
    for check, answer, *expected in ANSWERS:
        verdict, text, fix = found_on(two(answer=answer), "b", check)
        seen = (verdict, expected[1] in text, expected[2] in fix)
        assert seen == (expected[0], True, True), (check, answer, text, fix)
        if verdict not in ("", "pass"):
            assert re.match(r"\s*(ssh b |ip |echo |cat |rsync |--hosts |sudo |docker |export )", fix), (check, answer)
    assert {check for check, *_ in ANSWERS} == {*OF_A_HOST, *BETWEEN_HOSTS} - {"links"}


def test_healthy_hosts_pass_every_check() -> None:
    two_hosts = verdicts(examine(two(links=(link(0, 1, 1.2e9),))))
    assert two_hosts == {(host, check): CheckVerdict.PASS for host in "ab" for check in NAMES}
    # Variables of this machine are removed from runs.
    alone = facts(Host(address="localhost", slots=4), answer={"variables": {"OMP_NUM_THREADS": "7"}})
    found = verdicts(examine(alone))
    assert found == {("localhost", check): CheckVerdict.PASS for check in (*FIRST, *OF_A_HOST)}
    without_mpi = facts(Host(address="localhost", slots=2), answer={"mpi/mpirun": ""})
    assert found_on(without_mpi, "localhost", "mpi")[0] == "warn", "one machine works without"


def test_why_a_host_does_not_answer_decides_the_fix() -> None:
    copying = "rsync -a --relative /env /work/dlbench b:/"
    changed = "cannot be reached: WARNING: REMOTE HOST IDENTIFICATION HAS CHANGED!; Host key verification failed."
    problems = {
        "cannot be reached: root@b: Permission denied (publickey).": "ssh-copy-id b",
        "cannot be reached: Host key verification failed.": "ssh -o StrictHostKeyChecking=accept-new b true",
        changed: "ssh b true  # names the FILE; once it is known why the key is another: ssh-keygen -R b -f FILE",
        "cannot be reached: ssh: Could not resolve hostname b: -": "echo 'ADDRESS b' | sudo tee -a /etc/hosts",
        "cannot be reached: ssh: connect to host b port 22: No route to host": "ssh -v b true",
        "no answer within 18 s": "ssh -v b true",
        "has no /env/bin/python: the environment": copying,
        "dlbench does not work there (exit code 1)": copying,
    }
    for problem, fix in problems.items():
        assert found_on(two(problem=problem), "b", "reached") == ("fail", problem, fix)
    # Nothing else is known of it. The environment is copied once where dlbench is in it.
    found = two(problem="has no /env/bin/python")
    assert [check for host, check in verdicts(examine(found)) if host == "b"] == ["reached"]
    assert verdicts(examine(found))["a", "route"] is CheckVerdict.PASS
    inside, around = replace(found, root="/env/lib/site-packages"), replace(found, prefix="/work/dlbench/.venv")
    assert inside.copying(inside.hosts[1]) == "rsync -a --relative /env b:/"
    assert around.copying(around.hosts[1]) == "rsync -a --relative /work/dlbench b:/"


def test_where_dlbench_comes_from_a_wheel_horovod_is_built_by_the_script_of_a_checkout() -> None:
    for operations in ([], ["MPI"]):
        found = two(answer={"horovod/operations": operations, "horovod/library": "lib" if operations else ""})
        wheel = replace(found, root="/env/lib/site-packages")
        assert found_on(wheel, "b", "horovod")[2] == "ssh b 'docker/build-horovod /env  # in a checkout of dlbench'"


def test_ray_is_asked_for_where_runs_need_it() -> None:
    def of(found: ClusterFacts, launcher: str | None, ray: dict[str, Any]) -> list[tuple[str, str, str]]:
        reports = tuple(replace(report, answer={**report.answer, "ray": ray}) for report in found.hosts)
        cluster = found.cluster.model_copy(update={"launcher": launcher})
        changed = replace(found, hosts=reports, here=reports[0], cluster=cluster)
        return [found_on(changed, host.name, "ray") for host in reports]

    nothing, is_none = ("", "", ""), {"problem": "none runs"}
    alone = facts(Host(address="localhost", slots=2))
    assert of(alone, None, {}) == [nothing]
    assert of(alone, "ray", {})[0][0] == "fail"
    # One is started for each run.
    assert of(alone, "ray", is_none) == [nothing]
    assert of(two(), None, is_none) == [nothing] * 2
    fixes = [fix for _, _, fix in of(two(), "ray", is_none)]
    assert fixes == ["ray start --head", "ssh b 'ray start --address=10.0.0.9:6379'"]


def test_cores_that_are_named_must_be_there_and_those_of_one_kernel_differ() -> None:
    for slots, cores, expected in ((1, (2, 9), "has no core 9"), (2, (2,), "2 slots on 1 core:")):
        named = facts(Host(address="a", slots=1), Host(address="b", slots=slots, cores=cores))
        assert found_on(named, "b", "slots")[1].startswith(expected)
    same = {"kernel": "kernel 0"}
    assert "share its 4 cores for 5 slots" in found_on(two(slots=3, answer=same), "b", "slots")[1]
    hosts = [Host(address=name, slots=2, cores=own) for name, own in (("a", (0, 1)), ("b", (2, 3)))]
    apart = facts(*hosts, answer=same)
    assert [found_on(apart, name, "slots")[0] for name in "ab"] == ["pass", "pass"]
    three = (Host(address="a", slots=1), Host(address="b", slots=1), Host(address="c", slots=1, cores=(5,)))
    found = facts(*three, answer={**same, "cores": [0, 1, 2, 3, 4, 5]})
    assert found_on(found, "c", "slots") == ("pass", "1 slot on 1 core", "")


def test_this_machine_is_reached_by_its_address_not_as_localhost() -> None:
    hosts = (Host(address="localhost", slots=1), Host(address="b", slots=1))
    for key, verdict in (("routes/localhost", "pass"), ("routes/10.0.0.9", "fail")):
        assert found_on(facts(*hosts, answer={key: LOOPBACK}), "b", "route")[0] == verdict


def test_interfaces_that_differ_are_reported_once() -> None:
    network = [{"name": "eth0", "mtu_bytes": 9000, "speed_mbit_per_s": 1000}]
    found = two(answer={"machine/network": network})
    verdict, text, fix = found_on(found, "a", "route")
    assert (verdict, text) == ("warn warn", "eth0 has 1500 MTU, eth0 of b 9000 eth0 has 10000 Mbit/s, eth0 of b 1000")
    assert fix == "ssh b 'sudo ip link set dev eth0 mtu 1500' sudo ethtool eth0"
    assert found_on(found, "b", "route")[0] == "pass"


def link(a: int, b: int, bandwidth: float, round_trip_s: float = 3e-5, interface: str = "other0") -> LinkMeasurement:
    return LinkMeasurement(a, b, round_trip_s, bandwidth, interface, interface)


def test_a_link_is_judged_by_its_interfaces_its_round_trip_and_the_other_links() -> None:
    cases = (
        (link(0, 1, 1.2e9), "pass"),
        (link(0, 1, 0.62e9, interface="eth0"), "warn"),
        (link(0, 1, 0.63e9, interface="eth0"), "pass"),
        (link(0, 1, 1.2e9, round_trip_s=0.003), "warn"),
    )
    for measured, verdict in cases:
        found = two(links=(measured,))
        assert ("9.6 Gbit/s" in found_on(found, "a", "links")[1]) == (measured.bandwidth_bytes_per_s == 1.2e9)
        assert [found_on(found, name, "links")[0] for name in "ab"] == [verdict] * 2, measured
    # A virtual interface makes its speed up.
    found = two(links=(link(0, 1, 0.1e9, interface="eth0"),), answer={"physical": []})
    found.hosts[0].answer["physical"].clear()
    assert found_on(found, "a", "links")[0] == "pass"
    hosts = [Host(address=name, slots=1) for name in "abc"]
    found = facts(*hosts, links=(link(0, 1, 1e9), link(0, 2, 0.4e9), link(1, 2, 1e9)))
    assert [found_on(found, name, "links")[0] for name in "abc"] == ["pass warn", "pass pass", "warn pass"]
    assert verdicts(examine(found))["a", "links"] is CheckVerdict.WARN, "the worst one counts"
    assert [speed(value) for value in (11.95e6, 12_500)] == ["95.6 Mbit/s", "0.1 Mbit/s"]


def test_two_hosts_that_cannot_connect() -> None:
    problems = {
        "a calls 10.0.0.1 port 4: a: timed out": "ssh b 'sudo iptables --insert INPUT --source a -p tcp -j ACCEPT'",
        "b calls 10.0.0.0 port 4: b: timed out": "sudo iptables --insert INPUT --source b -p tcp -j ACCEPT",
        "b: no route to 10.0.0.0: No route to host": "ssh b 'ip route get a'",
    }
    for problem, fix in problems.items():
        verdict, text, found = found_on(two(links=(BrokenLink(0, 1, problem),)), "b", "links")
        assert (verdict, problem in text, found) == ("fail", True, fix)
