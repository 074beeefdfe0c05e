"""Keras's own loaders on small files of their formats, in a Keras folder of the test's own; nothing is loaded."""

import gzip
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dlbench.datasets._open import Arrays, open_arrays
from tests.unit.datasets import cifar

pytestmark = pytest.mark.tensorflow

# Keras compares files with checksums of the whole data sets; here, and nowhere else, any file is taken for whole.
PROGRAM = """
import json, sys
from dlbench.datasets._prepare import Request, prepare, summary
import dlbench.datasets.keras._load as own
keras = own._keras()
import keras.src.utils.file_utils as files
files.validate_file = lambda *arguments, **options: True
for request in json.loads(sys.argv[1]):
    print(json.dumps(summary(prepare(Request(**request), lambda line: None))))
"""
DATASETS: dict[str, dict[str, Any]] = {
    "keras:mnist": {},
    "keras:fashion_mnist": {},
    "keras:imdb": {"num_words": 50, "sequence_length": 6},
    "keras:reuters": {"num_words": 50, "sequence_length": 6, "padding": "post"},
    "keras:cifar100": {"labels": "coarse"},
}
RANDOM = np.random.default_rng(0)
PICTURES = RANDOM.integers(0, 256, (30, 28, 28)).astype(np.uint8)
CLASSES = (np.arange(30) % 10).astype(np.uint8)
TEXTS = [RANDOM.integers(1, 80, length).tolist() for length in range(1, 41)]


def ragged(texts: list[list[int]]) -> np.ndarray:
    found = np.empty(len(texts), object)
    found[:] = texts
    return found


def write_files(folder: Path) -> None:
    folder.mkdir(parents=True)
    parts = {"x_train": PICTURES[:20], "y_train": CLASSES[:20], "x_test": PICTURES[20:], "y_test": CLASSES[20:]}
    np.savez(folder / "mnist.npz", **parts)
    (folder / "fashion-mnist").mkdir()
    for name, pictures, classes in (("train", PICTURES[:20], CLASSES[:20]), ("t10k", PICTURES[20:], CLASSES[20:])):
        for kind, header, content in (("images-idx3", 16, pictures), ("labels-idx1", 8, classes)):
            path = folder / "fashion-mnist" / f"{name}-{kind}-ubyte.gz"
            path.write_bytes(gzip.compress(bytes(header) + content.tobytes()))
    half = {"x_train": ragged(TEXTS[:20]), "x_test": ragged(TEXTS[20:])}
    np.savez(folder / "imdb.npz", y_train=np.arange(20) % 2, y_test=np.arange(20) % 2, **half)
    np.savez(folder / "reuters.npz", x=ragged(TEXTS), y=np.arange(40) % 46)
    cifar.write_archive(folder / "cifar-100-python-target_archive", "cifar-100-python", cifar.cifar100())


def prepare(top: Path, requests: list[dict[str, Any]]) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "KERAS_HOME": str(top / "keras"), "HOME": str(top), "KERAS_BACKEND": "tensorflow"}
    return subprocess.run(
        [sys.executable, "-c", PROGRAM, json.dumps(requests)],
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


@pytest.fixture(scope="module")
def arrays(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Arrays]:
    top = tmp_path_factory.mktemp("keras")
    write_files(top / "keras" / "datasets")
    requests = [
        {"dataset": name, "options": options, "cache": str(top / "cache")} for name, options in DATASETS.items()
    ]
    done = prepare(top, requests)
    assert done.returncode == 0, done.stderr
    answers = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    return {
        name: open_arrays(Path(answer["folder"]), answer["checksum"])
        for name, answer in zip(DATASETS, answers, strict=True)
    }


@pytest.mark.parametrize("name", ["keras:mnist", "keras:fashion_mnist"])
def test_pictures_are_those_of_the_files(arrays: dict[str, Arrays], name: str) -> None:
    found = arrays[name]
    assert np.array_equal(found.x, PICTURES[:20, ..., np.newaxis])
    assert found.validation_x is not None
    assert np.array_equal(found.validation_x, PICTURES[20:, ..., np.newaxis])
    assert found.y.tolist() == CLASSES[:20].tolist()
    assert (found.scale, found.num_classes, found.vocabulary) == (1 / 255, 10, None)
    assert found.class_names[9] == ("9" if name == "keras:mnist" else "Ankle boot")


def test_cifar100_has_the_groups(arrays: dict[str, Arrays]) -> None:
    found = arrays["keras:cifar100"]
    assert np.array_equal(found.x, cifar.pictures(0, 200))
    assert found.y.tolist() == [row % 100 // 5 for row in range(200)]
    assert found.num_classes == 20


def in_words(text: list[int]) -> list[int]:
    """Return a text as Keras numbers its words: 1 starts it, 2 is too rare."""
    return [1, *(word + 3 if word + 3 < 50 else 2 for word in text)]


def test_texts_are_tokens_of_one_length(arrays: dict[str, Arrays]) -> None:
    for name, texts in (("keras:imdb", TEXTS[:20]), ("keras:reuters", TEXTS)):
        found = arrays[name]
        assert (found.vocabulary, found.input_shape, found.x.dtype) == (50, (6,), np.uint8)
        assert found.validation_x is not None
        rows = [tuple(row) for row in found.x.tolist()]
        if name == "keras:reuters":
            rows += [tuple(row) for row in found.validation_x.tolist()]
        filled = [[0] * 6 + in_words(text) if name == "keras:imdb" else in_words(text) for text in texts]
        expected = [tuple(text[-6:]) if len(text) >= 6 else tuple([*text, 0, 0, 0, 0, 0][:6]) for text in filled]
        assert sorted(rows) == sorted(expected)  # Keras shuffles them
    assert arrays["keras:imdb"].class_names == ("negative", "positive")
    assert (len(arrays["keras:reuters"].class_names), len(arrays["keras:reuters"].x)) == (46, 32)


def test_what_cannot_be_loaded_is_said_without_a_traceback(tmp_path: Path) -> None:
    # The proxy is nowhere, so that nothing is loaded even where there is a network.
    write_files(tmp_path / "keras" / "datasets")
    for name in ("keras:fashion_mnist", "keras:mnist"):
        done = subprocess.run(
            [
                sys.executable, "-m", "dlbench.datasets._prepare",
                json.dumps({"dataset": name, "cache": str(tmp_path / "cache")}),
            ],
            env={**os.environ, "KERAS_HOME": str(tmp_path / "keras"), "https_proxy": "http://127.0.0.1:9"},
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )  # fmt: skip
        assert done.returncode == 2, done.stderr
        assert f"Keras cannot load {name.partition(':')[2]}: Exception: URL fetch failure on" in done.stderr
        assert str(tmp_path / "keras" / "datasets") in done.stderr
        assert "Traceback" not in done.stderr
        assert "oneDNN" not in done.stderr
