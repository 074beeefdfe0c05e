"""Each setting says once what it changes; lists of settings are derived from that."""

from typing import Annotated

import pytest

from dlbench.scenario import settings
from dlbench.scenario.expand.arms import is_shared
from dlbench.scenario.settings import Affects, Settings, affected_by, option_prefixes_of, settings_of


def test_every_setting_says_once_what_it_changes() -> None:
    said = {
        name: [found for found in field.metadata if isinstance(found, Affects)]
        for name, field in Settings.model_fields.items()
    }
    assert {name: len(found) for name, found in said.items() if len(found) != 1} == {}
    assert sorted(settings_of(*Affects)) == sorted(Settings.model_fields)


def test_a_setting_that_does_not_say_it_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    class More(Settings):
        silent: int = 1
        telling: Annotated[int, Affects.STEP] = 1

    monkeypatch.setattr(settings, "Settings", More)
    assert affected_by("telling") is Affects.STEP
    with pytest.raises(LookupError):
        affected_by("silent")
    with pytest.raises(LookupError):
        settings_of(Affects.OBSERVATION)


def test_every_setting_has_a_meaning() -> None:
    for name, field in Settings.model_fields.items():
        assert (field.description or "").endswith("."), name


def test_a_base_line_has_all_of_its_group_but_the_distribution() -> None:
    own = [name for name in Settings.model_fields if not is_shared(name)]
    assert own == [*settings_of(Affects.DISTRIBUTION)]
    assert {"strategy", "workers", "mode", "workers_per_host", "launcher"} < set(own)
    assert [prefix for prefix in option_prefixes_of(*Affects) if not is_shared(f"{prefix}x")] == [
        "strategy.", "launcher.", "communicator.", "compression.",
    ]  # fmt: skip
    assert is_shared("study")
