"""One contract over every plugin of every kind: what the docstring of the kind's folder demands is there."""

import functools
import importlib
import inspect
import re
from pathlib import Path

import pytest
from pydantic import ValidationError

from dlbench import plugins
from dlbench.scenario.needs import Needs
from dlbench.scenario.settings import Precision

COLLECTIVES = {"mpi", "gloo", "nccl", "grpc"}

# Functions each kind demands, with the arguments they are called with by position.
FUNCTIONS = {
    "models": {},
    "datasets": {"identity": 1, "prepare": 2},
    "strategies": {},
    "trainers": {"create": 7},
    "communicators": {},
    "compressors": {},
    "launchers": {"available": 0, "argv": 5, "environment": 3},
    "submitters": {"available": 0, "inside": 2},
    "sensors": {"open": 1},
    "figures": {},
    "exporters": {"export": 2},
}
# Functions a plugin may have; where it does, they are called with so many arguments.
OPTIONAL = {
    "strategies": {
        "create": 3,
        "node": 5,
        "batches_per_update": 2,
        "share_of_gradient": 2,
        "environment": 2,
        "available": 1,
        "refuse": 2,
    },
    "communicators": {"connect": 1, "refuse": 2},
    "compressors": {"create": 4, "bind": 5, "refuse": 2},
    "trainers": {"make_flat_optimizer": 2},
    "models": {"keras": 2, "numpy": 2, "refuse": 2},
    "datasets": {"describe": 1},
    "sensors": {"available": 0},
    "submitters": {"text": 2, "submit": 2, "job": 3, "one_for_each_run": 1},
}


@functools.cache
def every():
    """Return every plugin of every kind by `kind.name`."""
    return {f"{kind}.{name}": plugins.load(kind, name) for kind in plugins.FOLDERS for name in plugins.names(kind)}


def of(kind):
    """Return the plugins of one kind by name."""
    return {name: plugins.load(kind, name) for name in plugins.names(kind)}


def test_the_kinds_are_all_under_contract():
    assert set(FUNCTIONS) == set(plugins.FOLDERS)
    assert {plugin.kind for plugin in every().values()} >= set(FUNCTIONS) - {"figures"}


def test_a_plugin_has_a_name_for_scenarios_and_one_line_for_lists():
    for name, plugin in every().items():
        assert re.fullmatch(r"[A-Z`].{5,118}\.", plugin.doc), name
        assert re.fullmatch(r"[a-z][a-z0-9_]*(:[a-z][a-z0-9_]*)?", plugin.name), name


def test_options_are_frozen_described_and_know_their_names(subtests):
    for name, plugin in every().items():
        with subtests.test(plugin=name):
            assert issubclass(plugin.options, plugins.Options)
            assert plugin.options is plugin.get("OPTIONS", plugins.Options)
            assert plugin.options.model_config["frozen"] is True
            with pytest.raises(ValidationError, match="Extra inputs are not permitted"):
                plugin.options(no_such_option=1)
            described = {option: field.description or "" for option, field in plugin.options.model_fields.items()}
            assert [option for option, text in described.items() if not re.fullmatch(r".{9,}\.", text, re.DOTALL)] == []


def test_a_strategy_reduces_for_a_loop_or_is_made_of_nodes_that_can_be_simulated():
    for name, plugin in of("strategies").items():
        needs = plugin.get("NEEDS")
        assert (needs.simulated or needs.nodes) == (plugin.get("node") is not None), name
        assert needs.nodes == (plugin.get("create") is None), name
        assert needs.nodes == ("simulated" in needs.communicators), name
    assert [name for name, plugin in of("communicators").items() if plugin.get("connect") is None] == ["simulated"]


def test_a_compressor_encodes_a_vector_or_reduces_what_it_sends():
    for name, plugin in of("compressors").items():
        assert (plugin.get("create") is None) != (plugin.get("bind") is None), name


