import sys

import pytest
from pydantic import ValidationError

from dlbench import plugins
from dlbench.datasets import _keras
from dlbench.datasets._keras import WordsOptions
from dlbench.errors import UserError


def test_data_sets_are_described_without_keras() -> None:
    for name, expected in (
        ("imdb", (25_000, 25_000, 2, (40,), 500)),
        ("reuters", (8_982, 2_246, 46, (40,), 500)),
        ("mnist", (60_000, 10_000, 10, (28, 28, 1), None)),
        ("fashion-mnist", (60_000, 10_000, 10, (28, 28, 1), None)),
    ):
        plugin = plugins.load("datasets", f"keras:{name}")
        options = {"num_words": 500, "sequence_length": 40} if expected[4] else {}
        found = plugin.target.describe(plugin.options(**options))  # type: ignore[arg-type]
        sizes = (found.num_train, found.num_validation, found.num_classes, found.input_shape, found.vocabulary)
        assert sizes == expected, name
        assert found.target_shape == ()
    with pytest.raises(ValidationError):
        WordsOptions(num_words=3)


def test_a_missing_keras_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "keras", None)
    with pytest.raises(UserError, match="needs keras, which is not installed"):
        _keras.import_keras()
