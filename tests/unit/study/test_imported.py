"""Tables that were measured elsewhere, as studies: what each column is, arms and repeats, and what is refused."""

from pathlib import Path

import pytest
from click.testing import CliRunner

from dlbench.cli import group
from dlbench.errors import UserError
from dlbench.report.data import read
from dlbench.study.imported import import_table

TABLE = """\
Model,GPUs,Batch size (per GPU),hw,Throughput,top1,who
resnet50,1,64,P100,219,0.75,a
resnet50,1,64,P100,221,0.76,a
resnet50,8,64,P100,"1,734.5",75%,a
resnet50,8,64,K80,352,,b
"""


def made(folder: Path, text: str = TABLE, columns: dict[str, str] | None = None):
    path = folder / "runs.csv"  # which a study has, too
    path.write_text(text)
    given = {"Batch size (per GPU)": "batch_size"} if columns is None else columns
    return import_table(path, folder / "studies", columns=given)


def test_each_line_is_a_run_and_equal_settings_are_repeats(tmp_path: Path) -> None:
    found = made(tmp_path)
    assert (found.num_runs, found.num_arms) == (4, 3)
    (study,) = read([found.folder]).studies
    rows = study.runs
    assert [row["workers"] for row in rows] == [1, 1, 8, 8]
    assert [row["samples_per_s"] for row in rows] == [219.0, 221.0, 1734.5, 352.0]
    assert [row["samples_per_s_per_worker"] for row in rows] == [219.0, 221.0, 1734.5 / 8, 44.0]
    assert [row["validation_accuracy"] for row in rows] == [0.75, 0.76, 0.75, None]
    # Of two arms none are a pair: the table numbers no repeats.
    assert [row["repeat"] for row in rows] == [0, 1, 2, 3]
    assert [row["batch_size_global"] for row in rows] == [64, 64, 512, 512]
    assert [row["strategy"] for row in rows] == ["single", "single", "unknown", "unknown"]
    assert [row["imported.who"] for row in rows] == ["a", "a", "a", "b"]
    assert {row["stated"] for row in rows} == {"samples_per_s;validation_accuracy", "samples_per_s"}
    assert {row["status"] for row in rows} == {"completed"}
    assert (found.folder / "imported.csv").read_text() == TABLE


def test_arms_have_rates_and_efficiency(tmp_path: Path) -> None:
    arms = {arm.first["run_id"]: arm for arm in read([made(tmp_path).folder]).arms}
    (alone,) = [arm for arm in arms.values() if arm.first["workers"] == 1]
    assert alone.n == 2
    many, other = (next(arm for arm in arms.values() if arm.first["samples_per_s"] == rate) for rate in (1734.5, 352.0))
    assert many.metrics["efficiency"].value == pytest.approx(1734.5 / 8 / 220)
    # There is no single one of its own hardware.
    assert other.metrics["efficiency"] is None


def test_repeats_that_a_table_numbers_are_pairs(tmp_path: Path) -> None:
    text = "workers,seed,throughput\n1,3,10\n1,1,11\n2,1,20\n2,3,21\n"
    (study,) = read([made(tmp_path, text, columns={}).folder]).studies
    assert [row["repeat"] for row in study.runs] == [3, 1, 1, 3]
    with pytest.raises(UserError, match="repeat 3 of the same settings again"):
        made(tmp_path, text.replace("1,1,11", "1,3,11"), columns={})


def test_a_batch_of_all_workers_is_that_of_one_alone(tmp_path: Path) -> None:
    text = "workers,global batch,throughput\n1,256,100\n8,256,640\n"
    (alone, many) = read([made(tmp_path, text, columns={}).folder]).arms
    assert (many.first["batch_size"], many.first["batch_size_per_worker"]) == (256, 32.0)
    assert many.metrics["efficiency"].value == pytest.approx(0.8)
    assert alone.first["batch_size_global"] == 256


def test_what_a_table_does_not_say_is_unknown(tmp_path: Path) -> None:
    text = "workers,throughput,지연,처리,a b,a-b,validation loss\n2,5,x,y,1,2,-0.5\n"
    (study,) = read([made(tmp_path, text, columns={}).folder]).studies
    (row,) = study.runs
    assert (row.get("batch_size"), row.get("batch_size_global"), row["validation_loss"]) == (None, None, -0.5)
    others = {name: value for name, value in row.items() if name.startswith("imported.")}
    assert list(others.values()) == ["x", "y", 1, 2]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "holds no rows"),
        ("workers,throughput\n", "holds no rows"),
        ("workers,batch\n1,2\n", "no column is a measurement: workers, batch"),
        ("workers,throughput\n1\n", "csv:2: has 1 cells, and the header 2"),
        ("workers,throughput\n1,fast\n", "csv:2: samples_per_s is a number, not 'fast'"),
        ("workers;throughput\n1;1234,5\n", "a number, not '1234,5'"),
        ("workers;throughput\n1;12,345.5,6\n", "a number, not"),
        ("workers,throughput\n1,-5\n", "samples_per_s cannot be '-5'"),
        ("workers,throughput\n1,inf\n", "samples_per_s cannot be 'inf'"),
        ("workers,throughput\n0,5\n", "workers cannot be '0'"),
        ("workers,throughput\n1.5,5\n", "workers is a whole number, not '1.5'"),
        ("workers,accuracy\n1,75\n", "validation_accuracy cannot be '75'"),
        ("workers,gpus,throughput\n1,1,5\n", "workers and gpus are both taken for workers"),
        ("workers,workers,throughput\n1,1,5\n", "the column 'workers' is there twice"),
    ],
)
def test_what_is_no_table_of_measurements_is_refused(tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "t.csv"
    path.write_text(text)
    with pytest.raises(UserError) as caught:
        import_table(path, tmp_path / "studies")
    assert said in str(caught.value)
    assert not (tmp_path / "studies").exists()


def test_the_command_says_what_it_took_for_what(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("nodes;np;time;notes\n1;1;10.5;x\n2;4;3;y\n")
    words = ["import", str(path), "--output", str(tmp_path / "s"), "--column", "notes="]
    done = CliRunner().invoke(group, words)
    assert done.exit_code == 0, done.output
    assert ": 2 runs of 2 arms\ntaken: nodes as hosts, np as workers, time as train_time_s\n" in done.output
    (folder,) = (tmp_path / "s").iterdir()
    answered = CliRunner().invoke(group, ["recommend", str(folder)])
    assert answered.exit_code in (0, 4), answered.output
    assert "dlbench run" not in answered.output
    for column, part in {
        "nosuch=workers": "no column 'nosuch'", "np=wrkers": "did you mean 'workers'", "np": "no `=`",
    }.items():  # fmt: skip
        done = CliRunner().invoke(group, [*words, "--column", column])
        assert (done.exit_code, part in done.stderr) == (2, True), column
