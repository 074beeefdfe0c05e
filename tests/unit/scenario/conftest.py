"""A small house of plugins with every property that a scenario is checked against, in place of the real ones."""

from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest
from pydantic import Field

from dlbench import plugins
from dlbench.datasets import Description
from dlbench.errors import UserError, nearest
from dlbench.scenario.cluster import Cluster, Host
from dlbench.scenario.expand.runs import expand
from dlbench.scenario.needs import Exchange, Needs
from dlbench.scenario.read.scenario_file import parse
from dlbench.scenario.run_spec import RunSpec

Runs = tuple[RunSpec, ...]


class MlpOptions(plugins.Options):
    hidden: tuple[int, ...] = (128,)
    scale: float = 1.0


class ConvOptions(plugins.Options):
    filters: int = Field(8, ge=1)
    batch_norm: str = "none"


class FolderOptions(plugins.Options):
    path: str


class MpiOptions(plugins.Options):
    chunk_bytes: int = 1024


class MpirunOptions(plugins.Options):
    extra: tuple[str, ...] = ()


def module(**attributes: Any) -> ModuleType:
    module = ModuleType("fake", "A fake.")
    vars(module).update({"OPTIONS": plugins.Options} | attributes)
    return module


def _describe_folder(options: FolderOptions) -> Description:
    if options.path == "missing":
        raise UserError("there is no folder 'missing'")
    if options.path == "broken":
        raise PermissionError(13, "Permission denied")
    return Description(1000, 100, (8, 8, 3), 10)


def _refuse_flat(samples: Description, options: ConvOptions) -> str:
    shape = samples.input_shape or ()
    return "" if len(shape) == 3 else f"it takes images, not samples of shape {list(shape)}"


def build(*_: Any) -> None:
    """Stand for a builder."""


ALL = ("float32", "float64", "mixed_bfloat16", "mixed_float16")
HOUSE = {
    "models": {
        "mlp": module(OPTIONS=MlpOptions, keras=build, numpy=build),
        "conv": module(OPTIONS=ConvOptions, keras=build, refuse=_refuse_flat),
    },
    "datasets": {
        "digits": module(describe=lambda options: Description(1000, 0, (64,), 10)),
        "image_folder": module(OPTIONS=FolderOptions, describe=_describe_folder),
        "silent": module(describe=lambda options: None),
        "shapeless": module(describe=lambda options: Description(1000, 100, None, 10)),
    },
    "trainers": {
        "numpy": module(
            BUILDER="numpy",
            OPTIMIZERS=("sgd", "adam"),
            OPTIMIZER_SETTINGS={"momentum": ("sgd",)},
            PRECISIONS=("float32", "float64"),
        ),
        "keras_tensorflow": module(
            BUILDER="keras",
            OPTIMIZERS=("sgd", "rmsprop", "adam"),
            OPTIMIZER_SETTINGS={"momentum": ("sgd", "rmsprop"), "nesterov": ("sgd",), "weight_decay": ("sgd", "adam")},
            PRECISIONS=ALL,
            JIT=True,
            ACCUMULATES=True,
            HOLDS_SAMPLES=True,
            REPEATS_STEPS=True,
        ),
    },
    "strategies": {
        "single": module(NEEDS=Needs(exchange=Exchange.INSIDE, max_workers=1, changes_batch=True)),
        "mpi": module(
            OPTIONS=MpiOptions,
            NEEDS=Needs(
                collectives=("mpi",),
                communicators=("mpi",),
                algorithms=("auto", "ring", "own-ring"),
                compresses=True,
                changes_batch=True,
            ),
        ),
        "multi_worker": module(NEEDS=Needs(communicators=("mpi",))),
        "nodes": module(NEEDS=Needs.of_nodes(compresses=True)),
        "pair": module(NEEDS=Needs(min_workers=2, trainers=("keras_tensorflow",))),
        "within": module(NEEDS=Needs(exchange=Exchange.INSIDE)),
        "fast": module(NEEDS=Needs(collectives=("nccl",))),
        "plain": module(NEEDS=Needs(jit=False)),
        "replicas": module(NEEDS=Needs(one_process=True)),
    },
    "communicators": {"mpi": module(), "simulated": module()},
    "compressors": {
        "threshold": module(create=build, refuse=lambda options, settings: "no adam" * (settings.optimizer == "adam")),
        "low_rank": module(bind=build),
    },
    "launchers": {
        "local": module(PROVIDES=(), MULTIPLE_HOSTS=False),
        "mpirun": module(
            OPTIONS=MpirunOptions,
            PROVIDES=("mpi",),
            MULTIPLE_HOSTS=True,
            refuse_hosts=lambda addresses: f"not {addresses}" if "[::2]" in addresses else "",
        ),
    },
    "submitters": {"direct": module(), "sbatch": module()},
}


@pytest.fixture(autouse=True)
def house(monkeypatch: pytest.MonkeyPatch) -> None:
    """Replace the folders of plugins; references by `package.module:function` stay real."""
    real = plugins.load

    def load(kind: str, name: str) -> plugins.Plugin:
        found = HOUSE[kind].get(plugins.canonical(name))
        if found is None:
            if ":" in name:
                return real(kind, name)
            raise UserError(f"there is no {name!r} among the {kind}", hint=nearest(name, HOUSE[kind]))
        return plugins.Plugin(kind, plugins.canonical(name), "A fake.", found.OPTIONS, found)

    monkeypatch.setattr(plugins, "names", lambda kind: tuple(sorted(HOUSE.get(kind, ()))))
    monkeypatch.setattr(plugins, "load", load)


def machine(cores: int = 4) -> Cluster:
    """Return a machine with so many cores, whatever this one has."""
    return Cluster(hosts=(Host(address="localhost", slots=cores, cores=tuple(range(cores))),))


@pytest.fixture
def runs() -> Callable[..., Runs]:
    """Return a function from YAML text (and options of `expand`) to runs."""

    def make(text: str, cluster: Cluster | None = None, **options: Any) -> Runs:
        return expand(parse(text, "s.yaml"), cluster or machine(), **options)

    return make


@pytest.fixture
def refusal(runs: Callable[..., Runs]) -> Callable[..., str]:
    """Return a function from YAML text to the message it is refused with."""

    def make(text: str, cluster: Cluster | None = None, **options: Any) -> str:
        with pytest.raises(UserError) as caught:
            runs(text, cluster, **options)
        return str(caught.value)

    return make
