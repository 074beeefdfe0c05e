"""One contract over every plugin of every kind: what the docstring of the kind's folder demands is there."""

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
    "strategies": {"create": 3},
    "trainers": {"create": 7},
    "drivers": {"connect": 1},
    "launchers": {"available": 0, "argv": 5, "environment": 3},
    "submitters": {"available": 0, "inside": 2},
    "sensors": {"available": 0, "open": 1},
    "figures": {},
}
# Functions a plugin may have; where it does, they are called with so many arguments.
OPTIONAL = {
    "strategies": {"environment": 2, "available": 1, "refuse": 2},
    "models": {"keras": 2, "numpy": 2, "refuse": 2},
    "datasets": {"describe": 1},
    "submitters": {"text": 2, "submit": 2, "job": 3, "one_for_each_run": 1},
}

EVERY = [(kind, name) for kind in plugins.FOLDERS for name in plugins.names(kind)]


def of(kind):
    return pytest.mark.parametrize("name", plugins.names(kind))


@pytest.fixture
def plugin(request):
    kind, name = request.param
    return plugins.load(kind, name)


every_plugin = pytest.mark.parametrize("plugin", EVERY, indirect=True, ids=[f"{kind}-{name}" for kind, name in EVERY])


def test_the_kinds_are_all_under_contract():
    assert set(FUNCTIONS) == set(plugins.FOLDERS)
    assert {kind for kind, _ in EVERY} >= {"datasets", "drivers", "launchers", "models", "sensors", "strategies"}


@every_plugin
def test_a_plugin_is_documented_in_one_line(plugin):
    # It stands in the tables of `dlbench list`.
    assert re.fullmatch(r"[A-Z`].{5,118}\.", plugin.doc)


@every_plugin
def test_a_plugins_name_can_be_written_in_a_scenario(plugin):
    assert re.fullmatch(r"[a-z][a-z0-9_]*(:[a-z][a-z0-9_]*)?", plugin.name)


@every_plugin
def test_options_are_frozen_and_know_their_names(plugin):
    assert issubclass(plugin.get("OPTIONS"), plugins.Options)
    assert plugin.options is plugin.get("OPTIONS")
    assert plugin.options.model_config["frozen"] is True
    with pytest.raises(ValidationError, match="Extra inputs are not permitted"):
        plugin.options(no_such_option=1)


@every_plugin
def test_every_option_is_described(plugin):
    described = {name: field.description or "" for name, field in plugin.options.model_fields.items()}
    assert [name for name, text in described.items() if len(text) < 10 or not text.endswith(".")] == []


@every_plugin
def test_the_functions_that_its_kind_demands_are_there(plugin):
    demanded = FUNCTIONS[plugin.kind]
    assert [name for name in demanded if not callable(plugin.get(name))] == []
    offered = {name: count for name, count in OPTIONAL.get(plugin.kind, {}).items() if plugin.get(name) is not None}
    for name, count in (demanded | offered).items():
        # Raises TypeError where the function cannot be called so.
        inspect.signature(plugin.get(name)).bind(*[None] * count)


@every_plugin
def test_every_public_function_of_a_plugin_is_annotated_and_documented(plugin):
    functions = [
        member
        for name, member in inspect.getmembers(plugin.target, inspect.isfunction)
        if member.__module__ == plugin.target.__name__ and not name.startswith("_")
    ]
    assert [function.__name__ for function in functions if not function.__doc__] == []
    for function in functions:
        signature = inspect.signature(function)
        assert signature.return_annotation is not signature.empty, function.__name__
        assert [p.name for p in signature.parameters.values() if p.annotation is p.empty] == [], function.__name__


@of("models")
def test_a_model_has_a_builder_that_some_trainer_calls(name):
    builders = {plugins.load("trainers", trainer).get("BUILDER") for trainer in plugins.names("trainers")}
    assert [builder for builder in builders if callable(plugins.load("models", name).get(builder))]


@of("trainers")
def test_a_trainer_says_what_it_takes(name):
    trainer = plugins.load("trainers", name)
    assert trainer.get("BUILDER").isidentifier()
    assert trainer.get("BACKEND")
    assert "sgd" in trainer.get("OPTIMIZERS")
    assert "float32" in trainer.get("PRECISIONS")
    assert set(map(str, trainer.get("PRECISIONS"))) <= {precision.value for precision in Precision}


@of("strategies")
def test_a_strategy_says_what_it_needs_of_what_there_is(name):
    needs = plugins.load("strategies", name).get("NEEDS")
    assert isinstance(needs, Needs)
    assert set(needs.collectives) <= COLLECTIVES
    assert set(needs.drivers) <= set(plugins.names("drivers"))
    assert set(needs.trainers) <= set(plugins.names("trainers"))
    assert len(set(needs.algorithms)) == len(needs.algorithms)
    assert needs.min_workers >= 1
    assert needs.max_workers is None or needs.max_workers >= needs.min_workers


@of("strategies")
def test_some_launcher_can_serve_a_strategy(name):
    needed = set(plugins.load("strategies", name).get("NEEDS").collectives)
    provided = [set(plugins.load("launchers", launcher).get("PROVIDES")) for launcher in plugins.names("launchers")]
    assert not needed or any(needed & found for found in provided)


@of("launchers")
def test_a_launcher_says_what_it_provides(name):
    launcher = plugins.load("launchers", name)
    assert isinstance(launcher.get("PROVIDES"), tuple)
    assert set(launcher.get("PROVIDES")) <= COLLECTIVES
    assert isinstance(launcher.get("MULTIPLE_HOSTS"), bool)
    assert isinstance(launcher.get("available")(), str)


@of("sensors")
def test_a_sensor_says_what_it_reads(name):
    sensor = plugins.load("sensors", name)
    quantities = sensor.get("QUANTITIES")
    assert quantities
    assert [quantity for quantity in quantities if not re.fullmatch(r"[a-z][a-z0-9_]*", quantity)] == []
    assert [quantity for quantity, meaning in quantities.items() if not meaning.endswith(".")] == []
    assert isinstance(sensor.get("PER_HOST", False), bool)
    assert isinstance(sensor.get("available")(), bool)


@pytest.mark.parametrize("kind", plugins.FOLDERS)
def test_a_folder_holds_nothing_but_plugins_and_what_is_theirs(kind):
    folder = Path(importlib.import_module(plugins.FOLDERS[kind]).__file__).parent
    files = {path.stem for path in folder.glob("*.py") if not path.stem.startswith("_")}
    assert files <= set(plugins.names(kind))
    assert [name for name in files if plugins.load(kind, name).get("OPTIONS") is None] == []


@pytest.mark.parametrize("kind", plugins.FOLDERS)
def test_a_folder_says_what_its_files_must_hold(kind):
    doc = importlib.import_module(plugins.FOLDERS[kind]).__doc__
    missing = [name for name in FUNCTIONS[kind] if f"def {name}(" not in doc and f"`{name}(" not in doc]
    assert missing == []
