"""Two thousand broken scenarios: each is a valid plan or one clear message, never a traceback."""

import random
from collections import Counter
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest
from click.testing import CliRunner

from dlbench.cli import group
from dlbench.errors import UserError
from dlbench.scenario.cluster import Cluster, Host
from dlbench.scenario.doubts import doubts
from dlbench.scenario.expand import expand
from dlbench.scenario.read import parse

NUM_MUTANTS = 2000
CLUSTER = Cluster(hosts=(Host(address="localhost", slots=2, cores=(0, 1)),))
SCENARIOS = Path(__file__).parents[2] / "scenarios"

RICH = """\
name: everything
description: |
  Every section that a scenario can have.
reference: kim2023
base:
  dataset: synthetic
  trainer: numpy
  strategy: mpi
  optimizer: sgd
  learning_rate: 1e-3
  learning_rate_base_batch: 32
  learning_rate_scale: linear
  strategy.chunk_bytes: 4096
matrix:
  batch_size: [8, 16, 64]
  workers: [1, 2]
  model.hidden: [[64], [128, 64]]
zip:
  - {algorithm: [ring, own-ring], precision: [float32, float64]}
  - epochs: [1, 2]
    seed: [1, 2]
include:
  - {model: softmax, workers: 1}
exclude:
  - {workers: 2, batch_size: 8}
repeats: 2
order: blocks
baseline: auto
target: {metric: validation_accuracy, value: 0.9, stop: true}
timeout_s: 600
stall_timeout_s: 30
"""
COMMAND = """\
base:
  command: python train.py --workers {workers} --batch {batch_size}
  strategy: mpi
  launcher: mpirun
matrix:
  workers: [1, 2]
  batch_size:
    - 8
    - 16
"""

ODD = [
    "", "~", "null", "true", "false", "yes", "0", "-1", "-0.0", "1e-3", "1e400", "9" * 30, "9" * 6000, ".nan", ".inf",
    "-.inf", "0x10", "1_000", "4:30", "2024-01-01", "3.7", "1e308", "9223372036854775807", "[]", "{}", "[1, 2]",
    "[[1], [2]]", "[~]", "[true, false]", "{a: 1}", "{a: {b: {c: 1}}}", "[[[[[[1]]]]]]", "[" * 40, "'", '"', "''",
    "'8'", '"\\0"', '"\\ud800"', '"\\x1b[31m"', "*x", "&x 1", "&x [*x]", "!!int 3", "!!python/none x", "|", ">-", "- 1",
    "한국어", "모델", "é", "🦊", "\u200b", "\ufeff", "\x00", "\x07", "\u0085", "\ud800", "x" * 5000, "a" * 300 + ":b",
    "mlpp", "mlp", "cnn", "softmax", "resnet20", "synthetic", "image_folder", "digits", "numpy", "keras-tensorflow",
    "single", "mpi", "local", "direct", "simulated", "auto", "ring", "global", "epochs", "scale-out", "scale-up",
    "os:system", "os.path:nothing", "a:b", ":", "json:loads", "dlbench:main", "../../etc/passwd", "/dev/zero",
    "{workers}", "sqrt", "python {worker", "{}", "%s", "$(rm)", "`x`", "<<: *x", "? a", "---", "...", "#", "%YAML 1.1",
]  # fmt: skip
KEYS = [
    "workers", "worker", "batch_size", "model", "dataset", "dataset.path", "model.hidden", "model.nothing", "model.",
    ".hidden", "nothing.at.all", "strategy", "strategy.chunk_bytes", "launcher", "launcher.mca", "driver", "algorithm",
    "mode", "workers_per_host", "cores_per_worker", "command", "seed", "base", "matrix", "zip", "include", "exclude",
    "repeats", "name", "target", "8", "true", "~", "'quoted'", "한국어", "<<", "[1]", "train_samples", "divide",
]  # fmt: skip

Lines = list[str]


def drop(lines: Lines, draw: random.Random) -> None:
    del lines[draw.randrange(len(lines))]


def duplicate(lines: Lines, draw: random.Random) -> None:
    lines.insert(draw.randrange(len(lines) + 1), draw.choice(lines))


def indent(lines: Lines, draw: random.Random) -> None:
    at = draw.randrange(len(lines))
    lines[at] = draw.choice([" ", "  ", "    ", "\t", "      "]) + lines[at]


def dedent(lines: Lines, draw: random.Random) -> None:
    at = draw.randrange(len(lines))
    lines[at] = lines[at].removeprefix("  ")


