"""Broken files by the thousand, each taken or refused in one clear message: `python -m tests.soak mutations --help`."""

import random
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

import click

from dlbench.errors import UserError
from dlbench.scenario import reference
from dlbench.scenario.check.warnings import warnings
from dlbench.scenario.cluster import Cluster, Host, cluster_file
from dlbench.scenario.cluster.host_list import parse_hostfile, parse_hosts
from dlbench.scenario.expand.arms import unused_excludes
from dlbench.scenario.expand.runs import expand
from dlbench.scenario.read.scenario_file import parse
from tests.soak import mutated_studies
from tests.soak.page import machine, table

CLUSTER = Cluster(hosts=(Host(address="localhost", slots=2, cores=(0, 1)),))
SCENARIOS = Path(__file__).parents[2] / "scenarios"
OUTCOMES = ("valid", "refused", "defect")
# A mutant that takes longer is a defect, however it ends.
MOST_S = 10.0
# A message that is longer is no clear one.
MOST_LETTERS = 5000
# A process reads so many at a time; the campaign says how far it is after each.
PART = 200

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
    momentum: [0.5, 0.9]
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

CLUSTERS = """\
hosts:
  - {address: node1, slots: 4, cores: 0-3}
  - address: node2
    slots: 4
    cores: [0, 1, "2-3"]
  - {address: "[fe80::1]", slots: 2}
launcher: mpirun
ssh: ssh -p 2222
interface: eth0
environment: {OMP_PLACES: cores, HOROVOD_CYCLE_TIME: 1}
prices: {currency: USD, host_hour: 0.5, worker_hour: 1}
emulated: [throttled-link]
"""
QUEUE = """\
hosts: {count: 4, slots: 8, cores: 0-7}
submitter: sbatch
submitter.partition: short
"""
HOSTFILE = """\
# Open MPI's own and MPICH's
node1 slots=4
node2   slots = 2  max_slots=8
node3:4
10.1.0.4
10.1.0.4

[fe80::1] slots=1
"""
HOST_LISTS = ("a:4,b:4", "localhost:2,b:2", "10.1.0.1:1,[fe80::1]:2,node-3.cluster:16")

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
    "communicator", "mode", "workers_per_host", "cores_per_worker", "command", "seed", "base", "matrix", "zip",
    "include", "exclude", "repeats", "name", "target", "8", "true", "~", "'quoted'", "한국어", "<<", "[1]",
    "train_samples", "divide",
]  # fmt: skip

Lines = list[str]
Mutation = Callable[[Lines, random.Random], None]


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


MUTATIONS: list[Mutation] = [
    drop, duplicate, indent, dedent, swap, replace_value, replace_value, replace_value, replace_item, replace_item,
    replace_key, add_entry, add_entry, break_letter,
]  # fmt: skip


def replace_cell(lines: Lines, draw: random.Random) -> None:
    """Put an odd value into a cell of a table."""
    at = draw.randrange(len(lines))
    cells = lines[at].split(",")
    cells[draw.randrange(len(cells))] = draw.choice(ODD)
    lines[at] = ",".join(cells)


def drop_cell(lines: Lines, draw: random.Random) -> None:
    at = draw.randrange(len(lines))
    cells = lines[at].split(",")
    del cells[draw.randrange(len(cells))]
    lines[at] = ",".join(cells)


TABLE_MUTATIONS: list[Mutation] = [*[replace_cell] * 8, drop_cell, drop, duplicate, swap, break_letter]


@cache
def scenarios() -> tuple[str, ...]:
    """Return scenarios that are valid on one machine; those of pictures or a text are only where these are."""
    texts = [path.read_text(encoding="utf-8") for path in sorted(SCENARIOS.glob("*.yaml"))]
    elsewhere = ("image_folder", "dataset: text", "--hosts")
    return RICH, COMMAND, *(text for text in texts if not any(word in text for word in elsewhere))


@cache
def clusters() -> tuple[str, ...]:
    """Return cluster files."""
    return CLUSTERS, QUEUE, *(path.read_text(encoding="utf-8") for path in sorted(SCENARIOS.glob("clusters/*.yaml")))


@cache
def references() -> tuple[str, ...]:
    """Return the published tables that come with dlbench."""
    return tuple(path.read_text(encoding="utf-8") for path in sorted(SCENARIOS.glob("reference/*.csv")))


def read_scenario(text: str) -> None:
    """Read, expand and check a scenario."""
    scenario = parse(text, NAME)
    runs = expand(scenario, CLUSTER)
    unused_excludes(scenario, CLUSTER)
    warnings(runs, CLUSTER)
    assert runs
    assert len({run.run_id for run in runs}) == len(runs)


def read_hosts(text: str) -> None:
    """Read hosts as a list where there are commas, else as a hostfile."""
    if "," in text:
        parse_hosts(text, NAME)
    else:
        parse_hostfile(text, NAME)


# What messages call a mutant; they begin with it.
NAME = "mutant"


