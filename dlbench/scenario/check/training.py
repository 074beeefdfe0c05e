"""Whether the trainer can compute what a run asks for, with its model and its data, as the plugins declare it."""

from collections.abc import Callable
from types import ModuleType

from dlbench import plugins
from dlbench.errors import nearest, shown
from dlbench.scenario.check.case import Case, num_training_samples
from dlbench.scenario.metrics import SAMPLES, evaluated
from dlbench.scenario.plugin_settings import needs_of
from dlbench.scenario.run_spec import RunSpec
from dlbench.scenario.settings import Augmentation, Divide, Input


def choice(what: str, value: str | None, allowed: tuple[str, ...], who: str) -> str:
    """Return why a value is none of those allowed, or an empty string; None is no choice."""
    if value is None or value in allowed:
        return ""
    if not allowed:
        return f"the {who} has no `{what}` setting"
    near = nearest(value, allowed)
    return f"the {who} has no {what} {shown(value)}; it has: {', '.join(allowed)}" + (f" ({near})" if near else "")


def _trainer(case: Case) -> str:
    name, serves = case.settings.trainer, case.needs.trainers
    return f"the strategy {case.settings.strategy} works with {' or '.join(serves)}, not with {name}" * bool(
        serves and name not in serves
    )


def _model(case: Case) -> str:
    builder = case.trainer.get("BUILDER")
    model = plugins.load("models", case.settings.model)
    has_it = model.get(builder) is not None if isinstance(model.target, ModuleType) else builder == "keras"
    if has_it:
        return ""
    others = [name for name in plugins.names("trainers") if model.get(plugins.load("trainers", name).get("BUILDER"))]
    able = f"; {' or '.join(others)} can" if others else ""
    return f"the trainer {case.settings.trainer} cannot train the model {case.settings.model}{able}"


def _precision(case: Case) -> str:
    return _known_to_trainer(case, "precision", case.settings.precision.value, "PRECISIONS")


def _optimizer(case: Case) -> str:
    return _known_to_trainer(case, "optimizer", case.settings.optimizer, "OPTIMIZERS")


def _known_to_trainer(case: Case, what: str, value: str, attribute: str) -> str:
    allowed: tuple[str, ...] | None = case.trainer.get(attribute)
    return "" if allowed is None else choice(what, value, allowed, _who(case))


def _optimizer_settings(case: Case) -> str:
    """Refuse what the optimizer would not honour."""
    settings = case.settings
    takes: dict[str, tuple[str, ...]] = case.trainer.get("OPTIMIZER_SETTINGS", {})
    for name in ("momentum", "nesterov", "weight_decay"):
        optimizers = takes.get(name, ())
        if not getattr(settings, name) or settings.optimizer in optimizers:
            continue
        if not optimizers:
            return f"the {_who(case)} does not support {name}"
        return f"{name} belongs to the optimizer {' or '.join(optimizers)}, not to {settings.optimizer}"
    return "nesterov needs a momentum above 0" if settings.nesterov and not settings.momentum else ""


def _jit(case: Case) -> str:
    if not case.settings.jit_compile:
        return ""
    if not case.trainer.get("JIT", False):
        return f"the {_who(case)} cannot compile its step (jit_compile)"
    if not case.needs.jit:
        return f"the strategy {case.settings.strategy} reduces by operations that XLA cannot compile (jit_compile)"
    return ""


def _accumulation(case: Case) -> str:
    parts = case.settings.gradient_accumulation_steps
    if parts == 1:
        return ""
    if not case.trainer.get("ACCUMULATES", False):
        return f"the {_who(case)} cannot accumulate gradients (gradient_accumulation_steps)"
    smallest = case.run.local_batch_size(case.settings.workers - 1)
    if parts > smallest:
        samples = f"{smallest} sample{'s' if smallest != 1 else ''}"
        return f"a worker's batch of {samples} cannot be computed in {parts} parts (gradient_accumulation_steps)"
    return ""


def _warm_up(case: Case) -> str:
    warm_up, epochs = case.settings.warmup_epochs, case.run.epochs_per_worker
    if warm_up <= epochs:
        return ""
    trained = f"{epochs} epoch{'s' if epochs != 1 else ''} of each worker"
    return f"warmup_epochs {warm_up:g} is more than the {trained}: the learning rate never reaches its value"


def _who(case: Case) -> str:
    return f"trainer {case.settings.trainer}"


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
    return no_full_batch(case.run, settings.train_samples or available)


def no_full_batch(run: RunSpec, available: int) -> str:
    """Return why this many training samples fill no batch, or an empty string: smaller ones only end an epoch."""
    if needs_of(run.settings.strategy).hands_out:
        if run.settings.divide is Divide.EPOCHS:
            return f"{run.settings.strategy} hands out the samples of one epoch to all workers: use `divide: data`"
        batch, whose = run.local_batch_size(0), "of one worker"
    elif run.settings.divide is Divide.EPOCHS:
        batch, whose = run.local_batch_size(0), "of one worker"
    else:
        batch, whose = run.global_batch_size, "of all workers"
    if batch > available:
        return f"one batch {whose} is {batch} samples, and there are {available} to train on"
    return ""


def _window(case: Case) -> str:
    if case.settings.extend_window and case.settings.sample_every == 1:
        return "with sample_every: 1 no step lies in the timed window, which extend_window is to fill; use 2 or more"
    return ""


def _shape(case: Case) -> str:
    model = plugins.load("models", case.settings.model)
    refuse: Callable[..., str] | None = model.get("refuse") if isinstance(model.target, ModuleType) else None
    if refuse is None or case.description is None or case.description.input_shape is None:
        return ""
    reason = refuse(case.description, model.options(**case.run.options_of("model")))
    return f"the model {case.settings.model} refuses the data set {case.settings.dataset}: {reason}" if reason else ""


def _target(case: Case) -> str:
    """Refuse a target that is never measured; what is not known before the data set is prepared is let through."""
    target, description = case.run.target, case.description
    if target is not None and target.metric in case.run.metrics:
        return f"only a script of your own reports {target.metric}, which the target is about"
    if target is None or description is None or description.num_classes is None:
        return ""
    scores = [f"{samples}_{name}" for samples in SAMPLES for name in evaluated(description.num_classes)]
    what = "classes" if description.num_classes else "numbers to predict"
    return choice("score", target.metric, tuple(scores), f"data set {case.settings.dataset}, which has {what},")


def _batch_norm(case: Case) -> str:
    wants = case.run.options.get("model.batch_norm") == "synchronized" and case.settings.workers > 1
    return (
        f"the strategy {case.settings.strategy} reduces nothing inside the step, where `model.batch_norm: "
        "synchronized` sums its means over workers; use `local`, or a strategy such as horovod or mirrored"
    ) * bool(wants and not case.needs.reduces_in_step)


def _augmentation(case: Case) -> str:
    settings, samples = case.settings, case.description
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
    _trainer, _model, _precision, _optimizer, _optimizer_settings, _warm_up, _jit, _accumulation, _samples, _shape,
    _batch_norm, _augmentation, _window, _target,
)  # fmt: skip
