import os
from pathlib import Path

import pytest

from dlbench.errors import UserError
from dlbench.scenario.cluster import Cluster, Host, Prices
from dlbench.scenario.cluster.cluster_file import ClusterOptions, parse, read
from dlbench.scenario.cluster.host_list import parse_hosts
from dlbench.scenario.settings import Settings
from dlbench.scenario.source import CLUSTER_KEYS

WHOLE = """\
hosts:
  - {address: a, slots: 4, cores: 0-3}
  - address: b
    slots: 2
    cores: [7, 4-5]
launcher: mpirun
submitter: direct
ssh: ssh -F "my config"
interface: 10.1.0.0/16
environment: {NCCL_DEBUG: INFO, NCCL_IB_DISABLE: 1}
prices: {currency: EUR, host_hour: 2.5, worker_hour: 1}
emulated: [throttled-link]
"""


def test_all_that_a_cluster_file_says(tmp_path: Path) -> None:
    path = tmp_path / "cluster.yaml"
    path.write_text(WHOLE)
    assert read(path) == Cluster(
        hosts=(Host(address="a", slots=4, cores=(0, 1, 2, 3)), Host(address="b", slots=2, cores=(7, 4, 5))),
        launcher="mpirun",
        ssh='ssh -F "my config"',
        interface="10.1.0.0/16",
        environment={"NCCL_DEBUG": "INFO", "NCCL_IB_DISABLE": "1"},
        prices=Prices(currency="EUR", host_hour=2.5, worker_hour=1),
        emulated=("throttled-link",),
    )


def test_hosts_as_on_the_command_line() -> None:
    assert parse("hosts: a:4,b:4", "cluster.yaml") == parse_hosts("a:4,b:4")


def test_this_machine_has_its_cores_unless_fewer_are_said() -> None:
    usable = tuple(sorted(os.sched_getaffinity(0)))
    (host,) = parse("hosts: [{address: localhost, slots: 3}]", "cluster.yaml").hosts
    assert (host.slots, host.cores) == (3, usable)
    (host,) = parse(f"hosts: [{{address: localhost, slots: 1, cores: {usable[-1]}}}]", "cluster.yaml").hosts
    assert host.cores == usable[-1:]


def test_keys_of_a_cluster_file_are_known_in_a_scenario() -> None:
    assert set(CLUSTER_KEYS) == Cluster.model_fields.keys() - Settings.model_fields.keys() - {"options", "links"}


