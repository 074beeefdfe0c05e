"""Whether the trainer can compute what a run asks for, with its model and its data, as the plugins declare it."""

from collections.abc import Callable
from types import ModuleType
from typing import TYPE_CHECKING

from dlbench import plugins
from dlbench.errors import nearest, shown
from dlbench.plugins import Plugin
from dlbench.scenario.check.case import Case, num_training_samples
from dlbench.scenario.needs import Needs
from dlbench.scenario.run_spec import RunSpec
from dlbench.scenario.settings import Augmentation, Divide, Input, Settings

if TYPE_CHECKING:
    from dlbench.datasets import Description


def choice(what: str, value: str | None, allowed: tuple[str, ...], who: str) -> str:
    """Return why a value is none of those allowed, or an empty string; None is no choice."""
    if value is None or value in allowed:
        return ""
    if not allowed:
        return f"the {who} has no choice of {what}, such as {shown(value)}"
    near = nearest(value, allowed)
    return f"the {who} has no {what} {shown(value)}; it has: {', '.join(allowed)}" + (f" ({near})" if near else "")


def _trainer(case: Case) -> str:
    name, serves = case.settings.trainer, case.needs.trainers
    return f"the strategy {case.settings.strategy} works with {' or '.join(serves)}, not with {name}" * bool(
        serves and name not in serves
    )


def _model(case: Case) -> str:
    assert case.trainer is not None
    builder = case.trainer.get("BUILDER")
    model = plugins.load("models", case.settings.model)
    has_it = model.get(builder) is not None if isinstance(model.target, ModuleType) else builder == "keras"
    return "" if has_it else f"the trainer {case.settings.trainer} cannot train the model {case.settings.model}"


def _engine(case: Case) -> str:
    assert case.trainer is not None
    return _refusal_of_trainer(case.run, case.trainer, case.needs)


def _samples(case: Case) -> str:
    settings, description = case.settings, case.description
    if description is None:
        return ""
    available = num_training_samples(settings.model_copy(update={"train_samples": None}), description)
    if (settings.train_samples or 0) > available:
        return f"the data set {settings.dataset} has {available} training samples, not {settings.train_samples}"
    held_out = description.num_validation or description.num_train - available
    if (settings.validation_samples or 0) > held_out:
        return f"the data set {settings.dataset} has {held_out} validation samples, not {settings.validation_samples}"
    return _one_batch(case.run, settings.train_samples or available)


def _one_batch(run: RunSpec, available: int) -> str:
    if run.settings.divide is Divide.EPOCHS:
        batch, whose = run.local_batch_size(0), "of one worker"
    else:
        batch, whose = run.global_batch_size, "of all workers"
    if batch > available:
        return f"one batch {whose} is {batch} samples, and there are {available} to train on"
    return ""


def _shape(case: Case) -> str:
    model = plugins.load("models", case.settings.model)
    refuse: Callable[..., str] | None = model.get("refuse") if isinstance(model.target, ModuleType) else None
    if refuse is None or case.description is None or case.description.input_shape is None:
        return ""
    reason = refuse(case.description, model.options(**case.run.options_of("model")))
    return f"the model {case.settings.model} refuses the data set {case.settings.dataset}: {reason}" if reason else ""


def _batch_norm(case: Case) -> str:
    wants = case.run.options.get("model.batch_norm") == "synchronized" and case.settings.workers > 1
    return (
        f"the strategy {case.settings.strategy} reduces nothing inside the step, where `model.batch_norm: "
        "synchronized` sums its means over workers; use `local`, or a strategy such as horovod or mirrored"
    ) * bool(wants and not case.needs.reduces_in_step)


def _augmentation(case: Case) -> str:
    return refuse_augmentation(case.settings, case.description)


