"""Each setting says once what it changes; lists of settings are derived from that."""

from typing import Annotated

import pytest

from dlbench.scenario import settings
from dlbench.scenario.expand.arms import is_shared
from dlbench.scenario.settings import Affects, Setting, Settings, about, option_prefixes_of, settings_of


def test_every_setting_says_once_what_it_changes() -> None:
    said = {
        name: [found for found in field.metadata if isinstance(found, Setting)]
        for name, field in Settings.model_fields.items()
    }
    assert {name: len(found) for name, found in said.items() if len(found) != 1} == {}
    assert sorted(settings_of(*Affects)) == sorted(Settings.model_fields)


def test_a_setting_that_does_not_say_it_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    class More(Settings):
        silent: int = 1
        telling: Annotated[int, Setting(Affects.STEP)] = 1

    monkeypatch.setattr(settings, "Settings", More)
    assert about("telling").affects is Affects.STEP
    with pytest.raises(LookupError):
        about("silent")
    with pytest.raises(LookupError):
        settings_of(Affects.OBSERVATION)


def test_every_setting_has_a_meaning_and_where_its_name_ends_in_a_unit_says_the_same() -> None:
    for name, field in Settings.model_fields.items():
        assert (field.description or "").endswith("."), name
        for end, unit in (("_s", "s"), ("_bytes", "bytes")):
            assert not name.endswith(end) or about(name).unit == unit, name


def test_a_base_line_has_all_of_its_group_but_the_distribution() -> None:
    own = [name for name in Settings.model_fields if not is_shared(name)]
    assert own == [*settings_of(Affects.DISTRIBUTION)]
    assert {"strategy", "workers", "mode", "workers_per_host", "launcher"} < set(own)
    assert [prefix for prefix in option_prefixes_of(*Affects) if not is_shared(f"{prefix}x")] == [
        "strategy.", "launcher.", "communicator.",
    ]  # fmt: skip
    assert is_shared("study")