def test_what_is_wrong_is_said_with_its_line(subtests: pytest.Subtests) -> None:
    for text, said in [
        ("", "cluster.yaml: a cluster is a mapping with `hosts`, not None"),
        ("launcher: mpirun", "cluster.yaml:1: hosts must be a list of hosts"),
        ("hosts: a", "cluster.yaml:1: hosts: 'a': 'a' has no number of slots"),
        ("hosts:\n  - a", "cluster.yaml:2: 'a' is not a host"),
        ("hosts:\n  - {address: a}", r"cluster.yaml:2: hosts\[0\].slots is missing"),
        ("hosts: [{address: a b, slots: 1}]", "'a b' is not an address"),
        ("hosts:\n  - {address: a, slots: 0}", "cluster.yaml:2: .*slots must be greater than or equal to 1"),
        ("hosts: [{address: a, slots: 1, core: 1}]", "unknown key 'core'\n  hint: did you mean 'cores'"),
        ("hosts: [{address: a, slots: 1, machine: 1}]", "unknown key 'machine'"),
        ("hosts: [{address: a, slots: 1, cores: 3-1}]", r"hosts\[0\].cores are written as 0-3,8, not '3-1'"),
        ("hosts: [{address: a, slots: 1, cores: '0-2,1'}]", "'0-2,1' names one twice"),
        ("hosts: [{address: a, slots: 1, cores: []}, {address: a, slots: 1}]", "a is named twice: .*: a:2"),
        ("hosts: [{address: localhost, slots: 1}, {address: 127.0.0.1, slots: 1}]", "same host: .*: localhost:2"),
        ("hosts: [{address: localhost, slots: 1, cores: 4711}]", "cluster.yaml:1: this machine has no core 4711"),
        ("hosts: {count: 2, slots: 4}", "hosts are counted where a queue gives them"),
        ("hosts: {nodes: 2, slots: 4}\nsubmitter: sbatch", "unknown key 'nodes'\n  hint: there are: count"),
        ("hosts: {a: 4, b: 4}", "hosts must be a list of hosts, .* such as a:4,b:4"),
        ("hosts: a:1\noptions: {}", "unknown key 'options'"),
        ("hosts: a:1\nlauncher: mpirum", "cluster.yaml:2: .*mpirum"),
        ("hosts: a:1\nsubmitter.queue: x", "cluster.yaml:2: unknown key .*did you mean 'submitter'"),
        ("hosts: a:1\nssh: ssh 'x", "ssh cannot be split into words"),
        ("hosts: a:1\ninterface: eth0 eth1", "interface is the name of a network interface"),
        ("hosts: a:1\ninterface: 10.1.2.3/16", "10.1.2.3/16 has host bits set"),
        ("hosts: a:1\nenvironment: {A-B: x}", "'A-B' is not a variable"),
        ("hosts: a:1\nenvironment: {DLBENCH_ASSIGNMENT: x}", "is not a variable that can be set"),
        ("hosts: a:1\nenvironment: {A: true}", "environment.A must be text"),
        ("hosts: a:1\nprices: {host_hour: 1, speed: 1}", "unknown key 'speed'"),
        ("hosts: a:1\nprices: {host_hour: 1}", "prices.currency is missing"),
        ("hosts: a:1\nprices: {currency: USD, host_hour: -1}", "greater than or equal to 0"),
        ("hosts: a:1\nemulated: [slow]", "emulated.*must be 'throttled-link'"),
    ]:
        with subtests.test(text=text), pytest.raises(UserError, match=f"(?s){said}"):
            parse(text, "cluster.yaml")


def test_one_place_says_where_to_measure(tmp_path: Path) -> None:
    path = tmp_path / "cluster.yaml"
    path.write_text("hosts: a:4")
    assert ClusterOptions(cluster=path).named() == ClusterOptions(hosts="a:4").named()
    assert ClusterOptions().named() is None
    assert ClusterOptions().words() == ()
    assert ClusterOptions("a:4").words() == ("--hosts", "a:4")
    assert ClusterOptions(hostfile=Path("jos\udce9")).words() == ()
    # A command that is printed may be called from another folder.
    assert ClusterOptions(cluster=Path(os.path.relpath(path))).words()[1].startswith("/")
    with pytest.raises(UserError, match="--hosts and --cluster both say where to measure"):
        ClusterOptions(hosts="a:1", cluster=path).named()
    with pytest.raises(UserError, match="--hosts and --hostfile and --cluster all say where to measure"):
        ClusterOptions("a:1", path, path).named()


def test_a_file_that_another_option_reads_is_named_with_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("job.yaml").write_text("apiVersion: kubeflow.org/v2beta1\nkind: MPIJob\n")
    Path("jobs.yaml").write_text("---\napiVersion: v1\n---\napiVersion: kubeflow.org/v2beta1\nkind: MPIJob\n")
    Path("c2.yaml").write_text("hosts: a:2\n")
    Path("nodes").write_text("a slots=2\nb slots=2\n")
    for options, hint in (
        (ClusterOptions(hosts="c2.yaml"), "--cluster c2.yaml or"),
        (ClusterOptions(hosts="./nodes"), "--hostfile ./nodes"),
        (ClusterOptions(hostfile=Path("c2.yaml")), "--cluster FILE"),
        (ClusterOptions(cluster=Path("nodes")), "--hostfile nodes"),
        (ClusterOptions(hostfile=Path("job.yaml")), "`submitter: kubernetes`"),
        (ClusterOptions(cluster=Path("job.yaml")), "`submitter: kubernetes`"),
        (ClusterOptions(hostfile=Path("jobs.yaml")), "`submitter: kubernetes`"),
        (ClusterOptions(cluster=Path("jobs.yaml")), "`submitter: kubernetes`"),
        (ClusterOptions(hosts="a"), "a:1"),
    ):
        with pytest.raises(UserError) as caught:
            options.named()
        assert hint in caught.value.hint, options
