"""Tables that were measured elsewhere, as studies: what each column is, arms and repeats, and what is refused."""

import csv
from contextlib import nullcontext
from pathlib import Path

import pytest
from click.testing import CliRunner

from dlbench.analysis.groups import naming
from dlbench.cli import group
from dlbench.errors import UserError
from dlbench.records.outcome import Status
from dlbench.report.data import read
from dlbench.study.imported import import_table

TABLE = """\
Model,GPUs,Batch size (per GPU),hw,Throughput,top1,Who
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


def rows_of(imported) -> list[dict]:
    """Return the rows of a study with their numbers: in a twentieth of the time that reading it takes."""
    with (imported.folder / "runs.csv").open(newline="", encoding="utf-8") as file:
        return [{name: number(cell) for name, cell in row.items()} for row in csv.DictReader(file)]


def number(cell: str) -> float | str | None:
    try:
        return float(cell)
    except ValueError:
        return cell or None


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
    for heading, text, repeats in (
        ("seed", "workers,seed,throughput\n1,3,10\n1,1,11\n2,1,20\n2,3,21\n", [3, 1, 1, 3]),
        ("run", "gpus,run,throughput\n1,1,10\n1,2,11\n2,2,20\n2,1,21\n", [1, 2, 2, 1]),
        # Of an arm one run has failed.
        ("ended", "gpus,run,throughput,status\n1,1,10,ok\n1,2,11,ok\n2,2,20,ok\n2,1,-,failed\n", [1, 2, 2, 1]),
    ):
        (tmp_path / heading).mkdir()
        assert [row["repeat"] for row in rows_of(made(tmp_path / heading, text, columns={}))] == repeats
    with pytest.raises(UserError, match="repeat 3 of the same settings again"):
        made(tmp_path, "workers,seed,throughput\n1,3,10\n1,3,11\n", columns={})


@pytest.mark.parametrize("batch", ["global batch", "effective batch size", "train_batch_size"])
def test_a_batch_of_all_workers_is_that_of_one_alone(tmp_path: Path, batch: str) -> None:
    text = f"workers,train_micro_batch_size_per_gpu,{batch},throughput\n1,8,256,100\n8,8,256,640\n"
    alone, many = read([made(tmp_path, text, columns={}).folder]).arms
    assert (many.first["batch_size"], many.first["batch_size_per_worker"]) == (256, 32.0)
    assert many.metrics["efficiency"].value == pytest.approx(0.8)
    assert alone.first["batch_size_global"] == 256


def test_a_global_batch_that_grows_with_the_workers_is_of_each(tmp_path: Path) -> None:
    text = "model,gpu,gpus,Global batch,img/s\na,A,1,256,360\na,A,8,2048,2700\na,B,8,2048,3000\n"
    # Equal batches of one model stay equal.
    text += "b,A,1,256,400\nb,A,8,2048,3000\nb,B,8,2048,5000\nb,B,16,2048,9000\n"
    imported = made(tmp_path, text, columns={})
    assert "Global batch as batch_size_global (as 256 of each worker), " in imported.remarks[0]
    _, many, other, *of_b = read([imported.folder]).arms
    assert [(arm.first["batch_scope"], arm.first["batch_size"]) for arm in (many, other)] == [("per-worker", 256)] * 2
    assert many.metrics["efficiency"].value == pytest.approx(2700 / 8 / 360)
    assert {arm.first["batch_scope"] for arm in of_b} == {"global"}


def test_what_a_table_does_not_say_is_unknown(tmp_path: Path) -> None:
    text = "workers,throughput,지연,처리,a b,a-b,validation loss\n2,5,x,y,1,2,-0.5\n"
    (row,) = rows_of(made(tmp_path, text, columns={}))
    assert (row.get("batch_size"), row.get("batch_size_global"), row["validation_loss"]) == (None, None, -0.5)
    others = {name: value for name, value in row.items() if name.startswith("imported.")}
    assert list(others.values()) == ["x", "y", 1, 2]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "holds no rows"),
        ("workers,throughput\n", "holds no rows"),
        ('workers,throughput\n1,"5\n1,5\n', "csv:3: is no table: unexpected end of data"),
        ("workers,batch\n1,2\n", "no column is a measurement: workers, batch"),
        ("workers,throughput\n1\n", "csv:2: has 1 cells, and the header 2"),
        ("| gpus | img/s |\n|-|-|\n| 1 | 5 |\n\nof V100\n", "csv:5: has 1 cells, and the header 2"),
        ('{"a": {},"b": [{"c": "d"}]}\n', "hint: write a CSV file"),
        ("gpus  img/s\n1     5\n", "hint: separate columns by commas or tabs"),
        ("gpus,ResNet,VGG\n1,5,6\n", "; or write one line for each run"),
        ("gpus,batch,petaFLOP/s,share of peak FLOP/s\n1,8,5,6\n", "hint: name one"),
        ("workers,throughput\n1,fast\n", "csv:2: samples_per_s is a number, not 'fast'"),
        ("workers;throughput\n1;1234,5\n", "csv:2: throughput is '1234,5': are these decimals, or thousands?"),
        ("workers;throughput\n1;12,345.5,6\n", "decimals, or thousands?"),
        ("workers\ttime\n1\t1,219\n2\t0,622\n", "csv:2: time is '1,219': are"),
        ("workers;loss\n1;0.931\n1;0,925\n", "csv:2: loss is '0.931': are"),
        ("workers;time;who\n1;4.800;1,5\n", "csv:2: time is '4.800': are"),
        ('workers,loss\n1,"0,931"\n', "train_loss is a number, not '0,931'"),
        ("workers,throughput\n1,-5\n", "samples_per_s cannot be '-5'"),
        ("workers,throughput\n1,inf\n", "samples_per_s cannot be 'inf'"),
        ("workers,throughput\n0,5\n", "workers cannot be '0'"),
        ("workers,throughput\n1.5,5\n", "workers is a whole number, not '1.5'"),
        ("workers,accuracy\n1,75\n", "validation_accuracy cannot be '75'"),
        ("workers,gpus,throughput\n1,2,5\n", "workers and gpus are both taken for workers"),
        ("workers,workers,throughput\n1,1,5\n", "the column 'workers' is there twice"),
        ("nodes,throughput\n1,10\n2,19\n", "csv:2: 1 host, and no number of workers"),
        ("gpus per node,throughput\n8,19\n", "csv:2: 8 workers on each host, and no number of workers"),
        ("nodes,gpus/node,gpus,throughput\n2,4,8,19\n2,8,8,19\n", "csv:3: 8 workers on 2 hosts of 8 each cannot be"),
        ("nodes,gpus,throughput\n2,1,19\n", "csv:2: 1 workers on 2 hosts cannot be"),
        ("nodes,gpus,throughput\n1,1,5\n1,8,40\n4,8,99\n", "gpus is 8 on 1 and 8 on 4 hosts: of each, or of all"),
        ("GPU,np,throughput\n1,1,5\n", "hint: --column 'GPU=device_name' or --column 'GPU='"),
        ("GPU,time\n3090,5\n4090,6\n", "GPU holds numbers: counts, names, or neither?\n  hint: --column 'GPU=workers'"),
        ("Rank,time\n1,5\n2,6\n", "Rank holds numbers: counts, names, or neither?"),
        ("gpus,throughput\n-,5\n", "csv:2: gpus is empty"),
        ("gpus,throughput\n1,n/a\n2,\n", "no line has a measurement"),
        ("model,gpus,throughput\na,1,5\n,2,9\n", "csv:3: model is empty\n  hint: cells that were merged"),
        ("gpus,ms/step\n1,292\n", "csv:2: the time of a step says nothing without its batch"),
        ("gpus,it/s\n1,3\n", "no column is a measurement"),
        ("gpus,imgs\n1,50000\n", "train_time_s (s)"),
        ("gpus,speed\n1,1.9\n", "no column is a measurement"),
        ("gpus,accuracy (%)\n1,0.9\n2,1\n", "accuracy (%) is 1 at most: shares, or percent?"),
        ("gpus,batch/gpu,global batch,img/s\n1,64,64,5\n2,64,64,9\n", "csv:3: 2 workers of a batch of 64 have 128"),
        ("gpus,time\n1,29:00:00\n", "write a time as one number"),
        ("gpus,time\n1,not reached\n", "train_time_s is a number, not 'not reached'"),
        ("gpus,time\n1,5%\n", "train_time_s is a number, not '5%'"),
        ("gpus,time\n1,1e999999\n", "train_time_s cannot be"),
        ("Table 1: results,\ngpus,throughput\n1,5\n", "csv:1: 'Table 1: results' is no header"),
        ("model,1 GPU,2 GPUs\na,5,9\n", "write one line for each run"),
        ("gpus,r1,r2\n1,5,9\n", "write one line for each run"),
        ("GPU count (all),throughput\n8,5\n", "GPU count (all): are these the workers?"),
        ("hw,throughput\n4x8 A100,5\n", "add a column `workers`"),
        ("strategy,throughput,Time (min:sec)\na,5,29:10\n", "write a time as one number"),
        ("gpus,throughput,top-1 change (%)\n1,5,0\n2,9,-2.3\n", "`accuracy`"),
        ("hw,throughput\n8x V100,5\n", "add a column `workers`; --column 'hw=device_name' where"),
        ("gpus,Top-1 error (%),time\n8,24,5\n", "Top-1 error (%) is no accuracy"),
        ("gpus,lr,Top-1 error (%)\n8,0.1,24\n", "Top-1 error (%) is no accuracy"),
        ("gpus,epoch,time\n8,1,5\n8,2,9\n", "epoch: a line for each epoch?"),
        ("gpus,loss,img/s\n8,nan,5\n", "csv:2: loss is nan\n  hint: where the run diverged: `diverged` in place of"),
        ("gpus;img/s\n1;1.400\n8;10.770\n", "img/s is '1.400': are these decimals, or"),
        ("seed,throughput\n1,5\n1,6\n", "--column 'seed=' leaves it out"),
        ("gpus,run,img/s\n1,1,5\n1,2,6\n1,Mean,5.5\n", "csv:4: run: a summary of other lines is no run"),
        ("setup,gpus,img/s\nA,1,5\nB,1,6\ntotal,1,11\n", "csv:4: setup: a summary"),
        ("strategy,gpus,time\nA,1,5\nstd,1,0.1\n", "--column 'strategy=strategy' where it is a setting"),
        ("gpus,fold,time\n1,1,5\n1,2,5\n1,avg,5\n", "csv:4: fold: a summary"),
        ("gpus,time,top1 error rate (val)\n1,5,24\n", "top1 error rate (val) is no accuracy"),
        ("gpus,time\n1,0\n", "train_time_s cannot be '0'\n  hint: `-` where it did not run"),
        ("gpus,img/s\n1,0.0\n", "samples_per_s cannot be '0.0'"),
        ("gpus,top-1 (%)\n1,76.1\n2,0.761\n", "write 76.1 or 0.761 throughout"),
        ("gpus,img/s,img/s/gpu\n4,900,100\n", "csv:2: 4 workers at 100/s each have 400/s together, not 900/s"),
        ("gpus,time,status\n1,5,ok\n1,4,warm\n", "status is 'warm'\n  hint: write one of completed"),
        ("gpus,time\n1,-\n1,OOM\n", "no line has a measurement"),
        ("gpus,time,error (%)\n1,5,24\n", "error (%) is no accuracy"),
        ("gpus,time,error rate\n1,5,0.24\n", "error rate is no accuracy"),
        ("config,img/s\nV100 x8,5\n", "config: are these the workers?"),
        ("config,img/s\n2 nodes,5\n", "config: are these the workers?"),
        ("gpus,widgets/s\n1,5\n", "the nearest is widgets/s"),
        ("gpus,time min,time max\n1,5,9\n", "no column is a measurement"),
        ("GPU model,Number,img/s\nA,1,5\nA,4,9\n", "Number: are these the workers?"),
        ("gpu,count,img/s\nA,1,5\nA,2,9\n", "--column 'count=workers'; --column 'count=+' where"),
        ("gpu,#,img/s\nA,1,5\nB,1,6\n", "#: are these the workers?"),
        ("gpu,n,img/s\nA,1,5\nB,4,6\n", "n: are these the workers?"),
        (
            "A100s,time\n8,5\n64,1\n",
            "--column 'A100s=workers'; --column 'A100s=+' where it is a setting; --column 'A100s=",
        ),
        ("config,img/s\n8x8,9\n1x8,5\n", "config: are these the workers?"),
        ("gpus,throughput,Unit\n1,2700,img/s\n2,2.5,kimg/s\n", "Unit: units of single lines are not read"),
        ("gpus,throughput,unit\n1,2700,ms\n", "--column 'unit=+' where it is a setting"),
        ("gpus,N,img/s\n1,1000,9\n1,2000,5\n", "N is 1000 and 2000 on lines of the same settings: a setting, or"),
        ("gpus,count,img/s\n1,1000,9\n1,2000,5\n", "--column 'count=+' where it is a setting; --column 'count='"),
        ("gpus,run,jitter,img/s\n1,1,0,9\n1,2,0.25,5\n", "jitter is 0 and 0.25 on lines"),
        ("gpus,power (W),img/s\n1,250,9\n1,400,5\n2,250,9\n", "power (W) is 250 and 400 on lines"),
        ("gpus,max,img/s\n1,128,9\n1,256,5\n", "max is 128 and 256 on lines"),
        ("gpus,error,img/s\n1,none,9\n1,feedback,5\n", "error is 'feedback': did the run fail?"),
        ("gpus,batch,GradAccum,step time (s)\n8,4,1,0.5\n8,4,8,3\n", "GradAccum: does the batch hold all"),
        ("gpus,TP,batch,step time (s)\n8,8,16,2\n", "TP: does the batch hold all of a step of each worker?"),
        ("gpus,time,Accuracy (fp16)\n8,5,77.6\n8,4,71.6\n", "Accuracy (fp16): a score, or a setting?"),
        ("gpus,time,precision\n8,5,0.91\n8,4,0.90\n", "precision: a score, or a setting?"),
        ("gpus,img/s,wall time (h:mm:ss)\n1,5,1:30:00\n", "holds times such as 1:30:00"),
        ("gpus,time,State\n1,5,COMPLETED\n1,4,running\n", "interrupted; or leave the line out"),
        ("gpus,time,status\n1,5,1\n1,4,0\n", "status is '1'"),
        ("gpus,time,status\n1,5,ok\n1,4,?\n", "status is '?'"),
        ("gpus,time,status\n1,5,completed\n1,4,\N{EM DASH}\n", "status is '\N{EM DASH}'"),
        ("JobID,gpus,time\n1,4,5\n1.batch,1,5\n1.0,4,5\n", "csv:3: JobID 1.batch is a step of a job of the table"),
        ("gpus,time,OOM?\n1,5,no\n1,4,yes\n", "OOM? is 'yes': did the run fail?"),
        ("gpus,time,metrics.exit-code\n1,5,0\n1,4,137\n", "metrics.exit-code is '137': did"),
        ("gpus;batch;step time (ms)\n1;64;160.123\n", "--column 'step time (ms)=step_time_s/1000'"),
        ("gpus\tk img/s\n1\t1.734\n", "--column 'k img/s=samples_per_s*1000' where decimals"),
        ("gpus,global batch,grad accum,time per batch (s)\n1,32,4,5\n", "does the time hold all"),
        (",gpus,img/s\nring,8,5\nps,8,6\n", "a column of 'ring' has no name"),
        ("gpus,time,ExitCode\n1,5,0:0\n1,4,1:0\n", "ExitCode is '1:0': did the run fail?"),
        ("gpus,time,status,rc\n1,5,ok,0\n1,-,failed,1\n1,4,ok,137\n", "csv:4: rc is '137': did the run fail?"),
        ("gpus\ttime\tloss\n1\t1.800\t0.5\n2\t960\t0.5\n", "csv:2: time is '1.800': are"),
        ("gpus;Global Batch;time\n8;1.000;5\n", "Global Batch is '1.000': are"),
        ("Framework,gpus,time\na,1,5\n,2,9\n", "csv:3: Framework is empty"),
        ("nodes,GPU,time\n1,1x A100,8\n1,8x A100,1.2\n", "GPU: are these the workers?"),
        ("trainer/global_step,loss\n1,5\n2,4\n", "trainer/global_step: a line for each step?"),
        ("gpus,Wall time\n1,1701260000.12\n", "write how long it took"),
        ("Strategy;Zeit, Time (s)\nps;120,5\nring;64,2\n", "no column is a measurement: Strategy, Zeit, Time (s)"),
        ("gpus,scaling,img/s\n8,0.9,9\n8,0.8,7\n", "scaling is 0.8 and 0.9 on lines"),
        ("Nodes (8x V100),img/s\n1,5\n2,9\n", "--column 'Nodes (8x V100)=hosts' beside a column `workers`"),
        ("GPUs per pod,time\n8,5\n", "--column 'GPUs per pod=workers_per_host'"),
        ("CPUs,time\n8,5\n", "--column 'CPUs=workers'"),
        ("model,time,1 GPU img/s,8 GPU img/s\na,5,1,2\n", "hint: write one line for each run"),
        ("gpus,ring img/s,ps img/s\n1,5,6\n", "hint: write one line for each run"),
        ("gpus,img/s,ring throughput\n1,5,6\n", "ring throughput is a rate, and no setting"),
        ("gpus,throughput\n-,img/s\n1,5\n", "csv:2: units of columns are not read"),
        ("strategy,accelerator,gpus,peak img/s\na,b,8,5\n", "the nearest is peak img/s"),
        ("gpus,Waiting time (%),Time to objective (h)\n8,5,2\n", "the nearest is Time to objective (h)"),
        ("State,gpus,epoch,acc\nfinished,1,9,0.9\nfailed,1,,\n", "on each line; --column 'epoch=' leaves it out"),
        ("gpus,img/s\n1,360\n8,352\n16,340\n",
         "img/s is 360 on 1 and 340 on 16 workers: of each, or of all together?\n  hint: --column 'img/s=samples"),
        ("setup,time\n1 A100,8\n16 A100,1\n", "setup: are these the workers?"),
        ("setup,time\nA100,8\n8 A100,1\n", "setup: are these the workers?"),
        ("hw,time\nDGX A100 (4),2\nDGX A100 (8),1\n", "hw: are these the workers?"),
        ("gpus,batch size,ms/iter\n8,256,801\n64,256,121\n",
         "6.62 times as fast as each of 8: of each, or of all together?\n  hint: --column 'batch size=batch_size' or"),
        ("hw,time\none A100,8\neight A100s,1\n", "hw: are these the workers?"),
        ("hw,time\n8 P100 GPUs,8\n512 KNLs,1\n", "hw: are these the workers?"),
        ('hw,time\n"1,600 CPUs",8\n', "hw: are these the workers?"),
        ("hw,time\n8 v100 (16 GB),8\n", "hw: are these the workers?"),
        ("setup,time\n1 Tesla V100 GPU,8\n8 Tesla V100 GPUs,1\n", "setup: are these the workers?"),
        ("gpus,acc,widgets/s\n1,0.9,5\n", "widgets/s is a rate, and no setting"),
        ("gpus,acc,fps\n1,0.9,5\n", "fps is a rate, and no setting"),
        ("gpus,acc,images/sec/node\n1,0.9,5\n", "images/sec/node is a rate, and no setting"),
        ("gpus,acc,items per second\n1,0.9,5\n", "items per second is a rate, and no setting"),
        ("gpus,acc,Time (m)\n1,0.9,5\n", "no setting\n  hint: --column 'Time (m)=train_time_s*60' where"),
        ("gpus,acc,GPU time (h)\n1,0.9,5\n", "--column 'GPU time (h)=train_time_s' where it is how long a run took"),
        ("gpus,acc,epoch time (s)\n1,0.9,5\n", "--column 'epoch time (s)=train_time_s*90' where runs have 90"),
        ("gpus,acc,epoch time (min)\n1,0.9,5\n", "--column 'epoch time (min)=train_time_s*5400' where"),
        ("gpus,epochs,acc,epoch time (s)\n1,90,0.9,5\n", "add a column `training time`, of all epochs"),
        ("gpus,acc,min/epoch\n1,0.9,5\n", "min/epoch is a time, and no setting"),
        ("gpus,img/s,warm-up (s)\n1,5,10\n1,6,90\n", "warm-up (s) is 10 and 90 on lines of the same settings"),
        ("gpus,time,clip duration (s)\n8,5,2.56\n8,6,5.12\n8,7,10.24\n",
         "clip duration (s) is 10.24 and 2.56 on lines of the same settings"),
        ("gpus,Created,Updated\n1,2024-03-01 10:00,2024-03-01 20:00\n", "Created and Updated say when"),
        ("gpus,acc,Start,End\n1,0.9,2024-03-01 10:00,2024-03-01 20:00\n",
         "Start and End say when, and no column how long\n  hint: write the end minus the start as a column"),
        ('gpus,time (h)\n1,"9,461"\n', "csv:2: time (h) is '9,461': are these decimals, or thousands?"),
        ('gpus,time,val_loss\n1,"36,000",0.5\n8,"5,400","2,905"\n', "csv:3: val_loss is '2,905': are"),
        ('gpus,time,BLEU\n1,"36,000","27,3"\n', "time is '36,000': are"),
    ],
)  # fmt: skip
def test_what_is_no_table_of_measurements_is_refused(tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "t.csv"
    path.write_text(text)
    with pytest.raises(UserError) as caught:
        import_table(path, tmp_path / "studies")
    assert said in str(caught.value)
    assert not (tmp_path / "studies").exists()


@pytest.mark.parametrize(
    ("header", "cell", "column", "value"),
    [
        ("Throughput (samples/s)", "5", "samples_per_s", 5),
        ("images/sec", "5", "samples_per_s", 5),
        ("images per second", "5", "samples_per_s", 5),
        ("Tokens/s", "5", "samples_per_s", 5),
        ("k img/s", "5.1", "samples_per_s", 5100),
        ("tokens/s", '"12,345"', "samples_per_s", 12345),
        ("time (s)", '"36,000"', "train_time_s", 36000),
        ("k tokens/s", '"1,234.5"', "samples_per_s", 1234500),
        ("sustained img/s", "5.1", "samples_per_s", 5.1),
        ("k img/s total", "5.1", "samples_per_s", 5100),
        ("Throughput total (img/s)", "5.1", "samples_per_s", 5.1),
        ("metrics.throughput", "5.1", "samples_per_s", 5.1),
        ("train/samples_per_second", "5.1", "samples_per_s", 5.1),
        ("train/loss", "0.9", "train_loss", 0.9),
        ("loss_train", "0.9", "train_loss", 0.9),
        ("loss_val", "0.9", "validation_loss", 0.9),
        ("acc_train", "0.9", "train_accuracy", 0.9),
        ("metrics/eval/accuracy", "0.9", "validation_accuracy", 0.9),
        ("Throughput [k tok/s]", "25.6", "samples_per_s", 25600),
        ("ktok/s", "1.2", "samples_per_s", 1200),
        ("Throughput (M tokens/s)", "1.2", "samples_per_s", 1.2e6),
        ("images/min", "1200", "samples_per_s", 20),
        ("Time (us)", "1500000", "train_time_s", 1.5),
        ("Time to train", "90", "train_time_s", 90),
        ("Time to train (minutes)", "1.5", "train_time_s", 90),
        ("time to accuracy (s)", "90", "train_time_s", 90),
        ("time to 93% (min)", "1.5", "time_to_target_s", 90),
        ("time to 93%", "90", "time_to_target_s", 90),
        ("train time min", "1.5", "train_time_s", 90),
        ("final test accuracy", "0.9", "validation_accuracy", 0.9),
        ("best accuracy (%)", "90", "validation_accuracy", 0.9),
        ("final loss", "0.9", "train_loss", 0.9),
        ("images/sec/GPU", "5", "samples_per_s", 20),
        ("img/s per GPU", "5", "samples_per_s", 20),
        ("throughput per GPU (img/s)", "5", "samples_per_s", 20),
        ("samples_per_s_per_worker", "5", "samples_per_s", 20),
        ("ms/step", "200", "samples_per_s", 640),
        ("sec/batch", "0.2", "samples_per_s", 640),
        ("batch time (ms)", "200", "samples_per_s", 640),
        ("Throughput (ksamples/s)", "5.1", "samples_per_s", 5100),
        ("step time (s)", "0.2", "samples_per_s", 640),
        ("mean throughput (img/s)", "5", "samples_per_s", 5),
        ("hours", "29", "train_time_s", 104400),
        ("t [days]", "2", "train_time_s", 172800),
        ("Time (h)", "14.8", "train_time_s", 53280),
        ("train time [min]", "1.5", "train_time_s", 90),
        ("train_time_s", "1.5", "train_time_s", 1.5),
        ("accuracy (%)", "75.3", "validation_accuracy", 0.753),
        ("top-1 (%)", "75.3%", "validation_accuracy", 0.753),
        ("Val Acc", "0.753", "validation_accuracy", 0.753),
        ("Acc@1", "0.753", "validation_accuracy", 0.753),
        ("val acc1", "0.753", "validation_accuracy", 0.753),
        ("Prec@1", "0.753", "validation_accuracy", 0.753),
        ("Reached accuracy (%)", "75.3", "validation_accuracy", 0.753),
        ("ImageNet top-1", "0.753", "validation_accuracy", 0.753),
        ("top1 acc val", "0.753", "validation_accuracy", 0.753),
        ("Time / h", "2", "train_time_s", 7200),
        ("Throughput (sentences/s)", "5", "samples_per_s", 5),
    ],
)
def test_a_heading_is_words_and_a_unit(tmp_path: Path, header: str, cell: str, column: str, value: float) -> None:
    text = f"Number of GPUs,{header},batch size (per GPU)\n4,{cell},32\n"
    (row,) = rows_of(made(tmp_path, text, columns={}))
    assert (row["workers"], row["batch_size_global"], row["stated"]) == (4, 128, column)
    assert row[column] == value


def test_a_column_whose_unit_is_not_understood_needs_a_factor(tmp_path: Path) -> None:
    for header, ours in (
        ("Throughput (widgets/s)", "samples_per_s"), ("img/s/node", "samples_per_s"), ("steps/s", "step_time_s"),
    ):  # fmt: skip
        text = f"gpus,{header},batch\n1,1.5,32\n"
        with pytest.raises(UserError, match="say by what it is multiplied"):
            made(tmp_path, text, columns={header: ours})
    (row,) = rows_of(made(tmp_path, text.replace("steps/s", "x/s"), columns={"x/s": "samples_per_s*8"}))
    assert row["samples_per_s"] == 12


def test_an_error_is_no_accuracy_by_its_name_alone(tmp_path: Path) -> None:
    text = "gpus,time,top-1 error (%)\n1,5,24\n"
    with pytest.raises(UserError, match="is no accuracy"):
        made(tmp_path, text, columns={"top-1 error (%)": "validation_accuracy"})
    columns = {"top-1 error (%)": "validation_accuracy/100"}
    assert read([made(tmp_path, text, columns=columns).folder]).studies[0].runs[0]["validation_accuracy"] == 0.24


def test_a_factor_says_that_points_separate_decimals(tmp_path: Path) -> None:
    text = "gpus;Durchsatz (img/s)\n1;219\n8;1.734\n"
    with pytest.raises(UserError, match="decimals, or thousands"):
        made(tmp_path, text, columns={"Durchsatz (img/s)": "samples_per_s"})
    rows = rows_of(made(tmp_path, text, columns={"Durchsatz (img/s)": "samples_per_s*1"}))
    assert [row["samples_per_s"] for row in rows] == [219, 1.734]


def test_files_as_spreadsheets_write_them(tmp_path: Path) -> None:
    """A heading of two lines, cells of nothing at the ends, UTF-16."""
    text = '"Number\nof GPUs";"Global\nBS";img/s;;\n1;64;5;;\n8;512;38\n'
    rows = rows_of(made(tmp_path, text, columns={}))
    assert [(row["workers"], row["batch_size_global"]) for row in rows] == [(1, 64), (8, 512)]
    path = tmp_path / "wide.csv"
    path.write_text(text, encoding="utf-16")
    imported = import_table(path, tmp_path / "others")
    assert imported.num_runs == 2
    assert not any("how many workers" in remark for remark in imported.remarks)
    path.write_text("img/s\n5\n")
    (remark,) = [it for it in import_table(path, tmp_path / "more").remarks if "how many workers" in it]
    assert "one is assumed" in remark
    path.write_bytes("é".encode("cp1252"))
    with pytest.raises(UserError, match="save it as CSV UTF-8"):
        import_table(path, tmp_path / "others")


@pytest.mark.parametrize(
    ("header", "named", "value"),
    [
        ("Time to train (min)", "train_time_s", 90),
        ("hours", "train_time_s", 5400),
        ("best time (min)", "train_time_s", 90),
        ("hours", "train_time_s*60", 90),
        ("ms", "train_time_s/1000", 0.0015),
        ("ms/step", "train_time_s", None),
        ("ms/step", "train_time_s*1", 1.5),
    ],
)
def test_a_factor_is_that_of_the_user_or_of_the_heading(
    tmp_path: Path, header: str, named: str, value: float | None
) -> None:
    text = f"gpus,{header},batch\n1,1.5,32\n"
    rows = rows_of(made(tmp_path, text, columns={header: named}))
    assert [row.get("train_time_s") for row in rows] == [value]


@pytest.mark.parametrize(
    ("text", "workers", "num_arms"),
    [
        ("nodes,gpus per node,img/s\n1,1,5\n1,8,9\n4,8,9\n", [1, 8, 32], 3),
        ("img/s\n5\n", [1], 1),
        ("GPU,img/s\n1,5\n4,9\n", [1, 4], 2),
        ("NPUs,img/s\n1,5\n4,9\n", [1, 4], 2),
        ("GPU(s),Node\u2019s,Epoch(s),time(s)\n1,1,9,5\n8,2,9,2\n", [1, 8], 2),
        ("model,img/s,load (s),seq length\na,5,1,512\nb,6,2,1024\n", [1, 1], 2),
        ("gpus,TP,global batch,step time (s)\n8,8,64,2\n", [8], 1),
        ("gpus,time,grad_acc,target accuracy,time to acc - x (h)\n1,5,4,0.75,3\n", [1], 1),
        ("gpus,acc,GlobalBatchSize (S)\n1,0.9,64\n", [1], 1),
        ("gpus,img/s\n1,5\ngpus,img/s\n4,9\n", [1, 4], 2),
        ("sep=;\ngpus;img/s\n1;1.25\n", [1], 1),
        ("gpus,model,img/s\n1,a,5\n2,-,9\n", [1, 2], 2),
        ("reduction,gpus,time\nsum,1,5\nmean,1,6\n", [1, 1], 2),
        ("gpus,img/s,res\n1,5,224x224\n", [1], 1),
        # Other scores, and a least or largest measurement, are no settings.
        ("gpus,time median,time min,max time (s),F1,mAP,top-5 acc,std time (s)\n1,5,1,2,3,4,5,6\n1,6,2,3,4,5,6,6\n",
         [1, 1], 1),
        # What follows from others, or says when and by whom, keeps no repeats apart.
        (",Run,Date,gpus,img/s,±,speed-up,price ($/h),notes\n0,7,d,1,5,1,2,3,\n1,9,e,1,6,1,3,4,x\n", [1, 1], 1),
        ("gpus,img/s,train peak img/s,epoch time (s),eval_runtime,Energy (kWh)\n1,5,1,2,3,4\n1,6,2,3,4,5\n", [1, 1], 1),
        # A line that is a mean: of how many, and how they scatter.
        ("gpus,img/s,n,num_runs,min,high,95% CI,p95,+/-\n1,5,1,2,3,4,5.25,6,7\n1,6,1,2,3,4,6.25,6,7\n", [1, 1], 1),
        ("gpus,img/s,ci_low,ci_high,95% CI low,upper CI\n1,5,4,6,4,6\n1,6,5,7,5,7\n", [1, 1], 1),
        ("gpus,time mean (s),time min (s),img/s std,Time [s] (IQR),p99 latency (ms)\n1,5,1,2,3,4\n1,6,2,2,3,4\n",
         [1, 1], 1),
        ("gpus,seed,img/s,power (W)\n1,1,5,251\n1,2,6,249\n", [1, 1], 1),
        ("gpus,img/s,power (W)\n1,5,251.3\n1,6,249.8\n", [1, 1], 1),
        ("gpus,acc,price ($/h),p95 (s),start_time\n1,0.8,10,5,7\n1,0.9,10,6,8\n", [1, 1], 1),
        ("gpus,img/s,link (Gbit/s)\n1,5,10\n1,6,100\n", [1, 1], 2),
        ("gpus,img/s,network\n1,5,10 GbE\n1,6,100 GbE\n", [1, 1], 2),
        ("model,img/s,load (s)\na,5,1.23\na,6,1.25\nb,5,1.33\nb,6,1.35\n", [1] * 4, 2),
        ("gpus,img/s,energy saver\n1,5,on\n1,6,off\n", [1, 1], 2),
        ("gpus,acc,Created,Updated\n1,0.9,2024-03-01 10:00,2024-03-02 9:00\n", [1], 1),
        ("GPU,img/s\n16 GB V100,5\n32 GB V100,6\nRTX 3090 (24),7\n", [1] * 3, 3),
        ("GPU,img/s\n2080 Super,5\n4090 laptop,6\n910B,7\n980 Ti,8\n6000 Ada,9\n", [1] * 5, 5),
        ("variant,img/s\n2 blocks,5\n4 blocks,6\n", [1, 1], 2),
        ("variant,img/s\n2 Layers v1,5\n4 Layers v1,6\nB16 (224),7\nB16 (384),7\n", [1] * 4, 4),
        ('gpus,CUDA_VISIBLE_DEVICES,img/s\n1,0,"1,234"\n2,"0,1","2,391"\n', [1, 2], 2),
        ("model,gpus,img/s\na,1,400\na,2,780\nb,1,150\nb,4,155\n", [1, 2, 1, 4], 4),
        ("gpus,img/s,queued\n1,5,2024-03-01T10:00:00Z\n1,6,2024-03-02T09:00:00Z\n", [1, 1], 1),
        ("gpus,img/s,data rate\n1,5,10\n1,6,100\n", [1, 1], 2),
        ("gpus,img/s,ratio\n1,5,3:10\n1,6,1:10\n", [1, 1], 2),
        ("img/s,image size,units\n5,320x240,16\n6,640x480,16\n", [1, 1], 2),
        ("#,img/s\n1,5\n2,6\n", [1, 1], 1),
        ("params.num_gpus,img/s,size\n1,5,4x8\n1,6,8x8\n", [1, 1], 2),
        # Headings, the line below them and bars of Markdown; bars and words of Slurm.
        ("| chips | tokens/s/chip |\n|------:|---|\n| 1 | 5 |\n| 8 | 4 |\n", [1, 8], 2),
        ("AllocNodes|NTasks|ElapsedRaw\n1|1|5\n2|16|3\n", [1, 16], 2),
        ("Machines,GPUs per machine,time (h)\n1,8,8\n2,8,4\n", [8, 16], 2),
        ("Unnamed: 0,gpus,img/s,% of linear,Speedup vs A,HFU,teraFLOP/s/GPU\n0,1,5,1,2,3,4\n1,1,6,2,3,4,5\n", [1, 1],
         1),
        ("gpus,global batch,grad accum,step time (s)\n1,8,1,5\n1,8,2,6\n", [1, 1], 2),
        ("gpus,batch/gpu,grad accum,effective batch,img/s\n1,8,4,32,5\n1,8,2,16,6\n", [1, 1], 2),
        ("scaling,gpus,img/s\nweak,1,5\nstrong,1,6\n", [1, 1], 2),
        ("State,gpus,_step,img/s\nfinished,1,9,5\nfinished,1,7,6\n", [1, 1], 2),
        # Signs within cells separate none.
        ("config (tp|pp),gpus,img/s\n8|1,1,5\n4|2,1,6\n", [1, 1], 2),
        ("mesh (dp;tp),gpus,img/s\n8;1,1,5\n4;2,1,6\n", [1, 1], 2),
        ("| setup, rail | GPUs | img/s |\n|-|:-:|-|\n| a \\| b, c | 1 | **5** |\n", [1], 1),
        ("a, b | `gpus` | loss\n-|-|-\nx, y | 1 | 1.734\n", [1], 1),
        ("gpus;top-1 (%)\n1;76.123\n", [1], 1),
    ],
)  # fmt: skip
def test_workers_and_arms(tmp_path: Path, text: str, workers: list[int], num_arms: int) -> None:
    imported = made(tmp_path, text, columns={})
    rows = rows_of(imported)
    assert [row["workers"] for row in rows] == workers
    assert [row["strategy"] for row in rows] == ["single" if count == 1 else "unknown" for count in workers]
    assert imported.num_arms == num_arms


@pytest.mark.parametrize(
    "headings",
    [
        "Total cost ($),Training cost,Spot price,Hourly rate,USD/h,$/h,Rate (\u20ac)",
        "Eff. (%),Scaling eff. vs 1 node,Speedup (x),Rel. throughput,Normalized throughput",
        "img/s/W,img/s/$,samples/joule,CO2e,CO2 (kg),kWh,AllReduce time (ms),comm time (s)",
        "Acc@5,mAP@0.5,AP,box AP,mIoU,ROUGE-L,bpc,BLEU (cased),AP50,recall,Sensitivity (%),specificity",
    ],
)
def test_prices_ratios_and_other_scores_keep_no_repeats_apart(tmp_path: Path, headings: str) -> None:
    count = headings.count(",") + 1
    lines = (f"1,{number}{f',{number}' * count}\n" for number in (5, 6, 7))
    imported = made(tmp_path, f"gpus,img/s,{headings}\n{''.join(lines)}", columns={})
    assert imported.num_arms == 1
    assert any(remark.startswith(f"left out: {headings.replace(',', ', ')};") for remark in imported.remarks)


@pytest.mark.parametrize(
    "headings",
    [
        "Runtime version,sentiment threshold,time window,timeout (s),communicator.failed_at_s,clip length (seconds)",
        "checkpoint interval (minutes),audio seconds per sample,bandwidth (Gbit / s),link (MiB/s),firewall",
    ],
)
def test_what_is_chosen_in_seconds_or_bits_is_a_setting(tmp_path: Path, headings: str) -> None:
    count = headings.count(",") + 1
    lines = (f"1,0.9{f',{number}' * count}\n" for number in (5, 6))
    imported = made(tmp_path, f"gpus,acc,{headings}\n{''.join(lines)}", columns={})
    assert imported.remarks[0].endswith(f"apart by: {headings.replace(',', ', ')}")


@pytest.mark.parametrize(
    ("text", "is_noted"),
    [
        ("gpus,time,BLEU,F1\n1,5,20,30\n", True),
        ("gpus,time,BLEU,loss\n1,5,20,0.3\n", False),
        ("gpus,time to 93%,top-5\n1,5,20\n", False),
        ("gpus,time\n1,5\n", False),
    ],
)
def test_where_the_only_scores_were_left_out_an_answer_doubts_it(tmp_path: Path, text: str, is_noted: bool) -> None:
    imported = made(tmp_path, text, columns={})
    answered = CliRunner().invoke(group, ["recommend", str(imported.folder)])
    assert ("no score decides (BLEU, F1 of the table: left out)" in answered.output) is is_noted


@pytest.mark.parametrize(
    ("heading", "other", "named", "is_noted"),
    [
        ("batch", "8", "", True),
        ("batch", "8", "batch_size", False),
        ("batch", "8", "batch_size_global", False),
        ("batch/gpu", "8", "", False),
        ("batch", "64", "", False),
    ],
)
def test_an_open_batch_on_which_rates_of_unlike_workers_rest_is_doubted(
    tmp_path: Path, heading: str, other: str, named: str, is_noted: bool
) -> None:
    text = f"gpus,{heading},ms/iter\n{other},256,101\n64,256,121\n"
    rows = rows_of(made(tmp_path, text, columns={heading: named} if named else {}))
    note = "rates take batch for that of each worker: import it with --column 'batch=batch_size' or"
    assert [str(row["script_note"]).startswith(note) for row in rows] == [is_noted] * 2


@pytest.mark.parametrize(
    ("text", "faster"),
    [
        ("gpus,batch,ms/iter\n1,32,100\n4,32,110\n4,64,150\n", ""),
        ("gpus,batch,ms/iter\n1,32,100\n1,64,150\n4,32,40\n", "each of 4 workers 2.5 times"),
        ("gpus,strategy,batch,ms/iter\n1,eager,64,200\n8,ddp,64,120\n8,fsdp,64,140\n", ""),
        ("gpus,strategy,batch,ms/iter\n1,single,64,200\n8,ddp,64,30\n8,fsdp,64,180\n", "each of 8 workers 6.67 times"),
        ("gpus,strategy,batch,ms/iter\n2,ddp,64,120\n8,ddp,64,30\n", "each of 8 workers 4 times"),
        # Batches that grow with the workers, at about the time of one.
        ("gpus,batch,ms/iter\n1,256,400\n8,2048,420\n", "each of 8 workers 7.62 times"),
        (
            "gpus,strategy,batch,ms/iter\n1,single,64,200\n4,ddp,256,190\n8,hvd,512,400\n",
            "each of 4 workers 4.21 times",
        ),
        ("gpus,strategy,batch,ms/iter\n1,default,64,200\n4,ddp,256,190\n8,hvd,512,440\n", "each of 8 workers 3.64"),
        # One worker under another name.
        ("gpus,strategy,batch,ms/iter\n1,default,256,800\n8,hvd,256,300\n", "each of 8 workers 2.67 times"),
        ("gpus,strategy,batch,ms/iter\n1,default,256,800\n2,ddp,256,480\n", "each of 2 workers 1.67 times"),
        # Without times of steps, that it grows is all.
        ("gpus,batch,time\n8,256,29\n16,512,15\n", "batch grows as the workers do"),
        ("gpus,batch,time\n8,256,29\n16,512,15\n16,256,19\n", ""),
        ("gpus,model,batch,time\n1,r,64,29\n8,r,-,15\n", ""),
    ],
)
def test_an_open_batch_is_doubted_where_more_workers_would_each_be_faster(
    tmp_path: Path, text: str, faster: str
) -> None:
    with pytest.raises(UserError, match=faster) if faster else nullcontext():
        made(tmp_path, text, columns={})


@pytest.mark.parametrize(
    ("text", "statuses", "reasons"),
    [
        ("n,time,Status\n1,5,ok\n1,4,OOM\n1,-,timed out\n", "completed out-of-memory timeout", "OOM;timed out"),
        ("n,time,status\n1,5,FINISHED\n1,4,KILLED\n1,DNF,\n", "completed interrupted failed", "KILLED;DNF"),
        ("n,time,State\n1,5,COMPLETED\n1,4,OUT_OF_MEMORY\n1,3,CANCELLED by 1000\n1,3,CANCELLED+\n",
         "completed out-of-memory interrupted interrupted", "OUT_OF_MEMORY;CANCELLED by 1000;CANCELLED+"),
        ("n,time,Success\n1,5,Y\n1,4,N\n", "completed failed", "N"),
        ("n,time,Success\n1,5,1\n1,4,0.0\n", "completed failed", "0.0"),
        ("n,time,status\n1,5,✅\n1,4,❌\n1,6,✔\ufe0f\n", "completed failed completed", "❌"),
        ("n,time,failed,exit code\n1,5,no,0.0\n1,4,None,0.0\n", "completed completed", ""),
        ("n,time,converged\n1,5,yes\n1,4,no\n", "completed failed", "no"),
        ("n,time,state\n1,5,\n1,4,cold\n", "completed completed", ""),
        ("n,time,status\n1,5,-\n1,4,fail\n", "completed failed", "fail"),
        ("n,time,status,x\n1,5,,a\n1,4,,b\n", "completed completed", ""),
        ("n,time,status\n1,5,\n1,-,OOM\n", "completed out-of-memory", "OOM"),
        # Line 4 is a repeat of a measured one; the arm of line 5 was never run, that of line 6 was.
        ("n,img/s\n1,5\n1,OOM\n1,-\n2,-\n4,crash\n", "completed out-of-memory failed failed", "OOM;no number;crash"),
        # A target that was missed is no failure.
        ("n,time to 93%\n1,5\n1,-\n1,Not reached\n1,OOM\n2,DNF\n2,\n",
         "completed completed completed out-of-memory completed", "OOM"),
        ("n,time to 93%,acc\n1,DNF,0.9\n1,not reached,-\n2,-,-\n1,-,-\n", "completed completed failed", "no number"),
        ("n,loss\n1,nan\n1,0.5\n", "failed completed", "nan"),
        ("n,loss,time\n1,diverged,diverged\n1,0.5,5\n", "diverged completed", "diverged"),
        ("n,loss,time,status\n1,nan,5,diverged\n1,0.5,5,ok\n", "diverged completed", "diverged"),
    ],
)  # fmt: skip
def test_a_run_that_did_not_complete_is_counted_and_has_no_numbers(
    tmp_path: Path, text: str, statuses: str, reasons: str
) -> None:
    rows = rows_of(made(tmp_path, text, columns={"n": "workers"}))
    assert [row["status"] for row in rows] == statuses.split()
    failed = [row for row in rows if row["status"] != Status.COMPLETED]
    assert ";".join(row["reason"].removeprefix("imported: ") for row in failed) == reasons
    assert not any(row.get("stated") or row.get("train_time_s") for row in failed)


def test_columns_that_follow_from_what_a_table_says(tmp_path: Path) -> None:
    imported = made(tmp_path, "gpus,lr,time to 76.1% accuracy,price ($/h)\n4,0.1,9,3\n", columns={})
    (row,) = rows_of(imported)
    assert (row["learning_rate"], row["learning_rate_base"], row.get("batch_scope")) == (0.1, 0.1, None)
    assert (row["target_metric"], row["target_value"]) == ("validation_accuracy", pytest.approx(0.761))
    assert any("recommend --price" in remark for remark in imported.remarks)


@pytest.mark.parametrize(
    ("header", "counted", "target"),
    [
        ("k images/s", "images", None),
        ("sentences/s", "sentences", None),
        ("tok/s/gpu", "tokens", None),
        ("samples/s", None, None),
        ("time to accuracy (s)", None, "validation_accuracy"),
        ("train time (s)", None, None),
    ],
)
def test_what_a_rate_counts_and_what_a_time_is_to(tmp_path: Path, header: str, counted: str | None, target: str | None):
    (row,) = rows_of(made(tmp_path, f"gpus,{header}\n4,9\n", columns={}))
    assert (row.get("imported.counted"), row.get("target_metric"), row.get("target_value")) == (counted, target, None)


def test_a_time_to_train_that_is_named_a_training_time_has_no_target(tmp_path: Path) -> None:
    columns = {"time to train (min)": "train_time_s"}
    (row,) = rows_of(made(tmp_path, "gpus,time to train (min)\n4,9\n", columns=columns))
    assert (row["train_time_s"], row.get("target_metric")) == (540, None)


def test_batches_that_agree_are_of_each_worker(tmp_path: Path) -> None:
    text = "gpus,batch size,global batch,micro batch,throughput\n1,64,64,16,219\n4,64,256,16,852\n"
    _, many = read([made(tmp_path, text, columns={}).folder]).arms
    assert (many.first["batch_scope"], many.first["batch_size"]) == ("per-worker", 64)
    assert many.metrics["efficiency"].value == pytest.approx(852 / 4 / 219)


def test_workers_are_divided_over_hosts_where_they_can_be(tmp_path: Path) -> None:
    imported = made(tmp_path, "nodes,gpus,time (s)\n1,4,9\n2,4,10\n4,4,11\n4,6,8\n", {"gpus": "workers"})
    assert [row["workers_per_host"] for row in rows_of(imported)] == [4, 2, 1, None]
    assert naming(read([imported.folder]).arms) == ("strategy", "workers", "placement")
    (tmp_path / "guessed").mkdir()
    taken, *_ = made(tmp_path / "guessed", "nodes,gpus,time (s)\n1,4,9\n2,8,5\n", {}).remarks
    assert "gpus as workers (of all hosts together; of each: --column 'gpus=workers_per_host')" in taken


@pytest.mark.parametrize(
    ("cells", "devices"),
    [
        (("1x V100", "8 V100s"), ["V100"] * 2),
        (("1 V100 GPU", "8 V100 GPUs"), ["V100 GPU"] * 2),
        (("1x V100", "2x V100"), ["1x V100", "2x V100"]),
        (("1080 Ti", "8 A100"), ["1080 Ti", "8 A100"]),
    ],
)
def test_a_device_that_begins_with_the_workers_of_its_line_is_named_without(
    tmp_path: Path, cells: tuple[str, str], devices: list[str]
) -> None:
    rows = rows_of(made(tmp_path, f"hardware,gpus,time (s)\n{cells[0]},1,9\n{cells[1]},8,2\n", {}))
    assert [row["device_name"] for row in rows] == devices


def test_a_device_that_the_user_names_may_begin_with_a_number(tmp_path: Path) -> None:
    text = "GPU,img/s\n4000 SFF Ada,9\n8 vCPU,12\n"
    with pytest.raises(UserError, match="--column 'GPU=device_name'"):
        made(tmp_path, text, {})
    assert [row["device_name"] for row in rows_of(made(tmp_path, text, {"GPU": "device_name"}))] == [
        "4000 SFF Ada",
        "8 vCPU",
    ]


def test_what_is_assumed_or_odd_is_said(tmp_path: Path) -> None:
    of_each = "of each worker; of all together: --column 'batch=batch_size_global'"
    of_parts = "of all workers together, beside micro batches; of each: --column 'batch=batch_size'"
    rate = "img/s as samples_per_s (of all workers together; of each: --column 'img/s=samples_per_s_per_worker')"
    of_unit = rate.replace("img/s", "throughput").replace("(", "(times 1000, ")
    metrics = "time as train_time_s (seconds), img/s/gpu as samples_per_s_per_worker"
    method = "memory-efficiency method"
    text = (
        "hosts,np,batch,time,img/s/gpu,commit,std\n1,1,32,9,5,a,0\n2,8,32,8,n/a,b,0\n2,8,32,7,4,c,0\n2,8,32,7,4,c,0\n"
    )
    cases = {
        text: [
            f"taken: hosts as hosts, np as workers, batch as batch_size ({of_each}), {metrics}; apart by: commit",
            "left out: std; --column THEIRS=+ lets one tell arms apart",
            "1 line is equal to an earlier one: repeats that agree to the digit, or copies?",
        ],
        "gpus,time to 93% (s),acc,status\n1,9,0.94,ok\n1,-,0.92,ok\n1,-,0.92,ok\n1,,,OOM\n1,,,OOM\n": [
            "taken: gpus as workers, time to 93% (s) as time_to_target_s, acc as validation_accuracy, status as status",
            "runs that failed, or have no number beside repeats that do: 2",
        ],
        "gpus,throughput,unit,n,power\n1,5,kimg/s,3,9\n2,9,kimg/s,3,8\n": [
            f"taken: gpus as workers, {of_unit}; apart by: unit",
            "left out: n, power; --column THEIRS=+ lets one tell arms apart",
            "n: a line that is the mean of several runs is taken for one, without its scatter",
        ],
        "gpus,ntasks,memory-efficiency method,speedup vs 1 GPU,img/s\n2,2,LoRA,1.5,5\n2,2,none,1.1,4\n": [
            f"taken: gpus as workers, {rate}; apart by: memory-efficiency method",
            "left out: ntasks, speedup vs 1 GPU; --column THEIRS=+ lets one tell arms apart",
            f"{method} tells arms apart by 2 values in 2 lines; --column '{method}=' leaves it out",
        ],
        "gpus,img/s,step time (ms),x\n1,5,2,-\n2,,2,b\n2,6,2,b\n4,5,2,d\n": [
            f"taken: gpus as workers, {rate}; apart by: x",
            "left out: step time (ms); --column THEIRS=+ lets one tell arms apart",
            "runs that failed, or have no number beside repeats that do: 1",
            "x tells arms apart by 3 values in 3 lines; --column 'x=' leaves it out",
        ],
        "strategy,gpus,time (s)\nddp,1,5\nddp,2,9\n": [
            "taken: strategy as strategy, gpus as workers, time (s) as train_time_s",
        ],
        "gpus,batch,num_microbatches,img/s\n2,64,4,5\n": [
            f"taken: gpus as workers, batch as batch_size ({of_each}), {rate}; apart by: num_microbatches",
        ],
        "gpus,batch,micro_batch,img/s\n2,64,16,5\n": [
            f"taken: gpus as workers, batch as batch_size_global ({of_parts}), {rate}; apart by: micro_batch",
        ],
        "strategy,gpus,img/s\nddp,1,5\nddp,2,9\n": [
            f"taken: strategy as strategy, gpus as workers, {rate}",
            "no efficiency: write `single` as the strategy of one worker that uses no library",
        ],
        "gpus,img/s,lr,heat\n1,5,0.1,30.1\n1,6,0.1,30.2\n1,7,0.2,30.1\n1,8,0.2,30.3\n": [
            "taken: gpus as workers, img/s as samples_per_s, lr as learning_rate; apart by: heat",
            "heat tells arms apart by 3 values in 4 lines; --column 'heat=' leaves it out",
        ],
        "gpus,img/s,heat\n1,5,61\n1,6,61\n1,7,62\n": [
            "taken: gpus as workers, img/s as samples_per_s; apart by: heat",
            "heat tells arms apart by 2 values in 3 lines; --column 'heat=' leaves it out",
        ],
        "optimizer,gpus,time (s)\nlamb,1,9\nlamb,8,3\nsgd,8,2\n": [
            "taken: gpus as workers, time (s) as train_time_s; apart by: optimizer",
        ],
        "gpus,img/s,size\n1,5,64\n1,6,64\n1,7,32\n1,8,32\n": [
            "taken: gpus as workers, img/s as samples_per_s; apart by: size",
        ],
    }
    for number, (table, remarks) in enumerate(cases.items()):
        (tmp_path / str(number)).mkdir()
        assert sorted(made(tmp_path / str(number), table, columns={}).remarks) == sorted(remarks)


def test_the_command_says_what_it_took_for_what(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("nodes;gpus;time;a=b;notes\n1;1;10.5;x;\n2;4;3;y;\n")
    words = ["import", str(path), "--output", str(tmp_path / "s"), "--column", "a=b=", "--column", "gpus=workers"]
    done = CliRunner().invoke(group, words)
    assert done.exit_code == 0, done.output
    lines = [
        "taken: nodes as hosts, gpus as workers, time as train_time_s (seconds)",
        "left out: notes; --column THEIRS=+ lets one tell arms apart",
    ]
    assert ": 2 runs of 2 arms\n" + "\n".join(lines) + "\nNext: dlbench report" in done.output
    (folder,) = (tmp_path / "s").iterdir()
    answered = CliRunner().invoke(group, ["recommend", str(folder)])
    assert answered.exit_code in (0, 4), answered.output
    assert "dlbench run" not in answered.output
    for column, part in {
        "nosuch=workers": "no column 'nosuch'", "gpus=wrkers": "did you mean 'workers'", "gpus": "no `=`",
        "gpus=workers*0": "no column 'workers*0'",
    }.items():  # fmt: skip
        done = CliRunner().invoke(group, [*words, "--column", column])
        assert (done.exit_code, part in done.stderr) == (2, True), column


def test_tables_imported_in_one_second_are_studies_of_their_own(tmp_path: Path) -> None:
    assert len({made(tmp_path).folder for _ in range(3)}) == 3
