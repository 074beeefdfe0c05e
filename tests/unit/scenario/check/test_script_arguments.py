"""The arguments of scripts as people write them, read without running them, and the words that fill them in."""

import shlex
from pathlib import Path

import pytest
import yaml

from dlbench.scenario.check.script_arguments import arguments_of, filled, note_of_batch
from dlbench.study.starter import Wish, starter

IMAGENET = """\
import argparse
parser = argparse.ArgumentParser(description='PyTorch ImageNet Training')
parser.add_argument('data', metavar='DIR', nargs='?', default='imagenet')
parser.add_argument('-a', '--arch', default='resnet18')
parser.add_argument('--epochs', default=90, type=int)
parser.add_argument('-b', '--batch-size', default=256, type=int)
parser.add_argument('--lr', '--learning-rate', default=0.1, type=float, dest='lr')
parser.add_argument('-e', '--evaluate', action='store_true')
parser.add_argument('--seed', default=None, type=int)
"""
DDP_TUTORIAL = """\
import argparse
import torch.distributed
parser = argparse.ArgumentParser(description='simple distributed training job')
parser.add_argument('total_epochs', type=int, help='Total epochs to train the model')
parser.add_argument('save_every', type=int, help='How often to save a snapshot')
parser.add_argument('--batch_size', default=32, type=int)
"""
CLICK = """\
import click
@click.command()
@click.argument("folder")
@click.option("--lr", "rate", default=0.01)
@click.option("--batch-size", "-b", default=8)
@click.option("--amp/--no-amp", default=False)
@click.option("--epochs", required=True, type=int)
def main(folder, rate, batch_size, amp, epochs):
    pass
"""
ABSL = """\
from absl import flags
flags.DEFINE_integer('batch_size', 0, 'batch size per compute device')
flags.DEFINE_string('model', 'trivial', 'name of the model')
flags.DEFINE_bool('epochs', False, 'a switch')
flags.DEFINE_float('learning_rate', default=0.05, help='')
flags.DEFINE_string('workdir', None, '')
flags.DEFINE_integer('classes', None, '', required=True)
flags.mark_flags_as_required(['workdir', 'epochs'])
"""
SUBPARSERS = """\
p = argparse.ArgumentParser()
p.add_argument('--seed', type=int)
shared = argparse.ArgumentParser(add_help=False)
shared.add_argument('--epochs', default=3)
s = p.add_subparsers()
t = s.add_parser('train', parents=[shared])
g = t.add_argument_group('training')
g.add_argument('--batch-size', default=64)
t.add_argument('data')
t = s.add_parser('eval')
t.add_argument('--ckpt', required=True)
def add(q):
    q.add_argument('--lr')
"""
TYPER = """\
import typer
def main(data: str, name: Annotated[str, typer.Option()], batch_size: int = 64, *, amp: bool = False,
         rate: float = typer.Option(0.5, "--lr"), epochs: Annotated[int, typer.Option("--num-epochs", "-e")] = 2): ...
typer.run(main)
"""
TYPER_APP = """\
import typer
app = typer.Typer()
@app.command()
def train_net(ctx: typer.Context, batch_size: int = 64): ...
@app.command(name="eval")
def evaluate(ckpt: str): ...
"""
CLICK_GROUP = """\
@click.group()
@click.option("--seed")
def cli(): ...
@cli.command()
@click.option("--lr")
def fit(lr): ...
"""
FIRE = "def main(data, batch_size=64, lr=0.5): ...\nfire.Fire(main)\n"
DATACLASS = """\
@dataclass
class Config:
    batch_size: int = 64
    lr: float = field(default=0.5)
    widths: list[int] = field(default_factory=list)
    amp: bool = True
    data: str = MISSING
"""
HYDRA = """\
@hydra.main(version_base=None, config_path="conf", config_name="config")
def main(cfg): ...
"""
TRAINER = """\
from transformers import HfArgumentParser, Trainer, TrainingArguments
parser = HfArgumentParser((ModelArguments, TrainingArguments))
"""
CHOICES = """\
p.add_argument('arch', choices=['resnet', 'vgg'])
p.add_argument('--n', required=True, choices=SIZES, type=int)
@click.option('--o', required=True, type=click.Choice(('a', 'b')))
def f(): ...
"""
TRANSFORMERS = (
    "--per_device_train_batch_size {batch_size} --learning_rate {learning_rate} --num_train_epochs {epochs} "
    "--seed {seed} --output_dir output"
)
TRL = """
from trl import SFTConfig, SFTTrainer, TrlParser

def make_parser(subparsers=None):
    kinds = (ScriptArguments, SFTConfig)
    return subparsers.add_parser("sft", kinds) if subparsers else TrlParser(kinds)

SFTTrainer(args=make_parser().parse_args())
"""
NANO = "steps_to_accumulate = %s\nexec(open('configurator.py').read())\n"
WORDS = [
    (IMAGENET, "--epochs {epochs} --batch-size {batch_size} --learning-rate {learning_rate} --seed {seed}", []),
    (DDP_TUTORIAL, "--batch_size {batch_size} {epochs} 1", ["save_every=1"]),
    (CLICK, "--epochs {epochs} --batch-size {batch_size} --lr {learning_rate} FOLDER", ["folder=FOLDER"]),
    (ABSL, "--batch_size={batch_size} --learning_rate={learning_rate} --workdir=output --classes=1",
     ["workdir=output", "classes=1"]),
    (SUBPARSERS, "--seed {seed} train --batch-size {batch_size} --epochs {epochs} DATA", ["data=DATA"]),
    (SUBPARSERS + "t.add_argument('--lr')", "--seed {seed} SUBCOMMAND", ["subcommand=SUBCOMMAND"]),
    ("def add(sub=None):\n    p = sub.add_parser('train')\n    p.add_argument('--lr')\nadd(q.add_subparsers())\n",
     "train --lr {learning_rate}", []),
    (TYPER, "--name NAME --batch-size {batch_size} --lr {learning_rate} --num-epochs {epochs} DATA",
     ["name=NAME", "data=DATA"]),
    (TYPER_APP, "train-net --batch-size {batch_size}", []),
    (CLICK_GROUP, "--seed {seed} fit --lr {learning_rate}", []),
    (FIRE, "--data DATA --batch_size {batch_size} --lr {learning_rate}", ["data=DATA"]),
    ("def fit(lr): ...\ndef test(data): ...\nfire.Fire({'fit': fit, 'test': test})\n", "fit --lr {learning_rate}", []),
    ("def fit(lr): ...\ndef test(data): ...\nfire.Fire()\n", "fit --lr {learning_rate}", []),
    ("from x import fit, test\nfire.Fire({'fit': fit, 'test': test})\n", "SUBCOMMAND", ["subcommand=SUBCOMMAND"]),
    ("class T:\n  def __init__(self, data): ...\n  def fit(self, lr=1): ...\n  def _x(self, lr): ...\nfire.Fire(T)\n",
     "--data DATA fit --lr {learning_rate}", ["data=DATA"]),
    ("class T:\n  def __init__(self, lr=1): ...\n  def fit(self): ...\n  def test(self): ...\nfire.Fire(T())\n",
     "SUBCOMMAND", ["subcommand=SUBCOMMAND"]),
    (DATACLASS, "", []),
    ("p.add_argument('rest', nargs=argparse.REMAINDER)\n", "", []),
    (DATACLASS + "parser.add_arguments(Config, dest='config')",
     "--batch_size {batch_size} --lr {learning_rate} --data DATA", ["data=DATA"]),
    (DATACLASS + "HfArgumentParser((Config,))", "--batch_size {batch_size} --lr {learning_rate} --data DATA",
     ["data=DATA"]),
    (HYDRA, "", []),
    (TRAINER, TRANSFORMERS, ["output_dir=output"]),
    (TRL, TRANSFORMERS, ["output_dir=output"]),
    ("p.add_argument('--dist-url', default='tcp://1.2.3.4:5')\np.add_argument('--init_method', default='env://')\n",
     "--dist-url env://", []),
    ("p.add_argument('--local_rank', type=int, required=True)\np.add_argument('--lr')\n",
     "--local_rank $LOCAL_RANK --lr {learning_rate}", []),
    ("batch_size = 12\nn = [1]\nmax_iters = 5\nexec(open('configurator.py').read())\n", "--batch_size={batch_size}",
     []),
    (CHOICES, "--n 1 --o a resnet", ["n=1", "o=a", "arch=resnet"]),
    ("print('--batch-size')\nsub.add_argument(dest='name')\n", "", []),
    ("def f(:\n", "", []),
    ("p.add_argument('--lr')\np.add_argument('--learning-rate')\n", "--lr {learning_rate}", []),
    ("add = p.add_argument\nadd('--nEpochs')\nadd('--lr')\nother('--seed')\nseen.add('cat')\n",
     "--nEpochs {epochs} --lr {learning_rate}", []),
    ("p.add_argument('--launcher', choices=['none', 'pytorch'])\n", "--launcher pytorch", []),
    ("p.add_argument('--launcher', choices=['none', 'slurm'])\n", "", []),
]  # fmt: skip


