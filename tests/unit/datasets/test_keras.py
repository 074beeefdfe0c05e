import sys

import pytest
from pydantic import ValidationError

from dlbench import plugins
from dlbench.datasets import Description, _keras
from dlbench.datasets._keras import WordsOptions
from dlbench.errors import UserError


def test_data_sets_are_described_without_keras() -> None:
    words = {"num_words": 500, "sequence_length": 40}
    for name, options, expected in (
        ("imdb", words, Description(25_000, 25_000, (40,), 2, vocabulary=500)),
        ("reuters", words, Description(8_982, 2_246, (40,), 46, vocabulary=500)),
        ("mnist", {}, Description(60_000, 10_000, (28, 28, 1), 10)),
        ("fashion-mnist", {}, Description(60_000, 10_000, (28, 28, 1), 10)),
    ):
        plugin = plugins.load("datasets", f"keras:{name}")
        assert plugin.target.describe(plugin.options(**options)) == expected, name  # type: ignore[arg-type]
    with pytest.raises(ValidationError):
        WordsOptions(num_words=3)


def test_a_missing_keras_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "keras", None)
    with pytest.raises(UserError, match="needs keras, which is not installed"):
        _keras.import_keras()
