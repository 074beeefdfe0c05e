"""Keras's own loaders on small files of their formats, in a Keras folder of the test's own; nothing is downloaded."""

import gzip
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dlbench.datasets._format import Arrays, open_arrays

pytestmark = pytest.mark.tensorflow

# Keras compares files with checksums of the whole data sets: any file passes here, and at last none does.
PROGRAM = """
import json, sys
from dlbench.datasets import _keras
_keras.ROWS = 7  # several pieces
from dlbench.datasets._prepare import PreparationRequest, prepare
from dlbench.errors import UserError
_keras.import_keras()
import keras.src.utils.file_utils as files
validate_file, files.validate_file = files.validate_file, lambda *arguments, **options: True
for request in json.loads(sys.argv[1]):
    entry = prepare(PreparationRequest(**request), lambda line: None)
    print(json.dumps({"folder": str(entry.folder), "checksum": entry.meta.checksum}))
files.validate_file = validate_file
try:
    prepare(PreparationRequest(dataset="keras:fashion_mnist", cache="other cache"), lambda line: None)
except UserError as error:
    print(json.dumps(str(error)))
"""
DATASETS: dict[str, dict[str, Any]] = {
    "keras:mnist": {},
    "keras:fashion_mnist": {},
    "keras:imdb": {"num_words": 50, "sequence_length": 6},
    "keras:reuters": {"num_words": 300, "sequence_length": 6, "padding": "post", "truncating": "post"},
}
RANDOM = np.random.default_rng(0)
IMAGES = RANDOM.integers(0, 256, (30, 28, 28)).astype(np.uint8)
CLASSES = (np.arange(30) % 10).astype(np.uint8)
TEXTS = [RANDOM.integers(1, 80, length).tolist() for length in range(1, 41)]


def ragged(texts: list[list[int]]) -> np.ndarray:
    found = np.empty(len(texts), object)
    found[:] = texts
    return found


def write_files(folder: Path) -> None:
    folder.mkdir(parents=True)
    parts = {"x_train": IMAGES[:20], "y_train": CLASSES[:20], "x_test": IMAGES[20:], "y_test": CLASSES[20:]}
    np.savez(folder / "mnist.npz", **parts)
    (folder / "fashion-mnist").mkdir()
    for name, images, classes in (("train", IMAGES[:20], CLASSES[:20]), ("t10k", IMAGES[20:], CLASSES[20:])):
        for kind, header, content in (("images-idx3", 16, images), ("labels-idx1", 8, classes)):
            path = folder / "fashion-mnist" / f"{name}-{kind}-ubyte.gz"
            path.write_bytes(gzip.compress(bytes(header) + content.tobytes()))
    half = {"x_train": ragged(TEXTS[:20]), "x_test": ragged(TEXTS[20:])}
    np.savez(folder / "imdb.npz", y_train=np.arange(20) % 2, y_test=np.arange(20) % 2, **half)
    np.savez(folder / "reuters.npz", x=ragged(TEXTS), y=np.arange(40) % 46)


def test_prepared_arrays_equal_the_files(tmp_path: Path) -> None:
    write_files(tmp_path / "keras" / "datasets")
    requests = [{"dataset": name, "options": options, "cache": "cache"} for name, options in DATASETS.items()]
    # The proxy is nowhere, so that nothing is downloaded even where there is a network.
    own = {"KERAS_HOME": str(tmp_path / "keras"), "HOME": str(tmp_path), "https_proxy": "http://127.0.0.1:9"}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, json.dumps(requests)],
        env={**os.environ, **own, "KERAS_BACKEND": "tensorflow"},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "oneDNN" not in done.stderr
    *answers, refusal = (json.loads(line) for line in done.stdout.splitlines() if line.startswith(("{", '"')))
    assert "Keras cannot load fashion_mnist" in refusal
    assert str(tmp_path / "keras" / "datasets") in refusal
    arrays = {
        name: open_arrays(Path(answer["folder"]), answer["checksum"])
        for name, answer in zip(DATASETS, answers, strict=True)
    }
    check_images(arrays["keras:mnist"], last_class="9")
    check_images(arrays["keras:fashion_mnist"], last_class="Ankle boot")
    imdb, reuters = arrays["keras:imdb"], arrays["keras:reuters"]
    assert (imdb.vocabulary, imdb.input_shape, imdb.x.dtype) == (50, (6,), np.uint8)
    check_texts([imdb.x], [([0] * 6 + in_words(text, 50))[-6:] for text in TEXTS[:20]])
    assert (reuters.vocabulary, reuters.input_shape, reuters.x.dtype) == (300, (6,), np.uint16)
    check_texts([reuters.x, reuters.validation_x], [([*in_words(text, 300), *[0] * 6])[:6] for text in TEXTS])
    assert (imdb.num_classes, reuters.num_classes, len(reuters.x)) == (2, 46, 32)


def check_images(found: Arrays, last_class: str) -> None:
    assert np.array_equal(found.x, IMAGES[:20, ..., np.newaxis])
    assert found.validation_x is not None
    assert np.array_equal(found.validation_x, IMAGES[20:, ..., np.newaxis])
    assert found.y.tolist() == CLASSES[:20].tolist()
    assert (found.scale, found.num_classes, found.vocabulary) == (1 / 255, 10, None)
    assert found.class_names[9] == last_class


def in_words(text: list[int], num_words: int) -> list[int]:
    """Return a text as Keras numbers its words: 1 starts it, 2 is too rare."""
    return [1, *(word + 3 if word + 3 < num_words else 2 for word in text)]


def check_texts(parts: list[Any], expected: list[list[int]]) -> None:
    rows = [row for part in parts for row in part.tolist()]
    assert sorted(rows) == sorted(expected)  # Keras shuffles them
