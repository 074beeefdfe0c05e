"""Texts of other people's studies, logs and names steer no terminal, whatever command prints them."""

import contextlib
import csv
import json
import os
import pty
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from dlbench.cli import group
from dlbench.cli.live import LiveTable
from dlbench.cli.tables import console
from dlbench.records.outcome import Outcome, Status
from dlbench.scenario.cluster import this_machine
from dlbench.scenario.expand.runs import expand
from dlbench.scenario.read.scenario_file import parse
from dlbench.study.budget import Durations

FIXTURE = Path(__file__).parents[1] / "fixtures" / "study-v3"
# Clears the screen and sets the title, in seven and in eight bits; turns a line round.
HOSTILE = "x\x1b[2J\x1b]0;t\x07\x9b2J\u202ey"
STEERING = "\x1b\x07\x9b\u202e"


@pytest.fixture(scope="module")
def parent(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("parent") / HOSTILE


@pytest.fixture(scope="module")
def study(parent: Path) -> Path:
    """Return a study with such texts in cells, a header, its record, a log and the names of its folders."""
    path = Path(shutil.copytree(FIXTURE, parent / HOSTILE))
    with (path / "runs.csv").open(encoding="utf-8", newline="") as file:
        header, *rows = csv.reader(file)
    for row in rows:
        for name in ("label", "reason", "device_name", "model", "study", "scenario"):
            row[header.index(name)] += HOSTILE
    with (path / "runs.csv").open("w", encoding="utf-8", newline="") as file:
        rows = [[*row, str(number)] for number, row in enumerate(rows)]
        csv.writer(file).writerows([[*header, f"model.{HOSTILE}"], *rows])
    run = rows[0][header.index("run_id")]
    record = (path / "study.json").read_text(encoding="utf-8")
    (path / "study.json").write_text(record.replace('"label":"', f'"label":"{json.dumps(HOSTILE)[1:-1]}'))
    attempt = path / "runs" / run / "1"
    attempt.mkdir(parents=True)
    (attempt / "launcher.log").write_text(f"{HOSTILE}\n", encoding="utf-8")
    return path


def commands(study: Path, folder: Path) -> dict[str, tuple[list[str], int]]:
    """Return commands that print texts of a study or names that are given, and their exit codes."""
    (folder / "s.yaml").write_text(
        "base: {dataset: digits, model: softmax, trainer: numpy}\nmatrix: {batch_size: [64]}"
    )
    (run,) = (path.name for path in (study / "runs").iterdir())
    mine, odd = str(study), HOSTILE
    base = shutil.copytree(study, folder / f"base {odd}")
    rows = (base / "runs.csv").read_text(encoding="utf-8")
    (base / "runs.csv").write_text(re.sub(r",\d{4}(-\d\d-\d\dT)", r",2001\1", rows), encoding="utf-8")
    compare = ["compare", str(base), mine, "--format"]
    return {
        "show": (["show", mine], 0),
        "show as JSON": (["show", mine, "--json"], 0),
        "list studies": (["list", "studies", "--studies", str(study.parent)], 0),
        "logs": (["logs", run, "--study", mine], 0),
        "report": (["report", mine, "--figure", "training-time", "--format", "svg"], 0),
        "export": (["export", mine, "--to", "json"], 0),
        "compare as text": ([*compare, "text"], 0),
        "compare as Markdown": ([*compare, "markdown"], 0),
        "compare as CSV": ([*compare, "csv"], 0),
        "compare as JUnit": ([*compare, "junit"], 0),
        "check": (["check", str(folder / "s.yaml"), "--studies", odd, "--hosts", f"{odd}:2"], 2),
        "dry run": (["run", str(folder / "s.yaml"), "--dry-run", "--output", str(folder / odd)], 0),
        "doctor": (["doctor", "--hosts", f"{odd}:a"], 2),
        "fit": (["fit", odd], 2),
        "init": (["init", str(folder / odd), "--data", "digits", "--compare", "batch_size"], 0),
        "a name that nobody has": (["show", odd], 2),
        "an option that there is not": ([f"--{odd}"], 2),
        "a command that there is not": ([odd], 2),
    }  # fmt: skip


def on_a_terminal(arguments: list[str]) -> str:
    """Return what dlbench writes to a terminal."""
    master, slave = pty.openpty()
    parts = []
    with subprocess.Popen([sys.executable, "-m", "dlbench", *arguments], stdout=slave, stderr=slave):
        os.close(slave)
        with contextlib.suppress(OSError):  # the other end is closed
            while part := os.read(master, 1 << 16):
                parts.append(part)
    os.close(master)
    return b"".join(parts).decode()


def test_no_command_sends_control_characters(study: Path, tmp_path: Path) -> None:
    for name, (arguments, code) in commands(study, tmp_path).items():
        done = CliRunner().invoke(group, arguments)
        assert done.exit_code == code, f"{name}: {done.output}"
        # click takes sequences of seven bits out where no terminal reads.
        assert done.output, name
        assert not set(STEERING) & set(done.output), name
        if "JSON" in name:
            assert json.loads(done.stdout)["study"] == str(study)


def test_a_terminal_gets_the_sequences_of_dlbench_alone(study: Path) -> None:
    for arguments in (["show", str(study)], ["list", "studies", "--studies", str(study.parent)]):
        text = on_a_terminal(arguments)
        assert "\\x1b[2J" in text.replace("\r\n", ""), text
        assert not [left for left in ("\x1b[2J", "\x1b]", "\x9b", "\u202e") if left in text]


def test_the_live_table_keeps_names_and_reasons_plain(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    text = "base: {dataset: digits, model: softmax, trainer: numpy}\nmatrix: {batch_size: [64]}"
    run, *_ = expand(parse(text, "s.yaml"), this_machine(), {})
    run = run.model_copy(update={"label": HOSTILE})
    with LiveTable(console()) as table:
        table.begin(Path(HOSTILE), [run], 0, Durations())
        table.start(run, 1)
        table.say(HOSTILE)
        table.end(run, Outcome(status=Status.FAILED, reason="bad"), {"samples_per_s": None})
    shown = capsys.readouterr().out
    assert shown.count("x\\x1b[2J\\x1b]0;t\\u009b2J\\u202ey") >= 3
    assert not [left for left in ("\x1b[2J", "\x1b]", "\x9b", "\u202e") if left in shown]
