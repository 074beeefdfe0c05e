"""The arguments of scripts as people write them, read without running them, and the words that fill them in."""

import shlex
from pathlib import Path

import pytest
import yaml

from dlbench.study.script_arguments import arguments_of, filled
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
"""
TRAINER = """\
from transformers import HfArgumentParser, Trainer, TrainingArguments
parser = HfArgumentParser((ModelArguments, TrainingArguments))
"""
WORDS = [
    (IMAGENET, "--epochs {epochs} --batch-size {batch_size} --learning-rate {learning_rate} --seed {seed}", []),
    (DDP_TUTORIAL, "--batch_size {batch_size} {epochs} 1", ["save_every=1"]),
    (CLICK, "--epochs {epochs} --batch-size {batch_size} --lr {learning_rate} FOLDER", ["folder=FOLDER"]),
    (ABSL, "--batch_size={batch_size}", []),
    (
        TRAINER,
        (
            "--per_device_train_batch_size {batch_size} --learning_rate {learning_rate} --num_train_epochs {epochs} "
            "--seed {seed} --output_dir output"
        ),
        ["output_dir=output"],
    ),
    ("print('--batch-size')\nsub.add_argument(dest='name')\n", "", []),
    ("def f(:\n", "", []),
    ("for n in ('--model', '--batch_size', '- --x'):\n    p.add_argument(n)\n", "--batch_size {batch_size}", []),
    ("p.add_argument('--lr')\np.add_argument('--learning-rate')\n", "--lr {learning_rate}", []),
]


@pytest.mark.parametrize(("text", "words", "open_ones"), WORDS)
def test_settings_fill_in_the_arguments_of_a_script(text: str, words: str, open_ones: list[str]) -> None:
    found, left = filled(arguments_of(text))
    assert sorted(shlex.join(found).replace("'", "").split()) == sorted(words.split())
    assert left == open_ones


def test_a_scenario_begins_with_the_defaults_of_the_script(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("main.py").write_text(IMAGENET)
    scenario = yaml.safe_load(starter(Wish(script="main.py"), "s.yaml"))
    assert (scenario["base"]["epochs"], scenario["base"]["learning_rate"]) == (90, 0.1)
    assert scenario["matrix"] == {"batch_size": [256, 1024]}
    Path("ddp.py").write_text(DDP_TUTORIAL)
    text = starter(Wish(script="ddp.py"), "s.yaml")
    scenario = yaml.safe_load(text)
    assert scenario["base"]["strategy"] == "mpi"
    assert scenario["base"]["command"] == "python ddp.py --batch_size {batch_size} {epochs} 1"
    assert "save_every=1: say what it is to be" in text
    assert "# metrics:" in text
