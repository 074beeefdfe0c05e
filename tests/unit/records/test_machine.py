import copy
import json
import os
import socket
import subprocess
import sys
import types
from pathlib import Path
from unittest.mock import Mock

import psutil
import pytest

from dlbench.records import gpus, hardware, machine, mpi, noise, software, variables
from tests.unit.test_cgroups import tree


@pytest.fixture(scope="module")
def described():
    return machine.describe()


def test_this_machine_is_described(described):
    assert json.loads(json.dumps(described)) == described
    assert described["cpu"]["usable_cpus"] == len(os.sched_getaffinity(0))
    assert described["memory"]["total_bytes"] > 1 << 28
    assert "lo" in {interface["name"] for interface in described["network"]}
    assert described["software"]["python"] == ".".join(map(str, sys.version_info[:3]))
    assert described["software"]["libraries"]["dlbench"]
    # As a word: a short name such as `vm` is part of others.
    assert socket.gethostname() not in json.dumps(described).replace('"', " ").split()


def test_describing_loads_no_framework():
    code = (
        "import sys; from dlbench.records import machine; machine.describe()\n"
        "assert not {'tensorflow', 'keras', 'horovod', 'mpi4py', 'pandas', 'scipy'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


def test_nothing_private_is_described(monkeypatch):
    monkeypatch.setattr(variables.socket, "gethostname", lambda: "finch-042.lab.example")
    monkeypatch.setattr(variables, "_user", lambda: "jsmith")
    private = {
        "HOROVOD_GLOO_RENDEZVOUS_ADDR": "finch-001",
        "HOROVOD_HOSTNAME": "finch-001",
        "HOROVOD_SECRET_KEY": "opensesame",
        "HOROVOD_TIMELINE": "/scratch/timeline.json",
        "OMPI_MCA_btl_tcp_if_include": "10.21.3.0/24",
        "OMPI_MCA_oob_tcp_uri": "tcp://10.21.3.4:1",
        "OMPI_MCA_plm_rsh_agent": "ssh -i mykeyfile",
        "OMPI_MCA_some_peer": "finch-042",
        "OMPI_MCA_some_peers": "a,finch-042.lab.example:4",
        "OMPI_MCA_some_user": "user=jsmith",
        "OMPI_MCA_some_peer4": "192.168.77.5",
        "OMPI_MCA_some_peer6": "fe80::dead:beef:7",
        "NCCL_SESSION": "hx9Qm27bTzLw44PdYc81RkVn",
        "XLA_FLAGS": "--xla_dump_to=/home/jsmith/dump",
        "TF_CONFIG": '{"cluster": {"worker": ["finch-001:1"]}}',
        "AWS_SECRET_ACCESS_KEY": "opensesame",
        "DLBENCH_ASSIGNMENT": '{"token": "opensesame"}',
        "HOME": "/home/jsmith",
        "SLURM_JOB_NODELIST": "finch-[001-004]",
    }
    for name, value in private.items():
        monkeypatch.setenv(name, value)
    # No digest stands for a host or a user: these are few enough to be guessed from one.
    described = machine.describe()
    named = [name for name, value in private.items() if "finch" in value or "jsmith" in value or "192.168" in value]
    assert {described["environment"].get(name) for name in named} == {None}
    text = json.dumps(described)
    # The pieces of the values above, each of which would give something away.
    leaks = ("finch", "opensesame", "/scratch", "10.21", "mykeyfile", "jsmith", "192.168", "dead:beef", "hx9Qm27bTz")
    assert [leak for leak in leaks if leak in text] == []
    assert "AWS" not in text
    assert "SLURM" not in text
    assert str(Path(sys.prefix)) not in text


def test_what_has_another_form_is_not_read(tmp_path):
    path = tmp_path / "machine.json"
    path.write_text(json.dumps({"schema_version": 1, "cpu": 3, "memory": {}, "gpus": "x", "hosts": [{"cpu": {}}, 7]}))
    assert machine.read_machine(path) == {"schema_version": 1, "memory": {}, "hosts": [{"cpu": {}}]}


CPUINFO = """processor\t: 0
vendor_id\t: GenuineSprint
cpu family\t: 6
model\t\t: 143
stepping\t: 8
microcode\t: 0x2b0
model name\t: Sprinter 9000
flags\t\t: fpu avx avx2 hypervisor amx_bf16

processor\t: 1
model name\t: Other
"""


def test_a_processor(tmp_path):
    cpu = "sys/devices/system/cpu"
    files = {
        "proc/cpuinfo": CPUINFO,
        f"{cpu}/smt/active": "1",
        f"{cpu}/cpu0/cpufreq/scaling_governor": "performance",
        f"{cpu}/cpu0/cpufreq/cpuinfo_max_freq": "3700000",
        f"{cpu}/intel_pstate/no_turbo": "1",
        f"{cpu}/cpu0/cache/index0/level": "1",
        f"{cpu}/cpu0/cache/index0/type": "Data",
        f"{cpu}/cpu0/cache/index0/size": "48K",
        f"{cpu}/cpu0/cache/index3/level": "3",
        f"{cpu}/cpu0/cache/index3/type": "Unified",
        f"{cpu}/cpu0/cache/index3/size": "32768K",
        f"{cpu}/cpu0/cache/index3/shared_cpu_list": "0-3",
        "sys/devices/system/node/node0/cpulist": "0-1,4-5",
        "sys/devices/system/node/node1/cpulist": "2-3,6-7",
    }
    for number in range(8):
        files[f"{cpu}/cpu{number}/topology/physical_package_id"] = str(number % 4 // 2)
    found = hardware.describe_cpu(tree(tmp_path, files))
    assert found["name"] == f"{found['model']} (family 6 model 143)" == "Sprinter 9000 (family 6 model 143)"
    numbers = ("vendor", "family", "model_number", "stepping", "microcode")
    assert [found[name] for name in numbers] == ["GenuineSprint", "6", "143", "8", "0x2b0"]
    assert found["flags"] == ["avx", "avx2", "amx_bf16"]
    assert (found["sockets"], found["smt"], found["boost"]) == (2, True, False)
    assert found["caches"] == {"L1d": "48K", "L3": "32768K"}
    assert found["caches_shared_by"] == {"L1d": "", "L3": "0-3"}
    assert found["numa"] == {"node0": "0-1,4-5", "node1": "2-3,6-7"}
    assert (found["governor"], found["max_mhz"]) == ("performance", 3700.0)


def test_what_the_kernel_does_not_show_is_unknown_and_no_error(tmp_path):
    cpu = hardware.describe_cpu(tmp_path)
    assert (cpu["model"], cpu["sockets"], cpu["smt"], cpu["boost"], cpu["governor"]) == ("", None, None, None, None)
    assert hardware.describe_memory(tmp_path)["transparent_hugepages"] is None
    assert hardware.describe_virtualisation(tmp_path)["virtual_machine"] is False


def test_interfaces_have_no_address_and_no_speed_that_is_unknown(monkeypatch):
    found = {
        "wlan0": types.SimpleNamespace(isup=False, speed=0, mtu=1500),
        "eth0": types.SimpleNamespace(isup=True, speed=25000, mtu=9000),
        "veth12ab": types.SimpleNamespace(isup=True, speed=10000, mtu=1500),
    }
    monkeypatch.setattr(psutil, "net_if_stats", lambda: found)
    assert hardware.describe_network() == [
        {"name": "eth0", "state": "up", "speed_mbit_per_s": 25000, "mtu_bytes": 9000},
        {"name": "wlan0", "state": "down", "speed_mbit_per_s": None, "mtu_bytes": 1500},
    ]


def test_what_is_between_us_and_the_hardware(tmp_path, monkeypatch):
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    files = {"proc/cpuinfo": CPUINFO, "sys/class/dmi/id/sys_vendor": "QEMU", "run/.containerenv": ""}
    found = hardware.describe_virtualisation(tree(tmp_path, files))
    assert (found["virtual_machine"], found["vendor"], found["container"]) == (True, "QEMU", "podman")
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "10.0.0.1")
    assert hardware.describe_virtualisation(tmp_path)["container"] == "kubernetes"


def test_the_commit():
    for status, commit, is_dirty in (
        ("# branch.oid abc123\n# branch.head main\n", "abc123", False),
        ("# branch.oid abc123\n1 .M N... 100644 100644 x dlbench/api.py\n", "abc123", True),
        ("# branch.oid abc123\n? dlbench/new.py\n", "abc123", True),
        ("", None, None),
    ):
        assert software.commit(status) == {"commit": commit, "dirty": is_dirty}


def test_the_environments_own_mpirun_comes_first(monkeypatch, tmp_path):
    monkeypatch.setattr(software.sys, "executable", str(tmp_path / "env/bin/python"))
    monkeypatch.setenv("PATH", str(tmp_path / "usr/bin"))
    assert software.mpirun_path() is None
    for name in ("usr/bin/mpirun", "env/bin/mpirun"):
        tree(tmp_path, {name: "#!/bin/sh\n"}).joinpath(name).chmod(0o755)
        assert software.mpirun_path() == tmp_path / name


def test_a_program_that_hangs_or_fails_is_unknown_and_leaves_nothing_running():
    for argv in (("sleep", "30.123"), ("false",), ("/absent/program",)):
        assert mpi.printed(argv, 0.05) == "", argv
    assert ["sleep", "30.123"] not in [process.cmdline() for process in psutil.Process().children()]


def test_gpus_have_their_name_and_no_serial_number(monkeypatch):
    class NVMLError(Exception):
        pass

    # Whoever asks for a serial number or a UUID finds no such function.
    answers = {
        "nvmlInit": None, "nvmlShutdown": None, "nvmlDeviceGetCount": 1, "nvmlDeviceGetHandleByIndex": "gpu",
        "nvmlSystemGetDriverVersion": "575.51", "nvmlDeviceGetName": "T4", "nvmlDeviceGetMaxClockInfo": 1590,
        "nvmlDeviceGetMemoryInfo": types.SimpleNamespace(total=16 << 30), "nvmlDeviceGetEnforcedPowerLimit": 70_000,
        "nvmlDeviceGetMaxPcieLinkGeneration": 3,
    }  # fmt: skip
    library = types.SimpleNamespace(NVMLError=NVMLError, NVML_CLOCK_SM=1)
    for name, answer in answers.items():
        setattr(library, name, Mock(return_value=answer))
    library.nvmlDeviceGetMigMode = Mock(side_effect=NVMLError)
    monkeypatch.setitem(sys.modules, "pynvml", library)
    assert gpus.describe_gpus() == [
        {"name": "T4", "memory_bytes": 16 << 30, "power_limit_w": 70.0, "max_sm_clock_mhz": 1590,
         "pcie_generation": 3, "mig": None, "driver": "575.51"}
    ]  # fmt: skip
    assert library.nvmlInit.call_count == library.nvmlShutdown.call_count == 1
    monkeypatch.setitem(sys.modules, "pynvml", None)
    assert gpus.describe_gpus() == []


def test_noise_of_this_machine():
    before, after = noise.noise(0.02), noise.noise(0.02)
    cores = {str(core) for core in os.sched_getaffinity(0)}
    assert min(before["spin_best_per_s"], *before["spin_best_per_s_by_core"].values()) > 10_000
    assert (before["spin_slowdown"] >= 1, before["spin_longest_s"] > 0) == (True, True)
    assert after["cpu_capacity_s"] >= before["cpu_capacity_s"]
    assert set(before["spin_best_per_s_by_core"]) == set(before["spin_share_by_core"]) == cores
    assert all(0 < share <= 1.01 for share in before["spin_share_by_core"].values())
    assert json.dumps(before)


def test_cores_are_visited_in_turn_each_once_however_short_the_time_and_may_be_taken_away(monkeypatch):
    affinities = []

    def taken_away(_, cores):
        if len(cores) == 1:
            raise OSError(22, "Invalid argument")

    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {2, 5, 7})
    monkeypatch.setattr(os, "sched_setaffinity", lambda _, cores: affinities.append(sorted(cores)))
    assert list(noise.noise(0.0)["spin_share_by_core"]) == ["2", "5", "7"]
    assert affinities == [[2], [5], [7], [2, 5, 7]]
    monkeypatch.setattr(os, "sched_setaffinity", taken_away)
    found = noise.noise(0.01)
    assert found["spin_best_per_s"] > 10_000
    assert found["spin_best_per_s_by_core"] == {}


