import itertools
import json
import re
from pathlib import Path

import pytest
import xmlschema
from click.testing import CliRunner, Result

from dlbench.analysis.compare.comparison import NOISE
from dlbench.cli import USAGE, group
from dlbench.cli.compare import REGRESSION, command, read_ignored, read_share
from dlbench.errors import UserError
from dlbench.records.columns import names
from dlbench.records.tables import write_table
from tests.unit.analysis.made import arm, failed, measured, noisy, timed

XSD = Path(__file__).parents[2] / "fixtures" / "junit" / "JUnit.xsd"
MACHINE = {"cpu": {"model": "AMD EPYC"}, "software": {"python": "3.11.7"}}


INTERRUPTED = {"status": "interrupted"}


def study(folder: Path, rows: list[dict], machine: dict | None = MACHINE) -> Path:
    folder.mkdir()
    write_table(folder / "runs.csv", "runs", rows, sorted({key for row in rows for key in row} - set(names("runs"))))
    if machine is not None:
        (folder / "machine.json").write_text(json.dumps(machine))
    return folder


@pytest.fixture
def compared(tmp_path: Path):
    """Compare a base with a new study by `dlbench compare`."""
    counter = itertools.count()

    def run(new: list[dict], *options: str, base: list[dict] | None = None, machine: dict | None = MACHINE) -> Result:
        parent = tmp_path / str(next(counter))
        parent.mkdir()
        folders = study(parent / "base", base or measured("a", 9.0, 1)), study(parent / "new 학습", new, machine)
        return CliRunner().invoke(group, ["compare", *map(str, folders), *options])

    return run


@pytest.mark.parametrize(("seconds", "code"), [(11.0, REGRESSION), (10.0, 0)])
def test_a_gate_of_five_repeats_finds_one_arm_of_six_that_takes_10_percent_longer(compared, seconds, code):
    new, base = (
        [
            row
            for place, middle in enumerate((10.0, 10.0, third, 10.0, 10.0, 10.0))
            for row in timed(f"a{place}", middle, 5, seed + 7 * place, batch_size=8 * 2**place)
        ]
        for seed, third in ((200, seconds), (1, 10.0))
    )
    assert compared(new, "--fail-above", "5%", base=base).exit_code == code


def aimed(*seconds: float | None) -> list[dict]:
    return arm("a", {"time_to_target_s": seconds}, target_metric="validation_accuracy", target_value=0.9)


def scored(accuracies: list[float | None]) -> list[dict]:
    return arm("a", {"validation_accuracy": accuracies, "train_time_s": noisy(9.0, 5, 1)})


def broken(count: int, completed: int) -> list[dict]:
    rows = measured("a", 9.0, 2, count)
    return [row | {"status": "completed" if place < completed else "failed"} for place, row in enumerate(rows)]


