"""What scripts print and write, as values of metrics: the last counts, and what is no value is said."""

import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from dlbench.records.files import worker_log
from dlbench.scenario.metrics import MetricDeclaration
from dlbench.scenario.read.scenario_file import parse
from dlbench.scenario.run_spec import RunSpec
from dlbench.scenario.settings import Settings
from dlbench.worker.script.printed import metrics_of as metrics_here
from dlbench.worker.script.printed import note_of_other, note_of_workers, stamps, taken, taken_here

LOG = """\
step 10: total images/sec: 1,234.5 +/- 2
accuracy: 12.0%
 50%|#####     | loss=0.5\r100%|##########| loss=0.25\r
step 20: total images/sec: 1,300.25 +/- 2
accuracy: 93.5%
accuracy: unknown
bleu nan
tiny: 3.2e-05
lost: 0.5
lost: NaN
mem: 1,25 GB
gap: -0.5
colour: \x1b[32m41.5\x1b[0m
fast: 1.2k img/s
slow: 900 k img/s
big: 1_234.6
german: 7,5
row: 3,0.125
wait: 5 m
pair: 0.5,0.75
table;-0.25
iter 1: loss 0.50, lr 1.0, val 4.0
iter 2: loss -inf, lr nan, val 3.5
iter 3: loss 0.25, lr NaN, val nan
sure: 0.5
sure: informative prior
a 952.1 img/s, b 952.1 img/s, c 952.1 img/s, d 0.5, e 0.5, f 0.5, g 1.50it/s, h 2ms/step
a 1,052.1 img/s, b 1.05k img/s, c 1.05e+03 img/s, d None, e tensor(0.25), f 1, g 1.08s/it, h 731us/step
plot 0.25, plot_2.png
Times: 0.75, times: 0.5, t=3
i 0:00:05.43, j 1 day, 1:00:01, k 350 ms, l 1.25 hours, m 0.94%, n 35
2,482,92
train_o 1, val_o 2, p_p 3, q_p 4
r 12.5 batches/sec
"""
FILES = {
    "one.json": '{"eval": {"loss": 0.5}, "eval.loss": 0.75, "n": {"m": "2"}}',
    "lines.jsonl": '{"loss": 1}\n{"loss": 0.5}\n\n{"other": 2}\n',
    "history.json": '{"loss": [0.5, 0.25]}',
    "list.json": '[{"loss": 1}, {"loss": 0.25}]',
    "state.json": '{"best": 1, "log": [{"loss": 2}, {"loss": 3}, {"time": 1}]}',
    "table.csv": "epoch, loss\n1, 0.5\n2, 0.125\n3,\n",
    "text": "nothing of the kind",
}


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "log").write_text(LOG)
    for name, text in FILES.items():
        (tmp_path / name).write_text(text)
    return tmp_path


def metrics_of(declaration: str) -> dict[str, MetricDeclaration]:
    return parse(f"base: {{command: ./train}}\nmetrics:\n  {declaration}\n", "s.yaml").metrics


def found(declaration: str) -> tuple[dict[str, float], list[str]]:
    return taken(metrics_of(declaration), Path("log"), {})


