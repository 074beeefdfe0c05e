"""Mistakes that people make in their first scenario: each message names the line and says what to write instead."""

from pathlib import Path

import pytest
from jsonschema import Draft202012Validator

from dlbench.errors import UserError
from dlbench.scenario.cluster import this_machine
from dlbench.scenario.expand.runs import expand
from dlbench.scenario.read.scenario_file import parse
from dlbench.scenario.read.schema import schema

BASE = "base:\n  dataset: digits\n  model: mlp\n  trainer: numpy\n"
# The text, the line that is named, and what the message says.
MISTAKES = (
    (BASE + "  workers: [1, 2]\n", 5, "several values are an axis: move `workers` to `matrix`"),
    ("base:\n  model: {name: mlp}\n", 2, "`model: NAME`, and beside it `model.OPTION: VALUE`"),
    ("base:\n  dataset: image_folder\n  dataset.path: x\n  dataset.image_size: 28\n", 4, "[height, width]: [28, 28]"),
    (BASE + "  batch_size: 32.5\n", 5, "must be a whole number, not 32.5"),
    (BASE + "  epochs: 5 epochs\n", 5, "must be a whole number, not '5 epochs'"),
    (BASE + "  learning_rate: fast\n", 5, "must be a number, not 'fast'"),
    (BASE + "timeout_s: 5 parsecs\n", 5, "write a number, or one with a unit: `4ms`, `4s`, `4min`"),
    (BASE + "  memory_limit_bytes: 4 gigs\n", 5, "`4GB`, `4TB`, `4KiB`, `4MiB`, `4GiB`"),
    ("base:\n  dataset: digits\n  model:mlp\n  workers: 2\n", 3, "write `model: mlp`"),
    ("base:\n  model:mlp\n  dataset: digits\n", 2, "write `model: mlp`"),
    ("base:\n  dataset: digits\n  model: a:b\n  matrix: [8\nrepeats: 2\n", 5, "not readable as YAML"),
    (BASE + "repeat: 3\n", 5, "did you mean 'repeats'?"),
    ("base:\n  dataset: mnist\n", 2, "keras:mnist"),
    ("base:\n  model: resnet\n", 2, "there is no 'resnet' among the models"),
    ("base:\n  strategy: horvod\n", 2, "did you mean 'horovod'?"),
    ("base:\n  optimizer: Adam\n", 0, "did you mean 'adam'?"),
    ("base:\n  device: gpu\n", 2, "unknown key 'device'"),
    ("base:\n  model: resnet20\n  trainer: numpy\n", 0, "cannot train the model resnet20; keras_jax or keras_t"),
    (BASE + "  strategy: mpi\n  workers: 1000\n", 0, "one batch of all workers is 32000 samples"),
)


def test_each_mistake_says_its_line_and_what_to_write(
    subtests: pytest.Subtests, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    cluster = this_machine()
    for text, line, said in MISTAKES:
        with subtests.test(text=text):
            with pytest.raises(UserError) as caught:
                expand(parse(text, "s.yaml"), cluster, {})
            message = str(caught.value)
            assert said in message
            assert not line or message.startswith(f"s.yaml:{line}: ")


def test_a_value_may_have_a_unit_where_a_unit_is_meant(subtests: pytest.Subtests) -> None:
    for written, seconds in (("5m", 300), ("1.5 h", 5400), ("250ms", 0.25), ("90", 90), ("2 min", 120), ("1d", 86400)):
        with subtests.test(written=written):
            assert parse(BASE + f"timeout_s: {written}\n", "s.yaml").limits.timeout_s == seconds
    for written, size in (("4GiB", 4 * 2**30), ("512 MiB", 2**29), ("4.1 GB", 4_100_000_000), ("2e6", 2_000_000)):
        with subtests.test(written=written):
            assert parse(BASE + f"  memory_limit_bytes: {written}\n", "s.yaml").base["memory_limit_bytes"] == size
    simulated = "base:\n  strategy: ring\n  communicator: simulated\n"
    for written, rate in (("10 Gbit/s", 1.25e9), ("1GB/s", 1e9)):
        with subtests.test(written=written):
            text = simulated + f"  communicator.bandwidth_bytes_per_s: {written}\n"
            assert parse(text, "s.yaml").base["communicator.bandwidth_bytes_per_s"] == rate


def test_editors_allow_what_the_reader_does(subtests: pytest.Subtests) -> None:
    validator = Draft202012Validator(schema())
    for limit, allowed in (
        ("5m", True),
        ("1.5 h", True),
        ("90", False),
        ("5 parsecs", False),
        ("m", False),
        (90, True),
    ):
        with subtests.test(limit=limit):
            assert validator.is_valid({"base": {}, "timeout_s": limit}) is allowed
    for rate, allowed in (("10 Gbit/s", True), ("1GB/s", True), ("1GB", False)):
        with subtests.test(rate=rate):
            assert validator.is_valid({"base": {"communicator.bandwidth_bytes_per_s": rate}}) is allowed
            assert validator.is_valid({"matrix": {"communicator.bandwidth_bytes_per_s": [rate]}}) is allowed
    assert parse("description: 5m\n", "s.yaml").description == "5m"  # which only looks like one