def _refusal_of_trainer(run: RunSpec, trainer: Plugin, needs: Needs) -> str:
    """Return why a trainer cannot compute as a run asks, or an empty string.

    Args:
        run: The run.
        trainer: Its trainer; `dlbench.trainers` says which attributes a trainer file holds.
        needs: Those of its strategy.
    """
    checks: tuple[Callable[[], str], ...] = (
        lambda: _named("precision", run.settings.precision.value, trainer.get("PRECISIONS"), run.settings),
        lambda: _named("optimizer", run.settings.optimizer, trainer.get("OPTIMIZERS"), run.settings),
        lambda: _optimizer_settings(run.settings, trainer),
        lambda: _jit(run.settings, trainer, needs),
        lambda: _accumulation(run, trainer),
    )
    return next((reason for check in checks if (reason := check())), "")


def _named(what: str, value: str, allowed: tuple[str, ...] | None, settings: Settings) -> str:
    return "" if allowed is None else choice(what, value, allowed, _who(settings))


def _optimizer_settings(settings: Settings, trainer: Plugin) -> str:
    """Refuse what the optimizer would not honour."""
    takes: dict[str, tuple[str, ...]] = trainer.get("OPTIMIZER_SETTINGS", {})
    for name in ("momentum", "nesterov", "weight_decay"):
        optimizers = takes.get(name, ())
        if not getattr(settings, name) or settings.optimizer in optimizers:
            continue
        if not optimizers:
            return f"the {_who(settings)} knows no {name}"
        return f"{name} belongs to the optimizer {' or '.join(optimizers)}, not to {settings.optimizer}"
    return "nesterov needs a momentum above 0" if settings.nesterov and not settings.momentum else ""


def _jit(settings: Settings, trainer: Plugin, needs: Needs) -> str:
    if not settings.jit_compile:
        return ""
    if not trainer.get("JIT", False):
        return f"the {_who(settings)} cannot compile its step (jit_compile)"
    if not needs.jit:
        return f"the strategy {settings.strategy} reduces by operations that XLA cannot compile (jit_compile)"
    return ""


def _accumulation(run: RunSpec, trainer: Plugin) -> str:
    settings = run.settings
    parts = settings.gradient_accumulation_steps
    if parts == 1:
        return ""
    if not trainer.get("ACCUMULATES", False):
        return f"the {_who(settings)} cannot accumulate gradients (gradient_accumulation_steps)"
    smallest = run.local_batch_size(settings.workers - 1)
    if parts > smallest:
        samples = f"{smallest} sample{'s' if smallest != 1 else ''}"
        return f"a worker's batch of {samples} cannot be computed in {parts} parts (gradient_accumulation_steps)"
    return ""


def _who(settings: Settings) -> str:
    return f"trainer {settings.trainer}"


def refuse_augmentation(settings: Settings, samples: "Description | None") -> str:
    """Return why a run's pictures cannot be augmented as it asks for, or an empty string.

    Args:
        settings: The run's settings.
        samples: What is known of its data set, or None.
    """
    if settings.augmentation is Augmentation.NONE:
        return ""
    if settings.input is Input.SYNTHETIC:
        return f"augmentation {settings.augmentation} changes pictures that are read; input synthetic reads none"
    if samples is None or samples.input_shape is None:
        return ""
    return not_pictures(samples.input_shape, samples.vocabulary, settings.augmentation_padding)


def not_pictures(shape: tuple[int, ...], vocabulary: int | None, padding: int) -> str:
    """Return why samples of this shape cannot be cropped and mirrored, or an empty string.

    Args:
        shape: Shape of one sample.
        vocabulary: Number of different tokens, where samples are tokens.
        padding: Pixels added on each side.
    """
    if len(shape) != 3 or vocabulary is not None:
        return f"augmentation crop-flip needs pictures [height, width, channels], not samples of shape {list(shape)}"
    if padding >= min(shape[:2]):
        return f"augmentation_padding {padding} is not less than the pictures' size, {shape[0]} x {shape[1]}"
    return ""


TRAINING_CHECKS: tuple[Callable[[Case], str], ...] = (
    _trainer, _model, _engine, _samples, _shape, _batch_norm, _augmentation,
)  # fmt: skip