def swap(lines: Lines, draw: random.Random) -> None:
    one, other = draw.randrange(len(lines)), draw.randrange(len(lines))
    lines[one], lines[other] = lines[other], lines[one]


def replace_value(lines: Lines, draw: random.Random) -> None:
    at = draw.randrange(len(lines))
    key, colon, _ = lines[at].partition(":")
    lines[at] = f"{key}{colon} {draw.choice(ODD)}" if colon else draw.choice(ODD)


def replace_item(lines: Lines, draw: random.Random) -> None:
    """Put an odd value into a list or mapping on one line."""
    at = draw.randrange(len(lines))
    parts = lines[at].split(",")
    which = draw.randrange(len(parts))
    parts[which] = draw.choice(["", " ", " ["]) + draw.choice(ODD)
    lines[at] = ",".join(parts)


def replace_key(lines: Lines, draw: random.Random) -> None:
    at = draw.randrange(len(lines))
    key, colon, value = lines[at].partition(":")
    spaces = key[: len(key) - len(key.lstrip())]
    lines[at] = f"{spaces}{draw.choice(KEYS)}{colon or ':'}{value}"


def add_entry(lines: Lines, draw: random.Random) -> None:
    where = draw.randrange(len(lines) + 1)
    lines.insert(where, f"{draw.choice(['', '  '])}{draw.choice(KEYS)}: {draw.choice(ODD)}")


def break_letter(lines: Lines, draw: random.Random) -> None:
    at = draw.randrange(len(lines))
    where = draw.randrange(len(lines[at]) + 1)
    lines[at] = lines[at][:where] + draw.choice(list("{}[]:,&*#?|-<>=!%@`'\"\\ \t가\x01")) + lines[at][where + 1 :]


MUTATIONS: list[Callable[[Lines, random.Random], None]] = [
    drop, duplicate, indent, dedent, swap, replace_value, replace_value, replace_value, replace_item, replace_item,
    replace_key, add_entry, add_entry, break_letter,
]  # fmt: skip


@cache
def originals() -> tuple[str, ...]:
    """Return scenarios that are valid on one machine; those of pictures are only where the pictures are."""
    texts = [path.read_text(encoding="utf-8") for path in sorted(SCENARIOS.glob("*.yaml"))]
    return RICH, COMMAND, *(text for text in texts if "image_folder" not in text and "--hosts" not in text)


def mutant(number: int) -> str:
    """Return the same mutant for the same number, always."""
    draw = random.Random(number)
    lines = draw.choice(originals()).splitlines()
    for _ in range(draw.choice([1, 1, 1, 2, 3, 5])):
        if lines:
            draw.choice(MUTATIONS)(lines, draw)
    return "\n".join(lines) + "\n"


def judged(text: str) -> str:
    """Return `valid` or `refused`; anything else is a defect and raises."""
    try:
        scenario = parse(text, "mutant.yaml")
        runs = expand(scenario, CLUSTER)
        doubts(scenario, runs, CLUSTER)
    except UserError as error:
        message = str(error)
        assert message.startswith("mutant.yaml"), message
        assert len(message) < 5000, message
        return "refused"
    assert runs
    assert len({run.run_id for run in runs}) == len(runs)
    return "valid"


def test_the_originals_are_valid() -> None:
    assert [judged(text) for text in originals()] == ["valid"] * len(originals())


@pytest.mark.timeout(600)
def test_every_mutant_is_a_plan_or_one_message() -> None:
    counts: Counter[str] = Counter()
    for number in range(NUM_MUTANTS):
        text = mutant(number)
        try:
            counts[judged(text)] += 1
        except Exception as error:  # noqa: BLE001  (the test names the mutant)
            pytest.fail(f"mutant {number}: {type(error).__name__}: {error}\n{text[:3000]}")
    # Both kinds must be there in number, or the mutations prove nothing.
    assert min(counts["valid"], counts["refused"]) > NUM_MUTANTS // 20, counts


@pytest.mark.parametrize("number", range(40))
def test_the_command_line_ends_with_0_or_2(number: int, tmp_path: Path) -> None:
    path = tmp_path / "mutant.yaml"
    path.write_bytes(mutant(NUM_MUTANTS + number).encode(errors="surrogatepass"))
    result = CliRunner().invoke(group, ["check", str(path), "--studies", str(tmp_path / "studies")])
    assert result.exit_code in (0, 2), result.exception
    assert "Traceback" not in result.output
    assert isinstance(result.exception, SystemExit | None)
    if result.exit_code == 2:
        assert result.stderr.startswith("dlbench: ")
        assert str(path) in result.stderr
