"""`dlbench init` writes scenarios that run as they are, for data and scripts of a user's own."""

from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner, Result
from PIL import Image

from dlbench.api import load_study
from dlbench.cli import group
from dlbench.scenario.read.scenario_file import read

SCRIPT = """\
import numpy as np
from mpi4py import MPI

import dlbench.worker as dlbench

comm = MPI.COMM_WORLD
run = dlbench.begin(rank=comm.rank, size=comm.size, barrier=comm.Barrier)
weights = np.zeros(3)
for epoch in range(run.epochs):
    for _ in range(10):
        with run.step(num_samples=run.batch_size) as step:
            gradient = np.ones(3)
            comm.Allreduce(MPI.IN_PLACE, gradient)
            weights -= gradient
            step.loss = 1.0
    run.epoch()
run.finish(weights=[weights])
"""


def dlbench(*arguments: str) -> Result:
    done = CliRunner().invoke(group, arguments)
    assert "Traceback" not in done.output, done.output
    return done


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    np.savez("data.npz", x=rng.integers(0, 256, (200, 8, 8)).astype(np.uint8), y=np.arange(200) % 2)
    for name in ("cat", "dog"):
        folder = tmp_path / "pictures of pets" / name
        folder.mkdir(parents=True)
        for number in range(20):
            size = (20 + number % 2, 24)
            pixels = rng.integers(0, 256, (*size[::-1], 3)).astype(np.uint8)
            Image.fromarray(pixels).save(folder / f"{number}.png")
    Path("train.py").write_text(SCRIPT)
    Path("plain.py").write_text("import keras\n")
    Path("text.txt").write_text("to be or not to be " * 100)
    return tmp_path


@pytest.mark.parametrize(
    ("arguments", "arms", "fewer", "num_runs"),
    [
        pytest.param(  # `test_wheel` has data of dlbench's own
            ["--data", "data.npz", "--model", "softmax"],
            6,
            ["--set", "extend_window=false", "--only", "batch_size=8"],
            3,  # with one, and with two workers, and the base line
            marks=pytest.mark.soak,
        ),
        (["--script", "train.py", "--compare", "workers"], 3, ["--only", "workers=2"], 1),
    ],
    ids=["data", "script"],
)
def test_what_it_writes_runs_as_it_is(arguments: list[str], arms: int, fewer: list[str], num_runs: int) -> None:
    made = dlbench("init", "first try.yaml", *arguments, "--workers", "2")
    assert made.exit_code == 0, made.output
    assert f"{arms} arms. Next: dlbench run 'first try.yaml' --report" in made.output
    assert dlbench("check", "first try.yaml").exit_code == 0
    done = dlbench("run", "first try.yaml", "--set", "epochs=1", "--set", "repeats=1", *fewer)
    assert done.exit_code == 0, done.output
    (folder,) = Path("studies").glob("first try-*")
    runs = load_study(folder).runs
    assert len(runs) == num_runs
    assert set(runs["status"]) == {"completed"}
    assert (folder / "scenario.yaml").read_text().startswith("# With --set epochs=1")


def test_data_chooses_the_data_set_its_options_and_a_model() -> None:
    for number, (data, expected) in enumerate(
        {
            "pictures of pets": {"dataset": "image_folder", "dataset.image_size": [64, 64], "model": "cnn"},
            "data.npz": {"dataset": "npz", "dataset.path": "data.npz", "model": "mlp"},
            "text.txt": {"dataset": "text", "model": "lstm"},
            "synthetic": {"dataset": "synthetic"},
        }.items()
    ):
        assert dlbench("init", f"{number}.yaml", "--data", data).exit_code == 0
        base = read(Path(f"{number}.yaml")).base
        assert {key: base.get(key) for key in expected} == expected


def test_strategies_are_an_axis_where_they_are_asked_for() -> None:
    assert dlbench("init", "s.yaml", "--compare", "strategy").exit_code == 0
    assert read(Path("s.yaml")).matrix["strategy"][0] == "mpi"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--data", "digts"], "did you mean 'digits'?"),
        (["--data", "a.tar.xz"], "unpack it first"),
        (["--data", "t.jsonl"], "module:function"),
        (["--script", "trian.py"], "did you mean 'train.py'?"),
        (["--script", "plain.py", "--compare", "workers"], "compare batch_size alone"),
        (["--script", "train.py", "--compare", "strategy"], "its own"),
        (["--compare", "wokers"], "did you mean 'workers'?"),
        (["--data", "digits", "--script", "train.py"], "exclude each other"),
        (["--data", "npz"], "needs dataset.path"),
        (["no folder/s.yaml"], "cannot be written"),
        (["--model", "resnet"], "there is no 'resnet' among the models"),
        (["--data", "few.npz", "--workers", "4"], "try fewer --workers"),
    ],
)
def test_what_cannot_be_is_said_and_nothing_written(arguments: list[str], said: str) -> None:
    Path("a.tar.xz").touch()
    Path("t.jsonl").write_text("{}\n")
    np.savez("few.npz", x=np.zeros((6, 4)), y=np.arange(6) % 3)
    done = dlbench("init", *arguments)
    assert done.exit_code == 2
    assert said in done.output
    assert "scenario.yaml:" not in done.output  # no line of a file that is not there
    assert "exclude:" not in done.output
    assert not Path("scenario.yaml").exists()