@dataclass(frozen=True)
class Subject:
    """What is broken, and who reads it.

    Attributes:
        name: What it is.
        originals: Returns texts that are valid.
        read: Takes a text; raises `UserError` where it refuses it.
        mutations: The changes that are drawn from.
    """

    name: str
    originals: Callable[[], tuple[str, ...]]
    read: Callable[[str], object]
    mutations: Sequence[Mutation]

    def __str__(self) -> str:
        return self.name

    def mutant(self, number: int) -> tuple[str, str]:
        """Return a mutant and the name of the last change made to it: the same for the same number, always."""
        draw = random.Random(number)
        lines = draw.choice(self.originals()).splitlines()
        kind = "none"
        for _ in range(draw.choice([1, 1, 1, 2, 3, 5])):
            if lines:
                change = draw.choice(self.mutations)
                change(lines, draw)
                kind = change.__name__
        return "\n".join(lines) + "\n", kind

    def outcome(self, text: str) -> str:
        """Return `valid` or `refused`; anything else is a defect and raises."""
        begun = time.monotonic()
        try:
            self.read(text)
        except UserError as error:
            message = str(error)
            assert NAME in message.splitlines()[0], message
            assert len(message) < MOST_LETTERS, message
            message.encode()
            return "refused"
        finally:
            assert time.monotonic() - begun < MOST_S, f"it took {time.monotonic() - begun:.0f} s"
        return "valid"


SUBJECTS = {
    subject.name: subject
    for subject in (
        Subject("scenarios", scenarios, read_scenario, MUTATIONS),
        Subject("clusters", clusters, lambda text: cluster_file.parse(text, NAME), MUTATIONS),
        Subject("hosts", lambda: (HOSTFILE, *HOST_LISTS), read_hosts, MUTATIONS),
        Subject("references", references, lambda text: reference.parse(text, NAME), TABLE_MUTATIONS + MUTATIONS[:8]),
        Subject("studies", mutated_studies.files, mutated_studies.read, TABLE_MUTATIONS + MUTATIONS[:8]),
    )
}


@dataclass
class Outcomes:
    """What mutants led to: how many by (change, outcome), and each defect with the mutant's number."""

    counts: Counter[tuple[str, str]] = field(default_factory=Counter)
    defects: list[str] = field(default_factory=list)

    def number(self, of: str) -> int:
        """Return how many mutants were `valid`, `refused` or `defect`."""
        return sum(count for (_, found), count in self.counts.items() if found == of)


def try_all(subject: Subject, numbers: Iterable[int]) -> Outcomes:
    """Have the mutants of these numbers read."""
    found = Outcomes()
    for number in numbers:
        text, kind = subject.mutant(number)
        try:
            came = subject.outcome(text)
        except Exception as error:  # noqa: BLE001  (whatever it is, it is what is looked for)
            came = "defect"
            found.defects.append(f"mutant {number} ({kind}): {type(error).__name__}: {error}"[:1000])
        found.counts[kind, came] += 1
    return found


def _try_some(name: str, numbers: range) -> Outcomes:
    return try_all(SUBJECTS[name], numbers)


def page(subject: Subject, found: Outcomes, command: str, seconds: float) -> str:
    """Return the outcomes as a page."""
    kinds = sorted({kind for kind, _ in found.counts})
    rows = [[kind.replace("_", " "), *(str(found.counts[kind, of]) for of in OUTCOMES)] for kind in kinds]
    total = ["all", *(str(found.number(of)) for of in OUTCOMES)]
    how = (
        f"{command} took {seconds:.0f} s on {machine()}. Each mutant is one of {len(subject.originals())} valid files "
        f"with one to five random changes. It must be taken, or refused in one message that names it, within "
        f"{MOST_S:.0f} s; all else is a defect."
    )
    defects = [f"- {defect}" for defect in found.defects]
    parts = [f"# Broken {subject.name}", how, table(("last change", *OUTCOMES), [*rows, total]), *defects]
    return "\n\n".join(parts) + "\n"


@click.command("mutations")
@click.option("--of", "name", type=click.Choice(list(SUBJECTS)), default="scenarios", show_default=True)
@click.option("--mutants", default=5000, show_default=True, type=click.IntRange(min=1))
@click.option("--first", default=0, show_default=True, type=click.IntRange(min=0), help="Number of the first one.")
@click.option("--processes", default=1, show_default=True, type=click.IntRange(min=1), help="Read in so many at once.")
@click.option("--output", type=click.Path(path_type=Path), help="Folder for README.md; default: none.")
def main(name: str, mutants: int, first: int, processes: int, output: Path | None) -> None:
    """Files broken at random, thousands of them.

    Exit code 0 if each is taken or refused in one clear message.
    """
    begun, subject = time.monotonic(), SUBJECTS[name]
    found = Outcomes()
    with ProcessPoolExecutor(processes) as pool:
        parts = [range(start, min(start + PART, first + mutants)) for start in range(first, first + mutants, PART)]
        for part in pool.map(_try_some, [name] * len(parts), parts):
            found.counts += part.counts
            found.defects += part.defects
            click.echo(f"{found.counts.total():,} of {mutants:,} mutants, {len(found.defects)} defects", err=True)
    command = f"`python -m tests.soak mutations --of {name} --mutants {mutants} --first {first}`"
    text = page(subject, found, command, time.monotonic() - begun)
    if output is not None:
        output.mkdir(parents=True, exist_ok=True)
        (output / "README.md").write_text(text, encoding="utf-8")
    click.echo(text)
    sys.exit(bool(found.defects))
