"""Every command that writes replaces regular files and makes new ones; it follows no link and replaces nothing else."""

import os
import shutil
import socket
import stat
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner

from dlbench.cli import USAGE, group

FIXTURE = Path(__file__).parents[1] / "fixtures" / "study-v3"
PUBLISHED = Path(__file__).parents[2] / "results" / "dividing"
KEPT = "not dlbench's\n"
# A file or folder of each exporter, and whether it is a folder.
EXPORTED = {
    "json": ("export.json", False),
    "junit": ("junit.xml", False),
    "parquet": ("runs.parquet", False),
    "tensorboard": ("*/mlp-*", True),
    "mlperf": ("*/results/mlp-*", True),
    "mlflow": ("mlflow.db", False),
    "wandb": ("wandb", True),
}


def pipe(path: Path) -> None:
    os.mkfifo(path)


def bound_socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(path))


def device(path: Path) -> None:
    """Make a node of its own: no test writes to those of the machine."""
    if os.geteuid() != 0:
        pytest.skip("making a device needs root")
    os.mknod(path, stat.S_IFCHR | 0o600, os.makedev(1, 3))


def link(path: Path) -> None:
    path.symlink_to(path.parent / "kept")


def dangling_link(path: Path) -> None:
    path.symlink_to(path.parent / "absent")


KINDS: tuple[Callable[[Path], None], ...] = (pipe, bound_socket, device, link, dangling_link, Path.mkdir)


def refused(arguments: list[str], place: Path) -> None:
    done = CliRunner().invoke(group, arguments)
    assert done.exit_code == USAGE, (arguments, done.output, done.exception)
    assert str(place) in done.stderr
    assert "dlbench writes only" in done.stderr


@pytest.mark.parametrize("kind", KINDS)
def test_no_command_replaces_what_is_no_file(
    kind: Callable[[Path], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    completion = tmp_path / "zsh" / "site-functions" / "_dlbench"
    report = tmp_path / "report" / "training_time.csv"
    init = ["init", "--force", "--data", "digits", "--compare", "batch_size"]
    commands = {tmp_path / "s.yaml": [*init, str(tmp_path / "s.yaml")], completion: ["completion", "zsh", "--install"]}
    if kind is link:  # one function refuses all kinds, and these commands compute for seconds
        out = tmp_path / "out.csv"
        commands[out] = ["compare", str(FIXTURE), str(PUBLISHED), "--output", str(out)]
        commands[report] = ["report", str(FIXTURE), "--figure", "training_time", "--output", str(report.parent)]
    for place, arguments in commands.items():
        place.parent.mkdir(parents=True, exist_ok=True)
        (place.parent / "kept").write_text(KEPT)
        kind(place)
        before = place.lstat()
        refused(arguments, place)
        after = place.lstat()
        assert (after.st_ino, after.st_mode) == (before.st_ino, before.st_mode), arguments
        assert (place.parent / "kept").read_text() == KEPT
        assert not (place.parent / "absent").exists()


@pytest.mark.parametrize("form", EXPORTED)
def test_no_export_and_no_report_goes_through_a_link(form: str, tmp_path: Path) -> None:
    pattern, is_folder = EXPORTED[form]
    victim = tmp_path / "victim"
    output = tmp_path / "out"
    arguments = ["export", str(FIXTURE), "--to", form, "--output", str(output)]
    if "*" in pattern:
        assert CliRunner().invoke(group, arguments).exit_code == 0
        place = next(output.glob(pattern))
        shutil.rmtree(place)
    else:
        place = output / pattern
        output.mkdir()
    victim.mkdir() if is_folder else victim.write_text(KEPT)
    place.symlink_to(victim)
    refused(arguments, place)
    assert place.is_symlink()
    assert not list(victim.iterdir()) if is_folder else victim.read_text() == KEPT


def test_a_folder_that_is_a_link_is_refused_and_one_above_it_is_not(tmp_path: Path) -> None:
    (tmp_path / "disk").mkdir()
    place = tmp_path / "home"
    place.symlink_to("disk")
    for command in (["report", str(FIXTURE), "--figure", "training_time"], ["export", str(FIXTURE), "--to", "json"]):
        refused([*command, "--output", str(place)], place)
        assert not list((tmp_path / "disk").iterdir())
    for command in (["report", str(FIXTURE), "--figure", "training_time"], ["export", str(FIXTURE), "--to", "json"]):
        done = CliRunner().invoke(group, [*command, "--output", str(place / "below" / command[0])])
        assert done.exit_code == 0, done.output
    assert (tmp_path / "disk" / "below" / "export" / "export.json").is_file()


def test_a_file_that_is_no_database_of_mlflow_is_kept(tmp_path: Path) -> None:
    (tmp_path / "mlflow.db").write_text(KEPT)
    done = CliRunner().invoke(group, ["export", str(FIXTURE), "--to", "mlflow", "--output", str(tmp_path)])
    assert (done.exit_code, (tmp_path / "mlflow.db").read_text()) == (USAGE, KEPT)