@pytest.mark.parametrize(
    ("declaration", "value"),
    [
        ("samples_per_s: 'images/sec: ([0-9.,]+)'", 1300.25),
        ("validation_accuracy: {output: 'accuracy: ([0-9.]+)%', times: 0.01}", 0.935),
        ("train_loss: 'loss=([0-9.]+)'", 0.25),
        ("train_loss: '^step (20):'", 20.0),
        ("validation_loss: {file: one.json, key: eval.loss}", 0.75),
        ("validation_loss: {file: one.json, key: n.m}", 2.0),
        ("validation_loss: {file: lines.jsonl, key: loss}", 0.5),
        ("validation_loss: {file: state.json, key: log.loss}", 3),
        ("validation_loss: {file: table.csv, key: loss}", 0.125),
        ("bleu: {better: higher, matters: 1, output: 'accuracy: ([0-9.]+)%'}", 93.5),
        ("train_loss: {output: 'loss=([0-9.]+)', times: -1}", -0.25),
        ("train_loss: 'gap: ([-0-9.]+)'", -0.5),
        ("train_loss: 'colour.*?([0-9.]+)'", 41.5),
        ("train_loss: {output: 'fast: ([0-9.]+)k', times: 1000}", 1200.0),
        ("train_loss: 'row: [0-9]+,([0-9.]+)'", 0.125),
        ("train_loss: 'wait: ([0-9.]+)'", 5.0),
        ("train_loss: 'pair: ([0-9.]+)'", 0.5),
        ("train_loss: 'pair: .*,([0-9.]+)'", 0.75),
        ("train_loss: 'sure: ([0-9.]+)'", 0.5),
        ("train_loss: '^\\d+,(\\d+),'", 482),
        ("train_loss: '^(\\d+),'", 2),
        ("train_loss: 'n_o (\\d+)'", 1),
        ("train_time_s: 'i ([0-9:.]+)'", 5.43),
        ("time_to_target_s: 'j (.*?), k'", 90001),
        ("train_time_s: {output: 'k ([0-9.]+) ms', times: 0.001}", 0.35),
        ("samples_per_s: {output: 'r ([0-9.]+) batches/sec', times: 1}", 12.5),
        ("validation_accuracy: {output: 'm ([0-9.]+)', times: 0.01}", 0.0094),
        ("train_loss: '^.*loss ([-0-9.]+), lr [0-9.]+'", 0.25),
        # None is no value, a whole number after anything may be any, and a name is the same in capitals.
        ("train_loss: 'gap: -0.5|[d] ([0-9.]+)'", 0.5),
        ("train_loss: 'plot.*?(0\\.\\d+)'", 0.25),
        ("train_loss: 'imes: ([0-9.]+)'", 0.5),
        # A greedy beginning takes the last of a line.
        ("train_loss: '.*times: ([0-9.]+).*t'", 0.5),
        ("train_loss: {file: history.json, key: loss}", 0.25),
    ],
)
def test_the_last_value_counts(declaration: str, value: float) -> None:
    values, notes = found(declaration)
    assert list(values.values()) == [pytest.approx(value)]
    assert notes == []


@pytest.mark.parametrize(
    ("declaration", "note"),
    [
        ("samples_per_s: 'tokens/s (.*)'", "samples_per_s: nothing that was printed matches 'tokens/s (.*)'"),
        ("validation_accuracy: 'n ([0-9.]+)'", "not between 0 and 1; is it in %? then say `times: 0.01`"),
        ("train_loss: 'accuracy: (unknown)'", "is no number"),
        ("bleu: {better: higher, matters: 1, output: 'bleu (.*)'}", "bleu: it is nan"),
        ("samples_per_s: 'images/sec: ([0-9]+)'", "'1' is a part of '1,300.25'"),
        ("train_loss: 'tiny: ([0-9.]+)'", "'3.2' is a part of '3.2e-05'"),
        ("train_loss: 'lost: ([0-9.]+)'", "the last value that was printed is 'NaN'"),
        ("train_loss: 'iter \\d+: .*, lr (\\d\\.\\d),'", "the last value that was printed is 'NaN'"),
        ("train_loss: 'iter \\d+: loss [0-9.]+, lr [0-9.]+, val ([0-9.]+)'",
         "the last value that was printed is 'nan'"),
        ("train_loss: 'iter [12]: loss ([0-9.]+)'", "the last value that was printed is '-inf'"),
        ("samples_per_s: 'a ([0-9.]+) img/s'", "the last value that was printed is '1,052.1', which"),
        ("samples_per_s: 'b ([0-9.]+) img/s'", "is '1.05k', which"),
        ("samples_per_s: 'c (\\d+\\.\\de\\+03) img/s'", "is '1.05e+03', which"),
        ("train_loss: 'e ([0-9.]+)'", "is 'tensor(0.25)', which"),
        ("train_loss: 'f (?P<loss>\\d\\.\\d+)'", "is '1', which"),
        ("samples_per_s: {output: 'g ([0-9.]+) *it/s', times: 8}", "is '1.08s/it', which"),
        ("train_loss: 'h ([0-9.]+)\\s?ms/step'", "is '731us/step', which"),
        ("train_time_s: 'i ([0-9.]+)'", "'0' is a part of '0:00:05.43'"),
        ("train_time_s: 'k ([0-9.]+)'", "'350' is followed by 'ms'"),
        ("train_time_s: {output: 'k ([0-9.]+)', times: 0.001}", "'350' is followed by 'ms'"),
        ("validation_accuracy: 'm ([0-9.]+)'", "'0.94' is followed by '%'"),
        ("samples_per_s: 'r ([0-9.]+)'", "'12.5' is followed by 'batches/sec'"),
        ("train_loss: '^\\d+,(\\d+)'", "'482' is a part of '482,92'"),
        ("train_loss: 'o (\\d+)'", "it matches 'train_o' and 'val_o': begin it with \\b or the whole name"),
        ("train_loss: 'mem: ([0-9.,]+)'", "'1,25' is no number"),
        ("validation_accuracy: {output: 'accuracy.*([0-9.]+)%', times: 0.01}", "'5' is a part of '93.5'"),
        ("samples_per_s: 'images.*?,(\\d+\\.\\d+)'", "'300.25' is a part of '1,300.25'"),
        ("train_loss: 'gap:\\D*([0-9.]+)'", "'0.5' is a part of '-0.5'"),
        ("train_loss: 'fast: ([0-9.]+)'", "'1.2' is followed by 'k'"),
        ("train_loss: 'table;\\D*?([0-9.]+)'", "'0.25' is a part of '-0.25'"),
        ("train_loss: 'slow: ([0-9.]+).*'", "'900' is followed by 'k'"),
        ("train_loss: 'big: ([0-9.]+)'", "'1' is a part of '1_234.6'"),
        ("train_loss: 'german: .*,([0-9]+)'", "'5' is a part of '7,5'"),
        ("train_loss: {file: nosuch.json, key: loss}", "nosuch.json cannot be read: No such file or directory"),
        ("train_loss: {file: one.json, key: lost}",
         "one.json has nothing under 'lost'; it has: 'eval', 'eval.loss', 'n'"),
    ],
)  # fmt: skip
def test_what_is_no_value_is_said(declaration: str, note: str) -> None:
    values, notes = found(declaration)
    assert values == {}
    assert len(notes) == 1
    assert note in notes[0]