def changed(machine_json, *changes):
    """Return a description with other facts: (value, key, key within it, ...) each."""
    other = copy.deepcopy(machine_json)
    for value, *keys, last in changes:
        place = other
        for key in keys:
            place = place[key]
        place[last] = value
    return other


@pytest.fixture(scope="module")
def epyc(described):
    return changed(
        described,
        ("EPYC", "cpu", "model"),
        ("25", "cpu", "family"),
        ("17", "cpu", "model_number"),
        ("1", "cpu", "stepping"),
        (["avx2"], "cpu", "flags"),
        (8, "cpu", "usable_cpus"),
        (16 << 30, "memory", "total_bytes"),
        (None, "limits", "cpu_cores"),
        ([], "gpus"),
        ("3.14.0", "software", "python"),
        (None, "software", "libraries", "torch"),
    )


T4 = {"name": "T4", "memory_bytes": 16 << 30, "driver": "575"}
# Changes of a description, and the lines that say how the machine is another one.
CHANGES = [
    ([], []),
    ([("Sprinter 9000", "cpu", "model")], ["CPU model: was EPYC, is Sprinter 9000"]),
    ([(4711, "cpu", "usable_cpus")], ["usable CPUs: was 8, is 4711"]),
    ([(0.5, "limits", "cpu_cores")], ["CPU limit: was none, is 0.5"]),
    ([("3.99.0", "software", "python")], ["Python: was 3.14.0, is 3.99.0"]),
    ([("2.13", "software", "libraries", "torch")], ["version of torch: was none, is 2.13"]),
    ([("1", "cpu", "model_number")], ["CPU family, model, stepping: was 25 17 1, is 25 1 1"]),
    ([(["avx2", "avx512f"], "cpu", "flags")], ["instruction sets: was avx2, is avx2, avx512f"]),
    ([([T4], "gpus")], ["GPUs: was none, is T4 (16.0 GiB, driver 575)"]),
    ([(8 << 30, "memory", "total_bytes")], ["memory: was 16.0 GiB, is 8.0 GiB"]),
    # Memory is compared by its class, and an mpirun may not have answered.
    ([(int(15.7 * 2**30), "memory", "total_bytes"), (None, "software", "mpi")], []),
    # What does not decide about speed.
    ([("9.9", "software", "libraries", "pandas"), ("another", "software", "dlbench", "commit")], []),
    ([({"OMP_NUM_THREADS": "7"}, "environment"), ([], "network")], []),
]


def test_a_difference_is_a_line_of_words(epyc, subtests):
    for changes, lines in CHANGES:
        with subtests.test(changes=changes):
            assert machine.differences(epyc, json.loads(json.dumps(changed(epyc, *changes)))) == lines
    for damaged in ({}, {"cpu": None, "gpus": [None]}, {"software": {"libraries": []}}):
        with subtests.test(damaged=damaged):
            assert "CPU model: was none, is EPYC" in machine.differences(damaged, epyc)
