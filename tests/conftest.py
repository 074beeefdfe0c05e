"""What all tests share: a world of their own, and no silent skips where everything must run."""

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest


@pytest.fixture(scope="session", autouse=True)
def own_world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Keep caches and settings of the person who runs the tests out of them, and the tests out of theirs."""
    home = tmp_path_factory.mktemp("home")
    patch = pytest.MonkeyPatch()
    for name in [name for name in os.environ if name.startswith(("DLBENCH_", "OMPI_", "PMIX_", "PRTE_", "SLURM_"))]:
        patch.delenv(name)
    patch.setenv("DLBENCH_CACHE", str(home / "cache"))
    patch.setenv("KERAS_HOME", str(home / "keras"))
    yield
    patch.undo()


def pytest_configure(config: pytest.Config) -> None:
    """Heed Ctrl-C even where a shell started the tests in the background, which has programs ignore it for good."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Iterator[None]:
    """Turn a skip into a failure where CI is set: there everything is installed and nothing may go untested."""
    outcome = yield
    report = outcome.get_result()  # type: ignore[attr-defined]
    if report.skipped and os.environ.get("CI") and not hasattr(report, "wasxfail"):
        report.outcome = "failed"
        report.longrepr = f"skipped in CI: {report.longrepr}"


@pytest.fixture
def root() -> Path:
    """Return the folder of the project."""
    return Path(__file__).parent.parent