@pytest.mark.parametrize(
    ("of", "rate", "is_doubted"), [("", 41.5, True), (", of: all", 41.5, False), (", of: worker", 83, False)]
)
def test_a_rate_of_one_worker_is_multiplied_by_the_workers(here: Path, of: str, rate: float, is_doubted: bool) -> None:
    metrics = metrics_of(f"samples_per_s: {{output: 'colour.*?([0-9.]+)'{of}}}")
    run = RunSpec(scenario="s", label="", repeat=0, settings=Settings(workers=2), metrics=metrics)
    assignment: Any = SimpleNamespace(run=run, log_folder=here, attempt_id="none")
    for rank in (0, 1):
        (here / worker_log(rank)).write_text(LOG)
    assert taken_here(assignment, metrics_here(assignment), {})[0] == {"samples_per_s": rate}
    assert bool(note_of_other(assignment, 1)) == is_doubted


FABRIC = "import lightning\nfabric = lightning.Fabric()\n"
UNCOUNTED = "the command has no {workers}: that it started"


@pytest.mark.parametrize(
    ("workers", "inside", "script", "note"),
    [
        (2, False, "import numpy\n", "nothing in train.py connects its workers: each trained alone"),
        (2, False, "import mpi4py\n", ""),
        (2, True, "import numpy\n", f"{UNCOUNTED} 2 is the scenario's word alone"),
        (1, True, "import numpy\n", f"{UNCOUNTED} 1 is the scenario's word alone"),
        (2, True, "import dlbench.worker\nrun.settings.workers\n", ""),
        (2, False, FABRIC, "train.py gives Lightning no `devices`, or one: each worker may have trained alone"),
        (1, False, "import numpy\n", ""),
    ],
)
def test_workers_that_nothing_connects_are_noted(
    here: Path, workers: int, inside: bool, script: str, note: str
) -> None:
    (here / "train.py").write_text(script)
    names = {"workers": workers, "workers_inside": inside, "strategy": "mpi", "command": "python train.py"}
    run: Any = SimpleNamespace(settings=SimpleNamespace(**names))
    assert note_of_workers(run) == note
    seen = "worker 0 was connected to no other process: each worker may have trained alone"
    known = note if "may have" not in note else ""
    assert note_of_workers(run, is_unconnected=True) == (known or seen * (workers > 1))
    for command in ("python train.py; exit $?", "python train.py && ./solver"):
        run.settings.command = f"bash -c '{command}'"
        assert note_of_workers(run) == note * ("solver" not in command or inside or "may have" in note)


def test_a_file_of_an_earlier_run_does_not_count(here: Path) -> None:
    metrics = metrics_of("validation_loss: {file: one.json, key: eval.loss}")
    before = stamps(metrics)
    note = "validation_loss: one.json was not written by this run: it is as it was before"
    assert taken(metrics, Path("log"), before) == ({}, [note])
    os.utime(here / "one.json", (0, 0))
    assert taken(metrics, Path("log"), before) == ({"validation_loss": 0.75}, [])