@pytest.mark.parametrize(
    ("text", "rest", "note"),
    [
        (NANO % "5 * 8", "", "`--steps_to_accumulate=40`: an update has several passes, and"),
        (NANO % "5 * 8", " --steps_to_accumulate=1", ""),
        (NANO % "5 * 8", " --steps_to_accumulate=2", "`--steps_to_accumulate=2`: an"),
        (NANO % "2" + "steps_to_accumulate //= world_size\n", "", "=2`: an update has several passes, fewer with more"),
        (NANO % "1", "", ""),
        (NANO % "7 * x", "", ""),
        (NANO % "7 * 'x'", "", ""),
        ("p.add_argument('--accum-freq', default=4)\n", "", "`--accum-freq=4`"),
        ("p.add_argument('--accum-freq')\n", "", ""),
        ("p.add_argument('-ga', '--accum-freq', default=4)\n", " -ga 1", ""),
        ("p.add_argument('--accum', default=4)\n", " --accum-dtype fp32", "`--accum=4`"),
        ("@dataclass\nclass C:\n  accum_steps: int = 4\nHfArgumentParser(C)", " --accum-steps 1", ""),
        ("p.add_argument('--accum-freq', default=4)\nargs.accum_freq //= world_size\n", "", "passes, fewer with more"),
        ("p.add_argument('--eval_accumulation_steps', default=4)\n", "", ""),
        ("", " --eval_accumulation_steps 4", ""),
    ],
)
def test_gradients_that_are_accumulated_by_default_are_noted_as_those_of_the_command(
    text: str, rest: str, note: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("train.py").write_text(text)
    command = f"python train.py{rest}"
    said = note_of_batch(command, with_script=True)
    assert note in said
    assert bool(note) == bool(said)
    # The script may have changed since a row was made.
    assert bool(note_of_batch(command)) == bool(rest and rest.strip() in note)


@pytest.mark.parametrize(("text", "words", "open_ones"), WORDS)
def test_settings_fill_in_the_arguments_of_a_script(text: str, words: str, open_ones: list[str]) -> None:
    found, left = filled(arguments_of(text))
    assert sorted(shlex.join(found).replace("'", "").split()) == sorted(words.split())
    assert left == open_ones


def test_a_script_is_told_how_many_workers_to_start_and_where_to_begin_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    arguments = "p.add_argument('--nprocs')\np.add_argument('--out_dir')\np.add_argument('--lr', default='0.1')\n"
    anew = "python train.py --out_dir output/{attempt_id} --lr {learning_rate}"
    for rest, command in (
        ("", "python train.py --lr {learning_rate}"),
        ("mp.spawn(train, nprocs=args.nprocs)\n", "python train.py --nprocs {workers} --lr {learning_rate}"),
        ("p.add_argument('--local-rank')\n", "bash -c 'python train.py --lr {learning_rate} --local-rank $LOCAL_RANK'"),
        ("latest_checkpoint('.')\n", anew),
    ):  # fmt: skip
        Path("train.py").write_text(arguments + rest)
        text = starter(Wish(script="train.py"), "s.yaml")
        base = yaml.safe_load(text)["base"]
        assert base["command"] == command
        assert base.get("workers_inside", False) == ("spawn" in rest)


def test_an_argument_whose_default_is_not_known_is_left_out_unless_it_varies(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("train.py").write_text(
        "torch.distributed.barrier()\np.add_argument('--bs', default=SIZE)\np.add_argument('--lr', default=rate())\n"
        "p.add_argument('--epochs', required=True)\n"
    )
    for compare, words in (((), " --bs {batch_size}"), (("workers",), "")):
        text = starter(Wish(script="train.py", compare=compare), "s.yaml")
        base = yaml.safe_load(text)["base"]
        assert base["command"] == f"python train.py{words} --epochs {{epochs}}"
        assert "learning_rate" not in base
    Path("train.py").write_text(IMAGENET + "torch.distributed.barrier()\n")
    base = yaml.safe_load(starter(Wish(script="train.py", compare=("workers",)), "s.yaml"))["base"]
    assert base["batch_size"] == 256


def test_the_file_of_a_hydra_script_says_what_can_be_set(tmp_path: Path) -> None:
    for content, words in (
        ("lr: 1e-3\ndata: ???\n", "lr={learning_rate} data=DATA"),
        (
            "defaults: [model: mlp]\neval: {batch_size: 8}\ntrain: {batch_size: 64, optim: {lr: 0.5}}\n",
            "train.batch_size={batch_size} train.optim.lr={learning_rate}",
        ),
        ("- 1\n", ""),
        ("a: b: c\n", ""),
        ("since: 2024-13-45\n", ""),
    ):
        (tmp_path / "conf").mkdir(exist_ok=True)
        (tmp_path / "conf" / "config.yaml").write_text(content)
        assert " ".join(filled(arguments_of(HYDRA, tmp_path))[0]) == words, content


def test_a_scenario_begins_with_the_defaults_of_the_script(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("main.py").write_text(IMAGENET)
    scenario = yaml.safe_load(starter(Wish(script="main.py"), "s.yaml"))
    assert (scenario["base"]["epochs"], scenario["base"]["learning_rate"]) == (90, 0.1)
    assert scenario["matrix"] == {"batch_size": [256, 1024]}
    Path("hf.py").write_text(TRAINER)
    scenario = yaml.safe_load(starter(Wish(script="hf.py"), "s.yaml"))
    assert (scenario["base"]["epochs"], float(scenario["base"]["learning_rate"])) == (3, 5e-5)
    assert scenario["matrix"]["batch_size"] == [8, 32]
    Path("ddp.py").write_text(DDP_TUTORIAL)
    text = starter(Wish(script="ddp.py"), "s.yaml")
    scenario = yaml.safe_load(text)
    assert scenario["base"]["strategy"] == "mpi"
    assert scenario["base"]["command"] == "python ddp.py --batch_size {batch_size} {epochs} 1"
    assert "save_every=1: say what it is to be" in text
    assert "# metrics:" in text
    for arguments in (FIRE, TYPER, ABSL.replace(" 0,", " 64,"), SUBPARSERS):
        Path("own.py").write_text(f"import dlbench.torch\n{arguments}")
        assert yaml.safe_load(starter(Wish(script="own.py"), "s.yaml"))["matrix"] == {"batch_size": [64, 256]}, (
            arguments
        )
