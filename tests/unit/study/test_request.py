"""Runs that cannot be started here are refused before anything is."""

from types import SimpleNamespace
from typing import Any

import pytest

from dlbench.errors import UserError
from dlbench.scenario.run_spec import RunSpec
from dlbench.scenario.settings import Settings
from dlbench.strategies import horovod
from dlbench.study.request import must_be_launchable


def asked(**settings: Any) -> Any:
    run = RunSpec(scenario="s", label="", repeat=0, settings=Settings(**settings))
    return SimpleNamespace(runs=(run,), cluster=SimpleNamespace(is_here=False))


def test_a_strategy_whose_library_is_missing_is_refused_with_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(horovod, "find_spec", lambda name: None)
    with pytest.raises(UserError, match=r"the strategy 'horovod' cannot be used here: .*`make horovod` builds it"):
        must_be_launchable(asked(strategy="horovod", launcher="local"))
    must_be_launchable(asked(strategy="single", launcher="local"))