def test_settings_and_the_start_are_filled_into_the_name_of_a_file(here: Path) -> None:
    metrics = metrics_of("validation_loss: {file: 'one-{workers}-{attempt_id}', key: eval.loss}")
    run = RunSpec(scenario="s", label="", repeat=0, settings=Settings(workers=2), metrics=metrics)
    assignment: Any = SimpleNamespace(run=run, log_folder=here, attempt_id="r0")
    (here / "one.json").rename(here / "one-2-r0")
    assert taken_here(assignment, metrics_here(assignment), {})[0] == {"validation_loss": 0.75}


@pytest.mark.parametrize(
    ("name", "old", "new"),
    [("rows.jsonl", '{"loss": 2}\n', '{"time": 1}\n'), ("rows.csv", "loss,time\n2,1\n", ",1\n")],
)
def test_what_an_earlier_run_has_appended_to_a_file_does_not_count(here: Path, name: str, old: str, new: str) -> None:
    (here / name).write_text(old)
    metrics = metrics_of(f"validation_loss: {{file: {name}, key: loss}}")
    before = stamps(metrics)
    (here / name).write_text(old + new)
    assert f"{name} has nothing under 'loss'" in taken(metrics, Path("log"), before)[1][0]
    (here / name).write_text(old + new + new.replace('"time"', '"loss"').replace(",1", "3,1"))
    assert list(taken(metrics, Path("log"), before)[0].values()) == [1 if name.endswith("l") else 3]
    (here / name).write_text(old.replace("2", "4") + new)  # written anew
    assert taken(metrics, Path("log"), before)[0] == {"validation_loss": 4}


def test_a_value_before_a_gap_in_the_log_is_not_the_last(here: Path) -> None:
    (here / "log").write_text("loss=1\n\n[dlbench: about 5,000 bytes of this log were dropped here]\nthe end\n")
    values, notes = found("train_loss: 'loss=([0-9.]+)'")
    assert values == {}
    assert "a part of the log was dropped after the last match" in notes[0]


def test_damaged_files_are_no_failures(here: Path) -> None:
    (here / "one.json").write_text('{"loss": 1,' + "x" * 2**18)
    (here / "list.json").write_text("[" * 100_000)
    for name in ("one.json", "list.json"):
        assert found(f"validation_loss: {{file: {name}, key: loss}}")[0] == {}


def test_no_script_has_trained_for_longer_than_it_ran() -> None:
    metrics = metrics_of("train_time_s: 'i ([0-9:.]+)'")
    assert taken(metrics, Path("log"), {}, 4.5)[0] == {"train_time_s": 5.43}  # rounded up
    values, notes = taken(metrics, Path("log"), {}, 1.7)
    assert values == {}
    assert notes == ["train_time_s: 5.43 s is longer than the script ran (1.7 s): set `times` to its unit"]


def test_a_time_since_training_began_never_falls(here: Path) -> None:
    for times, is_taken in (("0.2 0.25 0.22", False), ("0.2 0.2 1.5", True), ("0.5 nan 0.5", True), ("0.4", True)):
        (here / "log").write_text("".join(f"{time} s/epoch\n" for time in times.split()))
        (here / "times.csv").write_text("\n".join(("time", *times.replace("nan", "").split())))
        for where in ("{output: '([0-9.]+) s/epoch'}", "{file: times.csv, key: time}"):
            for name in ("train_time_s", "time_to_target_s"):
                values, notes = found(f"{name}: {where}")
                assert bool(values) is is_taken, (times, where, notes)
            assert is_taken or notes == [
                "time_to_target_s: it was stated 3 times, not growing: is it that of an epoch?"
            ]
            assert found(f"validation_loss: {where}")[0]
    # Of several workers, together longer than the script ran, and rounded otherwise.
    for printed, ran_s in (("12.34 s\n11.9 s\n", 13.0), ("12.3456 s\n0:00:12.34 s\n", 60.0)):
        (here / "log").write_text(printed)
        assert taken(metrics_of("train_time_s: '([0-9.:]+) s'"), Path("log"), {}, ran_s)[1] == []


def test_an_expression_that_begins_with_anything_takes_no_time_of_the_square_of_a_line(here: Path) -> None:
    (here / "log").write_text("loss: 1\n" + "x" * 2**20 + "\n" + "7," * 2**16 + "\n")  # it took minutes
    assert found("train_loss: '([0-9.]+) samples/s'")[0] == {}
    for start in (".*", "^.*", ".*?"):
        assert found(f"train_loss: '{start}loss: ([0-9.]+)'")[0] == {"train_loss": 1}


def test_what_is_not_taken_is_left_to_the_hook() -> None:
    assert found("bleu: {better: higher, matters: 1}") == ({}, [])
