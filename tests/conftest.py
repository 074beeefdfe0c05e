"""What all tests share: a home of their own, and their times for the summary."""

import os
import signal
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from xdist.remote import Producer
from xdist.scheduler import LoadFileScheduling

# The processor's seconds so far: see `cpu_s`.
COUNTED = {"cpu_s": 0.0}
# On hosts of their own tests mostly wait: one process takes all these files, in this order, while others compute.
ON_HOSTS = [
    f"test_{name}.py"
    for name in (
        "sbatch",
        "faults_on_hosts",
        "several_hosts",
        "hosts_without_shared_files",
        "cluster_of_hosts",
        "links",
        "doctor",
    )
]
# TensorFlow and Keras take five seconds to import: one process imports them for all files that train in it.
IN_TENSORFLOW = [
    f"test_{name}.py"
    for name in (
        "keras_models",
        "keras_engine",
        "keras_trainer",
        "keras_callback",
        "trainers_agree",
        "batch_norm",
        "keras_cost",
    )
]
TOGETHER = {"on hosts": ON_HOSTS, "in TensorFlow": IN_TENSORFLOW}
# Files that take some minute on one core come first: processes that share the tests then end at the same time.
LONGEST = [*ON_HOSTS, *IN_TENSORFLOW] + [
    f"test_{name}.py"
    for name in (
        "node_runs",
        "docs",
        "horovod",
        "replica_runs",
        "faults",
        "checkpoints",
        "tune",
        "horovod_runs",
        "report_command",
        "mpich",
        "kubernetes",
        "fit",
        "nodes_over_mpi",
        "ray",
        "killed_dlbench",
        "mirrored_rules",
    )
]


@pytest.fixture(scope="session", autouse=True)
def own_world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Keep the user's caches and settings out of the tests, and what tests and libraries leave behind out of /tmp."""
    home = tmp_path_factory.mktemp("home")
    patch = pytest.MonkeyPatch()
    for name in [name for name in os.environ if name.startswith(("DLBENCH_", "OMPI_", "PMIX_", "PRTE_", "SLURM_"))]:
        patch.delenv(name)
    patch.setenv("DLBENCH_CACHE", str(home / "cache"))
    patch.setenv("KERAS_HOME", str(home / "keras"))
    # Not below pytest's own folder: sockets have short paths.
    with tempfile.TemporaryDirectory(prefix="tests-", ignore_cleanup_errors=True) as temporary:
        patch.setenv("TMPDIR", temporary)
        patch.setattr(tempfile, "tempdir", temporary)
        yield
        patch.undo()


def pytest_configure(config: pytest.Config) -> None:
    """Heed Ctrl-C and a closed terminal as usual where a background shell or `nohup` has signals ignored."""
    for number, usual in ((signal.SIGINT, signal.default_int_handler), (signal.SIGHUP, signal.SIG_DFL)):
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, usual)


class FilesTogether(LoadFileScheduling):
    """Give each file to one process, and all files of a list of `TOGETHER` to the same."""

    def _split_scope(self, nodeid: str) -> str:
        path: str = super()._split_scope(nodeid)
        name = path.rpartition("/")[2]
        return next((together for together, names in TOGETHER.items() if name in names), path)


def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> LoadFileScheduling | None:
    """Return the scheduler of `--dist loadfile`."""
    return FilesTogether(config, log) if config.getvalue("dist") == "loadfile" else None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put the longest files first; within a file tests keep their order."""
    rank = {name: number for number, name in enumerate(LONGEST)}
    items.sort(key=lambda item: rank.get(item.path.name, len(LONGEST)))
    cpu_s()  # what collecting took is of no test


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Iterator[None]:
    """Note the processor's seconds; turn a skip into a failure in CI: all is installed there, nothing goes untested."""
    outcome = yield
    report = outcome.get_result()  # type: ignore[attr-defined]
    report.user_properties = [("cpu_s", cpu_s())]
    if report.skipped and os.environ.get("CI") and not hasattr(report, "wasxfail"):
        report.outcome = "failed"
        report.longrepr = f"skipped in CI: {report.longrepr}"


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Append the times of each part of a test to the file that `make test` sums up."""
    path = os.environ.get("TEST_TIMES")
    if path and "PYTEST_XDIST_WORKER" not in os.environ:
        cpu = dict(report.user_properties)["cpu_s"]
        with Path(path).open("a", encoding="utf-8") as file:
            file.write(f"{report.duration:.2f}\t{cpu:.2f}\t{report.when}\t{report.nodeid}\n")


def cpu_s() -> float:
    """Return the processor's seconds of this process, and of those that it has waited for, since the last call."""
    before, COUNTED["cpu_s"] = COUNTED["cpu_s"], sum(os.times()[:4])
    return COUNTED["cpu_s"] - before


@pytest.fixture
def root() -> Path:
    """Return the folder of the project."""
    return Path(__file__).parent.parent