def test_the_functions_that_its_kind_demands_are_there(subtests):
    for name, plugin in every().items():
        with subtests.test(plugin=name):
            demanded = FUNCTIONS[plugin.kind]
            assert [function for function in demanded if not callable(plugin.get(function))] == []
            optional = OPTIONAL.get(plugin.kind, {})
            offered = {function: count for function, count in optional.items() if plugin.get(function) is not None}
            for function, count in (demanded | offered).items():
                # Raises TypeError where the function cannot be called so.
                inspect.signature(plugin.get(function)).bind(*[None] * count)


def test_every_public_function_of_a_plugin_is_annotated_and_documented():
    for name, plugin in every().items():
        module = getattr(plugin.target, "__name__", type(plugin.target).__module__)  # a row of a table has no name
        for function_name, function in inspect.getmembers(plugin.target, inspect.isfunction):
            if function.__module__ != module or function_name.startswith("_"):
                continue
            signature = inspect.signature(function)
            assert function.__doc__, f"{name}: {function_name}"
            assert signature.return_annotation is not signature.empty, f"{name}: {function_name}"
            bare = [p.name for p in signature.parameters.values() if p.annotation is p.empty]
            assert bare == [], f"{name}: {function_name}"


def test_a_model_has_a_builder_that_some_trainer_calls():
    builders = {trainer.get("BUILDER") for trainer in of("trainers").values()}
    for name, model in of("models").items():
        assert any(callable(model.get(builder)) for builder in builders), name


def test_a_trainer_says_what_it_takes():
    for name, trainer in of("trainers").items():
        assert trainer.get("BUILDER").isidentifier(), name
        assert trainer.get("BACKEND"), name
        assert "sgd" in trainer.get("OPTIMIZERS"), name
        assert "float32" in trainer.get("PRECISIONS"), name
        assert set(map(str, trainer.get("PRECISIONS"))) <= {precision.value for precision in Precision}, name


def test_a_strategy_says_what_it_needs_of_what_there_is():
    provided = [set(launcher.get("PROVIDES")) for launcher in of("launchers").values()]
    for name, strategy in of("strategies").items():
        needs = strategy.get("NEEDS")
        assert isinstance(needs, Needs), name
        assert set(needs.collectives) <= COLLECTIVES, name
        assert set(needs.communicators) <= set(plugins.names("communicators")), name
        assert set(needs.trainers) <= set(plugins.names("trainers")), name
        assert len(set(needs.algorithms)) == len(needs.algorithms), name
        assert needs.min_workers >= 1, name
        assert needs.max_workers is None or needs.max_workers >= needs.min_workers, name
        needed = set(needs.collectives)
        assert not needed or any(needed & found for found in provided), f"no launcher serves {name}"


def test_a_launcher_says_what_it_provides():
    for name, launcher in of("launchers").items():
        assert isinstance(launcher.get("PROVIDES"), tuple), name
        assert set(launcher.get("PROVIDES")) <= COLLECTIVES, name
        assert isinstance(launcher.get("MULTIPLE_HOSTS"), bool), name
        assert isinstance(launcher.get("available")(), str), name


def test_a_sensor_says_what_it_reads():
    for name, sensor in of("sensors").items():
        quantities = sensor.get("QUANTITIES")
        assert quantities, name
        for quantity, meaning in quantities.items():
            assert re.fullmatch(r"[a-z][a-z0-9_]*", quantity), f"{name}: {quantity}"
            assert meaning.endswith("."), f"{name}: {quantity}"
        assert isinstance(sensor.get("PER_HOST", False), bool), name
        assert isinstance(sensor.get("available", lambda: True)(), bool), name


def test_a_folder_holds_nothing_but_plugins_and_says_what_they_must_hold():
    for kind, package in plugins.FOLDERS.items():
        module = importlib.import_module(package)
        files = {path.stem for path in Path(module.__file__).parent.glob("*.py") if not path.stem.startswith("_")}
        assert files <= set(plugins.names(kind)), kind
        without = [name for name in files if plugins.load(kind, name).get("OPTIONS") is None]
        assert kind in ("exporters", "figures") or without == [], kind
        missing = [
            name
            for name in FUNCTIONS[kind]
            if f"def {name}(" not in module.__doc__ and f"`{name}(" not in module.__doc__
        ]
        assert missing == [], kind