def test_the_larger_batch_of_all_workers_is_at_most_what_is_left_to_train_on() -> None:
    for rows, workers, sizes in ((300, 2, [8, 32]), (320, 2, [32, 128]), (72, 2, [2, 8]), (150, 4, [2, 8])):
        np.savez("rows.npz", x=np.zeros((rows, 4)), y=np.arange(rows) % 3)
        done = dlbench("init", "s.yaml", "--force", "--data", "rows.npz", "--workers", str(workers))
        assert done.exit_code == 0, done.output
        assert read(Path("s.yaml")).matrix["batch_size"] == tuple(sizes), rows


FUNCTION = """\
import numpy as np

def good():
    return np.zeros((30, 2)), np.arange(30) % 3

def bad():
    return np.zeros((30, 2)), np.arange(30.0)
"""


def test_data_that_run_refuses_is_refused_by_check_and_init_in_the_same_words(here: Path) -> None:
    x = np.random.default_rng(0).normal(size=(60, 4))
    np.savez("labels.npz", x=x, y=np.arange(60.0) % 3)
    for label in ("a", "b"):
        (here / "damaged" / label).mkdir(parents=True)
        for number in range(10):
            Image.new("RGB", (32, 32)).save(here / "damaged" / label / f"{number}.png")
    (here / "damaged" / "b" / "2.png").write_bytes((here / "damaged" / "b" / "1.png").read_bytes()[:60])
    Path("table.csv").write_text("a,b\n" + "1,2\n" * 900)
    Path("labels_of_mine.py").write_text(FUNCTION)
    base = "model: softmax, trainer: numpy, strategy: single, epochs: 1, batch_size: 2"
    for data, dataset, reason in (
        ("labels.npz", "dataset: npz, dataset.path: labels.npz", "y in labels.npz holds float64"),
        ("damaged", "dataset: image_folder, dataset.path: damaged", "'b/2.png' is damaged"),
        ("table.csv", "dataset: text, dataset.path: table.csv", "'table.csv' is a CSV table"),
        ("labels_of_mine:bad", "dataset: 'labels_of_mine:bad'", "y holds float64"),
    ):
        Path("s.yaml").write_text(f"base: {{{base}, {dataset}}}\nbaseline: none\n")
        checked, ran, made = dlbench("check", "s.yaml"), dlbench("run", "s.yaml"), dlbench("init", "--data", data)
        assert (checked.exit_code, ran.exit_code, made.exit_code) == (2, 2, 2), data
        for done in (checked, ran, made):
            assert reason in done.output
        assert refusal(checked) == refusal(ran)
        assert not Path("scenario.yaml").exists()
    assert dlbench("init", "--data", "labels_of_mine:good").exit_code == 0


def refusal(done: Result) -> str:
    return done.output[done.output.index("dlbench: ") :]


def test_a_file_is_not_replaced_unasked() -> None:
    Path("scenario.yaml").write_text("mine")
    assert "is there already" in dlbench("init").output
    assert Path("scenario.yaml").read_text() == "mine"
    assert dlbench("init", "--force").exit_code == 0


def test_a_script_without_the_hook_is_told_the_lines() -> None:
    done = dlbench("init", "--script", "plain.py")
    assert done.exit_code == 0
    assert "run = dlbench.begin(" in done.output
    for text, line in (
        ("import torch\noptimizer.step()", "hook = dlbench.torch.Hook(model, optimizer)"),
        ("import torch\nfrom transformers import Trainer\nTrainer(model)", "[dlbench.transformers.Callback()]"),
        ("from trl import SFTTrainer\nSFTTrainer(model)", "[dlbench.transformers.Callback()]"),
        ("import lightning.pytorch as pl\npl.Trainer().fit(model)", "[dlbench.lightning.Callback()]"),
        ("from lightning.pytorch.cli import LightningCLI\nLightningCLI(Net)", 'trainer_defaults={"callbacks": ['),
        (
            "import lightning, torch\nMyTrainer().fit(model)\noptimizer.step()",
            "hook = dlbench.torch.Hook(model, optimizer)",
        ),
        ("import torch\nlatest_checkpoint('.')", "warning: other.py goes on from a checkpoint"),
        ("import keras\nmodel.fit(x, y)", "[dlbench.keras.Callback()]"),
        ("import beside\nbeside.model.fit(x, y)", "[dlbench.keras.Callback()]"),
        ("import torch\nStandardScaler().fit(x)\noptimizer.step()", "hook = dlbench.torch.Hook(model, optimizer)"),
        ("import torch, mpi4py\noptimizer.step()", "run = dlbench.begin(rank=..., size=..., barrier=...)"),
        ("import torch\nTorchTrainer(train).fit()\noptimizer.step()", "run = dlbench.begin(barrier=lambda: None)"),
    ):
        Path("beside.py").write_text("import keras\n")
        Path("other.py").write_text(text)
        assert line in dlbench("init", "other.yaml", "--force", "--script", "other.py").output
    assert read(Path("scenario.yaml")).base["strategy"] == "single"
    Path("train.sh").write_text("torchrun --nproc_per_node 2 train.py\n")
    for script, is_alone in (("plain.py", True), ("train.py", False), ("train.sh", False)):
        done = dlbench("init", "--force", "--script", script, "--workers", "2")
        assert (f"warning: one worker, not 2: {script} is not known to connect several" in done.output) == is_alone
