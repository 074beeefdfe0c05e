"""`dlbench show`, `logs` and `list studies`: what a study holds, found again without a report."""

import json
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest
from click.testing import CliRunner

from dlbench.cli import group
from tests.functional.studies import Bench

GOOD = """\
base: {dataset: digits, model: softmax, trainer: numpy, epochs: 1}
matrix: {batch_size: [64, 128]}
repeats: 2
"""
BAD = """\
base: {command: python train.py}
matrix: {batch_size: [8, 16]}
"""


def dlbench(*arguments: str) -> str:
    done = CliRunner().invoke(group, arguments)
    assert "Traceback" not in done.stderr, done.stderr
    return done.output


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with two studies: one of runs that complete, then one whose runs fail."""
    path = tmp_path_factory.mktemp("shown")
    (path / "good.yaml").write_text(GOOD)
    (path / "bad.yaml").write_text(BAD)
    (path / "train.py").write_text("print('\\x1b[31mfrom the script')\nraise ValueError('no data')\n")
    for name, code in (("good", 0), ("bad", 1)):
        (path / f"{name}.out").write_text(Bench(path).call(f"{name}.yaml", "--set", "order=written", code=code))
        time.sleep(1.1)  # studies are named by the second
    return path


@pytest.fixture(autouse=True)
def here(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)


def newest(name: str) -> Path:
    return next(Path("studies").glob(f"{name}-*"))


def test_a_study_is_shown_as_its_run_ended(folder: Path) -> None:
    printed = (folder / "good.out").read_text()
    text = dlbench("show", str(newest("good")))
    assert text.startswith(f"study {newest('good')}: 4 of 4 runs have ended\n")
    assert printed.endswith(text.partition("\n")[2])
    assert printed.splitlines()[-1].startswith("  next    dlbench r")


def test_the_newest_is_the_default() -> None:
    assert dlbench("show").startswith(f"study {newest('bad')}: 2 of 2 runs have ended\n2 runs not completed:\n")


def test_a_published_study_needs_no_record() -> None:
    published = Path(__file__).parents[2] / "results" / "digits-batch-workers"
    text = dlbench("show", str(published))
    assert text.startswith("Results. Median [interval that covers")
    assert f"all doubts: dlbench report {published}\n" in text
    assert text.splitlines()[-1].startswith("  next    dlbench r")
    assert json.loads(dlbench("show", str(published), "--json"))["answers"]


def test_json_is_for_programs() -> None:
    found = json.loads(dlbench("show", str(newest("good")), "--json"))
    assert (found["runs"], found["completed"], found["failed"]) == (4, 4, {})
    assert [arm["completed"] for arm in found["arms"]] == [2, 2]
    assert all(arm["metrics"]["train_time_s"]["median"] > 0 for arm in found["arms"])
    (answer,) = found["answers"]
    assert {arm["word"] for arm in answer["arms"]} <= {"keeps", "loses", "open", "out"}
    assert json.loads(dlbench("recommend", str(newest("good")), "--json"))["answers"] == found["answers"]
    failed = json.loads(dlbench("show", "--json"))
    assert (failed["completed"], failed["arms"]) == (0, [])
    assert all("no data" in reason for reason in failed["failed"].values())


def test_a_study_that_is_running_recommends_nothing(tmp_path: Path) -> None:
    study = shutil.copytree(newest("good"), tmp_path / "half")
    record = json.loads((study / "study.json").read_text())
    last = record["runs"][-1]
    for outcome in (study / "runs").glob(f"*-r{last['repeat']}/1/outcome.json"):
        outcome.unlink()
    table = (study / "runs.csv").read_text().splitlines(keepends=True)
    (study / "runs.csv").write_text("".join(line for line in table if f"-r{last['repeat']}," not in line))
    text = dlbench("show", str(study))
    assert text.startswith(f"study {study}: 2 of 4 runs have ended\n")
    assert text.count("no outcome yet") == 2
    assert "still to be made: 2 runs of the study" in text
    assert text.splitlines()[-1].startswith(f"  next    dlbench run --study {study}  2 runs to be made")
    (answer,) = json.loads(dlbench("show", str(study), "--json"))["answers"]
    assert (answer["use"], answer["missing"]) == (None, 0), "of one repeat each nothing is recommended"
    assert CliRunner().invoke(group, ["recommend", str(study)]).exit_code == 4


def test_rows_that_were_lost_are_missed_and_the_command_that_writes_them_again_does(tmp_path: Path) -> None:
    study = shutil.copytree(newest("good"), tmp_path / "lost rows")
    table = study / "runs.csv"
    lines = table.read_text().splitlines(keepends=True)
    table.write_text("".join(lines[:-1]))
    remedy = f"dlbench run --study '{study}'"
    assert f"  ended without a row in runs.csv: 1; `{remedy}`" in dlbench("show", str(study))
    table.unlink()
    for arguments in ((), ("--json",)):
        done = CliRunner().invoke(group, ["show", str(study), *arguments])
        assert (done.exit_code, remedy in done.output) == (2, True), done.output
    dlbench("run", "--study", str(study))
    assert len(table.read_text().splitlines()) == len(lines)
    assert "without a row" not in dlbench("show", str(study))


def test_logs_are_those_of_a_run_named_by_a_part_of_its_name(folder: Path) -> None:
    text = dlbench("logs", "b8-")
    assert text.count("==> ") == 2
    assert "\nfrom the script" in text  # what is in a log steers no terminal
    assert "ValueError: no data" in text
    assert "==> " in dlbench("logs", "b8-", "--worker", "0", "--follow")
    assert dlbench("logs", "b8-", "--worker", "0", "--lines", "1").splitlines()[1:] == ["ValueError: no data"]
    printed = (folder / "bad.out").read_text()
    command = next(line for line in printed.splitlines() if "shown by: " in line).split("dlbench ")[1]
    assert "ValueError: no data" in dlbench(*command.split())


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["logs", "r0"], "2 runs of"),
        (["logs", "nothing"], "has no run 'nothing'"),
        (["logs", "b8-", "--attempt", "7"], "has no attempt 7; it has 1"),
        (["logs", "b8-", "--worker", "7"], "there is no log of worker 7"),
        (["show", "nowhere"], "nowhere is not a study"),
        (["show", "--studies", "."], "there is no study in ."),
    ],
)
def test_what_is_not_there_is_said(arguments: list[str], said: str) -> None:
    assert said in dlbench(*arguments)


def test_studies_are_listed_the_newest_first() -> None:
    lines = dlbench("list", "studies").splitlines()
    assert [line.split()[0] for line in lines[1:]] == [str(newest("bad")), str(newest("good"))]
    assert [line.split()[2:] for line in lines[1:]] == [["2", "0", "0"], ["4", "4", "0"]]
    assert len(dlbench("list", "studies", "good").splitlines()) == 2


def test_watching_shows_the_last_row_and_ends_with_the_study(tmp_path: Path) -> None:
    """A study that another dlbench runs is watched to its end; one whose dlbench was killed is left at once."""
    (tmp_path / "slow.yaml").write_text(GOOD.replace("64, 128", "64").replace("repeats: 2", "repeats: 1"))
    running = subprocess.Popen(
        [sys.executable, "-m", "dlbench", "run", "slow.yaml"], cwd=tmp_path,
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    try:
        deadline = time.monotonic() + 30
        while not list(tmp_path.glob("studies/slow-*/lock")) and time.monotonic() < deadline:
            time.sleep(0.02)
        (study,) = tmp_path.glob("studies/slow-*")
        text = dlbench("show", str(study), "--watch")
    finally:
        assert running.wait(60) == 0
    assert f"study {study}: 1 of 1 runs have ended\n" in text
    assert text.splitlines()[-1].startswith("  next    dlbench r")

    (study / "runs.csv").unlink()
    for outcome in study.glob("runs/*/1/outcome.json"):
        outcome.unlink()
    assert dlbench("show", str(study), "--watch").count("so running or killed") == 1


def test_a_published_study_with_its_record_has_ended(tmp_path: Path) -> None:
    published = shutil.copytree(Path(__file__).parents[1] / "fixtures" / "study-v3", tmp_path / "one" / "study")
    shutil.rmtree(published / "runs", ignore_errors=True)
    num_runs = len(json.loads((published / "study.json").read_text())["runs"])
    assert f": {num_runs} of {num_runs} runs have ended" in dlbench("show", str(published))
    line = dlbench("list", "studies", "--studies", str(tmp_path / "one")).splitlines()[1]
    assert line.split()[2:] == [str(num_runs), line.split()[3], "0"]


def test_logs_that_grow_name_their_file_again_and_keep_letters_whole(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from dlbench.cli.logs import _Printer

    first, second = tmp_path / "first.log", tmp_path / "second.log"
    printer = _Printer(2)
    letter = "한".encode()
    first.write_bytes(b"old\nkept\n\x1b[1mloss\x1b[0m\xc2\xa0" + letter[:2])
    printer.print(first)
    second.write_bytes(b"10%\r20%\r\nend\n")
    printer.print(second)
    first.write_bytes(first.read_bytes() + letter[2:] + b"\n")
    printer.print(second)
    printer.print(first)
    text = capsys.readouterr().out
    assert text == f"==> {first} <==\nkept\nloss\u00a0\n==> {second} <==\n20%\nend\n==> {first} <==\n한\n"
