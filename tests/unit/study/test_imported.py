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


def made(folder: Path, text: str = TABLE, **more: object):
    path = folder / "published results.csv"
    path.write_text(text)
    return import_table(path, folder / "studies", columns={"Batch size (per GPU)": "batch_size"}, **more)


def test_each_line_is_a_run_and_equal_settings_are_repeats(tmp_path: Path) -> None:
    found = made(tmp_path)
    assert (found.num_runs, found.num_arms) == (4, 3)
    (study,) = read([found.folder]).studies
    rows = study.runs
    assert [row["workers"] for row in rows] == [1, 1, 8, 8]
    assert [row["samples_per_s"] for row in rows] == [219.0, 221.0, 1734.5, 352.0]
    assert [row["samples_per_s_per_worker"] for row in rows] == [219.0, 221.0, 1734.5 / 8, 44.0]
    assert [row["validation_accuracy"] for row in rows] == [0.75, 0.76, 0.75, None]
    assert [row["repeat"] for row in rows] == [0, 1, 0, 0]
    assert [row["batch_size_global"] for row in rows] == [64, 64, 512, 512]
    assert [row["strategy"] for row in rows] == ["single", "single", "unknown", "unknown"]
    assert [row["imported.who"] for row in rows] == ["a", "a", "a", "b"]
    assert {row["stated"] for row in rows} == {"samples_per_s;validation_accuracy", "samples_per_s"}
    assert {row["status"] for row in rows} == {"completed"}
    assert (found.folder / "published results.csv").read_text() == TABLE


def test_arms_have_rates_and_efficiency(tmp_path: Path) -> None:
    arms = {arm.first["run_id"]: arm for arm in read([made(tmp_path).folder]).arms}
    (alone,) = [arm for arm in arms.values() if arm.first["workers"] == 1]
    assert alone.n == 2
    many = next(arm for arm in arms.values() if arm.first["samples_per_s"] == 1734.5)
    assert many.metrics["efficiency"].value == pytest.approx(1734.5 / 8 / 220)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "holds no rows"),
        ("workers,throughput\n", "holds no rows"),
        ("workers,batch\n1,2\n", "no column is a measurement: workers, batch"),
        ("workers,throughput\n1\n", "csv:2: has 1 cells, and the header 2"),
        ("workers,throughput\n1,fast\n", "csv:2: samples_per_s is a number, not 'fast'"),
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
    assert CliRunner().invoke(group, ["recommend", str(folder)]).exit_code in (0, 4)
    for column, said in (
        ("nosuch=workers", "no column 'nosuch'"),
        ("np=wrkers", "did you mean 'workers'"),
        ("np", "no `=`"),
    ):
        done = CliRunner().invoke(group, [*words, "--column", column])
        assert done.exit_code == 2
        assert said in done.stderr