def test_what_is_slower_is_told_and_fails_a_gate_above_its_share_or_where_an_arm_fails_now(compared):
    result = compared(measured("a", 10.5, 2))
    assert result.exit_code == 0
    assert result.stdout.startswith("new 학습 against base: 2 worse\n")
    for new, share, code, part, *base in (
        (measured("a", 10.5, 2), "5%", REGRESSION, "dlbench: label of a: train_time_s worse by 1"),
        (measured("a", 10.5, 2), "50%", 0, "no median is worse by more than 50%"),
        (scored(noisy(0.863, 5, 2, 0.001)), "5%", 0, "; 1 worse by less: label of a: validation_accuracy by 4.",
         scored(noisy(0.903, 5, 1, 0.001))),
        (scored([None] * 5), "5%", REGRESSION, "label of a: validation_accuracy in 0 of 5 runs, before 5 of 5",
         scored([0.9] * 5)),
        (scored([0.9] * 3 + [None] * 2), "5%", 0, "; label of a: validation_accuracy in 3 of 5 runs, before 5 of 5\n",
         scored([0.9] * 5)),
        (failed("a", 8), "90%", REGRESSION, "dlbench: label of a: now fails"),
        (broken(8, 3), "90%", REGRESSION, "dlbench: label of a: completed 3 of 8 runs, before 8 of 8"),
        (broken(5, 3), "90%", 0, "; label of a: completed 3 of 5 runs, before 5 of 5\n", broken(5, 5)),
        (measured("a", 9.0, 2), "5%", 0, "2 of 2 comparisons cannot be told; 1 arm of the base was not run\n",
         measured("a", 9.0, 1) + measured("b", 9.0, 1, batch_size=8)),
        ([*measured("a", 9.0, 2), measured("b", 9.0, 2, batch_size=8)[0] | INTERRUPTED], "5%", 0,
         "; 1 arm of the base was not run\n", measured("a", 9.0, 1) + measured("b", 9.0, 1, batch_size=8)),
        ([measured("a", 9.0, 2)[0] | INTERRUPTED], "5%", USAGE, "no run has ended: all were", measured("a", 9.0, 1)),
        # Its last attempt was interrupted, the one before had failed.
        ([row | change for row in broken(5, 0) for change in ({}, INTERRUPTED | {"attempt": 2})], "5%", REGRESSION,
         "label of a: now fails", broken(5, 5)),
        (aimed(9.0, 9.1, 9.2, None, None), "90%", 0, "; label of a: target reached in 3 of 5 runs, before 5 of 5\n",
         aimed(9.0, 9.1, 9.2, 9.3, 9.4)),
        (broken(5, 2), "5%", USAGE, "nothing can be significant; label of a: completed 2 of 5 runs, before 5 of 5\n",
         broken(5, 5)),
        (aimed(*[None] * 5), "90%", REGRESSION, "no longer reaches the target (0 of 5 runs, before 4 of 5)",
         aimed(*noisy(9.0, 4, 1), None)),
    ):  # fmt: skip
        result = compared(new, "--fail-above", share, base=base[0] if base else None)
        assert (result.exit_code, part in result.stderr) == (code, True), result.stderr


def test_studies_are_called_by_their_names_else_their_folders_else_their_paths(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for parent, name in (("one", "made-1"), ("two", "made-1"), ("three", "made-3")):
        Path(parent).mkdir()
        study(Path(parent, "s"), measured("a", 9.0, 1, study=name))
    for new, heading in (("three/s", "made-3 against made-1:"), ("two/s", "two/s against one/s:")):
        assert CliRunner().invoke(group, ["compare", "one/s", new]).stdout.startswith(heading)


@pytest.mark.parametrize(("new", "words"), [("base", "given twice"), ("copy", "base and copy share 8 runs")])
def test_a_study_is_not_compared_with_itself_or_its_copy(tmp_path, monkeypatch, new, words):
    monkeypatch.chdir(tmp_path)
    for name in ("base", "copy"):
        study(Path(name), measured("a", 9.0, 1, started_at="2026-11-24T06:31:33.177+00:00"))
    result = CliRunner().invoke(group, ["compare", "base", new, "--fail-above", "5%"])
    assert (result.exit_code, result.stdout, words in result.stderr) == (USAGE, "", True), result.stderr


def test_a_gate_of_few_repeats_says_how_little_they_show_or_is_refused(compared):
    for count, code, part in (
        (2, USAGE, "hint: run both studies with `--repeats 5` or more"),
        (3, 0, "with 3 repeats a gate finds little"),
        (8, 0, "no median is worse by more than 5%"),
    ):
        result = compared(measured("a", 10.0, 2, count), "--fail-above", "5%", base=measured("a", 10.0, 1, count))
        assert (result.exit_code, part in result.stderr) == (code, True), result.stderr
        assert ("a gate finds little" in result.stderr) is (count == 3)


def test_a_gate_needs_the_same_machine_and_versions_unless_they_are_ignored(compared):
    xeon, newer = {"cpu": {"model": "Xeon"}}, {"software": {"python": "3.12.1"}}
    for machine in (MACHINE | xeon, None):
        result = compared(measured("a", 9.0, 2), "--fail-above", "5%", machine=machine)
        assert result.exit_code == USAGE
        assert "--ignore machine\n" in result.stderr
        assert "new 학습 against base" in result.stdout
    result = compared(measured("a", 9.0, 2), "--fail-above", "5%", "--ignore", "machine", machine=MACHINE | newer)
    assert result.exit_code == USAGE
    assert "Python: was 3.11.7, is 3.12.1" in result.stderr
    assert "--ignore versions\n" in result.stderr
    ignored = ("--fail-above", "5%", "--ignore", "machine,versions")
    for options, machine in ((ignored, xeon | newer), ((), xeon)):  # without a gate it is a warning
        result = compared(measured("a", 9.0, 2), *options, machine=machine)
        assert result.exit_code == 0
        assert "machine: CPU model: was AMD EPYC, is Xeon" in result.stdout


def test_other_settings_are_refused_and_the_file_says_so(compared, tmp_path):
    file = tmp_path / "said.md"
    result = compared(measured("a", 9.0, 2, epochs=9), "--format", "markdown", "--output", str(file))
    assert result.exit_code == USAGE
    assert "epochs was 5, is 9" in result.stderr
    assert result.stdout == ""
    assert "not comparable" in file.read_text()
    base, new = (
        [row for n in range(1, 9) for row in measured(f"{name}{n}", 9.0, n, 2, label=f"l{n}", epochs=n + more)]
        for name, more in (("a", 0), ("b", 50))
    )
    assert "and 3 more" in compared(new, base=base).stderr


def test_forms(compared, tmp_path):
    file = tmp_path / "said"
    for form, begins in {"markdown": "**dlbench: ", "csv": "verdict,arm,metric,", "text": "new 학습"}.items():
        result = compared(measured("a", 9.0, 2), "--format", form, "--output", str(file))
        assert (result.exit_code, result.stdout) == (0, "")
        assert file.read_text().startswith(begins)


@pytest.fixture(scope="module")
def schema():
    return xmlschema.XMLSchema(str(XSD))


@pytest.fixture
def junit(compared, schema, tmp_path):
    """Compare with JUnit's form; return the exit code and the one suite of a document that follows the schema."""

    def run(new: list[dict], *options: str, **given) -> tuple[int, dict]:
        file = tmp_path / "said.xml"
        result = compared(new, "--format", "junit", "--output", str(file), *options, **given)
        schema.validate(str(file))
        (suite,) = schema.to_dict(str(file))["testsuite"]
        return result.exit_code, suite

    return run


@pytest.mark.parametrize(("share", "failing"), [("5%", 2), ("50%", 0), (None, 0)])
def test_junit_fails_where_the_gate_does(junit, share, failing):
    gate = ("--fail-above", share) if share else ()
    new = [*measured("a", 10.5, 2), *measured("b", 9.0, 4, batch_size=64), *measured("c", 9.0, 4, 2, batch_size=128)]
    base = [*measured("a", 9.0, 1), *measured("b", 9.0, 3, batch_size=64), *measured("c", 9.0, 3, 2, batch_size=128)]
    code, suite = junit(new, *gate, base=base)
    assert code == (REGRESSION if failing else 0)
    assert (suite["@tests"], suite["@failures"], suite["@errors"], suite["@skipped"]) == (6, failing, 0, 2)
    cases = {case["@name"]: case for case in suite["testcase"]}
    assert set(cases) == {f"label of {arm}: {name}" for arm in "abc" for name in ("train_time_s", "samples_per_s")}
    assert {name for name in cases if "skipped" in cases[name]} == {name for name in cases if "of c" in name}
    assert {name for name in cases if "failure" in cases[name]} == {
        name for name in cases if "of a" in name and failing
    }
    assert len(suite["system-out"].splitlines()) > len(cases)
    if failing:
        # By how much, the ratio with its interval, and the certainty in the family.
        words = r"worse by 1\d%: .* new / base 1\.1\d+ \[1\.\d+, 1\.\d+\]; p < 0\.001 .* 4 comparisons"
        assert re.search(words, cases["label of a: train_time_s"]["failure"]["@message"])


@pytest.mark.parametrize(
    ("new", "machine", "code", "failures", "errors"),
    [
        (failed("a", 8), MACHINE, REGRESSION, 1, 0),
        (measured("a", 10.5, 2, epochs=9), MACHINE, USAGE, 0, 1),
        (measured("a", 10.5, 2), {"cpu": {"model": "Xeon"}}, USAGE, 0, 1),
    ],
    ids=["fails now", "refused", "no verdict"],
)
def test_junit_of_what_fails_or_cannot_be_judged(junit, new, machine, code, failures, errors):
    exit_code, suite = junit(new, "--fail-above", "5%", machine=machine)
    assert (exit_code, suite["@failures"], suite["@errors"]) == (code, failures, errors)


def test_junit_of_hostile_labels_is_valid(junit):
    odd = {"label": "<b>\x1b[31m ]]> & 학습", "study": "<&>"}
    _, suite = junit(measured("a", 10.5, 2, **odd), base=measured("a", 9.0, 1, **odd))
    assert suite["@tests"] == 2


def test_junit_has_arms_that_fail_more_often_and_that_were_not_run(junit):
    base = [*measured("a", 9.0, 1), *measured("b", 9.0, 1, batch_size=8)]
    _, suite = junit([*broken(8, 3), *measured("c", 9.0, 1, batch_size=16)], "--fail-above", "5%", base=base)
    fails, not_run = (case for case in suite["testcase"] if case["@name"].endswith(": runs"))
    message = "label of a: fails more often; p 0.013 corrected over 1 comparison; runs: 8 in base, 3 of 8 in new"
    assert fails["failure"]["@message"] == message
    assert (not_run["@name"], "skipped" in not_run) == ("label of b: runs", True)


def test_what_cannot_be_read_written_or_understood_is_a_mistake_of_usage(compared, tmp_path):
    result = compared(measured("a", 9.0, 2), "--output", str(tmp_path / "no" / "folder"))
    assert result.exit_code == USAGE
    assert result.stderr.startswith(f"dlbench: {tmp_path}/no/folder: ")
    for options in (("--fail-above", "5"), ("--noise", "nan"), ("--ignore", "wether"), ("--format", "pdf")):
        assert compared(measured("a", 9.0, 2), *options).exit_code == USAGE, options
    result = CliRunner().invoke(group, ["compare", str(tmp_path / "no"), str(tmp_path / "where")])
    assert result.exit_code == USAGE
    assert "is not a study folder" in result.stderr


def test_the_noise_is_a_share(compared):
    assert "2 worse" not in compared(measured("a", 10.0, 2), "--noise", "30%").stdout
    (option,) = [option for option in command.params if option.name == "noise"]
    assert read_share(option.default) == NOISE, "the default is that of the analysis"
    for text, share in {"5%": 0.05, "0.05": 0.05, "0": 0.0, " 150% ": 1.5, "2.5%": 0.025}.items():
        assert read_share(text) == pytest.approx(share)
    for text in ("5", "-1%", "nan", "inf", "inf%", "five", "", "%", "1"):
        with pytest.raises(UserError, match=r"write 5% or 0\.05"):
            read_share(text)


def test_what_is_ignored():
    assert read_ignored(("machine,versions",)) == read_ignored(("machine", " versions ")) == {"machine", "versions"}
    with pytest.raises(UserError, match="did you mean 'machine'"):
        read_ignored(("machin",))
