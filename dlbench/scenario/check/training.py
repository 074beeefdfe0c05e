"""Whether the trainer can compute what a run asks for, with its model and its data, as the plugins declare it."""

from collections.abc import Callable, Iterator
from types import ModuleType

from dlbench import plugins
from dlbench.errors import nearest, shown
from dlbench.scenario.check.case import Case, num_training_samples
from dlbench.scenario.metrics import SAMPLES, evaluated
from dlbench.scenario.needs import Exchange
from dlbench.scenario.plugin_settings import needs_of
from dlbench.scenario.run_spec import RunSpec
from dlbench.scenario.settings import (
    Augmentation,
    BatchPolicy,
    Divide,
    Input,
    LearningRateDecay,
    Precision,
    Settings,
)

# Settings that belong to some values of another one.
_BELONGING: dict[str, tuple[str, tuple[str, ...]]] = {
    "learning_rate_decay_epochs": ("learning_rate_decay", (LearningRateDecay.STEP,)),
    "learning_rate_decay_factor": ("learning_rate_decay", (LearningRateDecay.STEP,)),
    "largest_batch_size": ("batch_policy", (BatchPolicy.STEP_DOUBLING, BatchPolicy.GOODPUT)),
    "batch_doubling_epochs": ("batch_policy", (BatchPolicy.STEP_DOUBLING,)),
    "batch_policy_steps": ("batch_policy", (BatchPolicy.GOODPUT,)),
}


def choice(what: str, value: str | None, allowed: tuple[str, ...], who: str) -> str:
    """Return why a value is none of those allowed, or an empty string; None is no choice."""
    if value is None or value in allowed:
        return ""
    if not allowed:
        return f"the {who} has no `{what}` setting"
    near = nearest(value, allowed)
    return f"the {who} has no {what} {shown(value)}; it has: {', '.join(allowed)}" + (f" ({near})" if near else "")


def _engine(case: Case) -> Iterator[str]:
    settings, serves = case.settings, case.needs.trainers
    who = f"trainer {settings.trainer}"
    if serves and settings.trainer not in serves:
        backend = plugins.load("trainers", serves[0]).get("BACKEND")
        way = f": write `backend: {backend}`" if backend else ""
        yield f"the strategy {settings.strategy} works with {' or '.join(serves)}, not with {settings.trainer}{way}"
    if settings.backend not in (None, case.trainer.get("BACKEND")):
        yield f"the {who} does not run on the backend {settings.backend}: name one of the two"
    yield _model(case)
    for what, attribute in (("precision", "PRECISIONS"), ("optimizer", "OPTIMIZERS")):
        allowed: tuple[str, ...] | None = case.trainer.get(attribute)
        if allowed is not None:
            yield choice(what, str(getattr(settings, what)), allowed, who)
    takes: dict[str, tuple[str, ...]] = case.trainer.get("OPTIMIZER_SETTINGS", {})
    for name in ("momentum", "nesterov", "weight_decay"):
        optimizers = takes.get(name, ())
        if getattr(settings, name) and not optimizers:
            yield f"the {who} does not support {name}"
        if getattr(settings, name) and settings.optimizer not in optimizers:
            yield f"{name} belongs to the optimizer {' or '.join(optimizers)}, not to {settings.optimizer}"
    if settings.nesterov and not settings.momentum:
        yield "nesterov needs a momentum above 0"


def _model(case: Case) -> str:
    builder = case.trainer.get("BUILDER")
    model = plugins.load("models", case.settings.model)
    has_it = model.get(builder) is not None if isinstance(model.target, ModuleType) else builder == "keras"
    if has_it:
        return ""
    others = [name for name in plugins.names("trainers") if model.get(plugins.load("trainers", name).get("BUILDER"))]
    able = f"; {' or '.join(others)} can" if others else ""
    return f"the trainer {case.settings.trainer} cannot train the model {case.settings.model}{able}"


def _step(case: Case) -> Iterator[str]:
    settings, epochs = case.settings, case.run.epochs_per_worker
    if settings.warmup_epochs > epochs:
        trained = f"{epochs} epoch{'s' if epochs != 1 else ''} of each worker"
        why = "the learning rate never reaches its value"
        yield f"warmup_epochs {settings.warmup_epochs:g} is more than the {trained}: {why}"
    for name in ("learning_rate_decay_epochs", "learning_rate_decay_factor"):
        if settings.learning_rate_decay is LearningRateDecay.STEP and getattr(settings, name) is None:
            yield f"learning_rate_decay: step needs {name}"
    if settings.jit_compile and not case.trainer.get("JIT", False):
        yield f"the trainer {settings.trainer} cannot compile its step (jit_compile)"
    if settings.jit_compile and not case.needs.jit:
        yield f"the strategy {settings.strategy} reduces by operations that XLA cannot compile (jit_compile)"
    parts, smallest = settings.gradient_accumulation_steps, case.run.local_batch_size(settings.workers - 1)
    if parts > 1 and not case.trainer.get("ACCUMULATES", False):
        yield f"the trainer {settings.trainer} cannot accumulate gradients (gradient_accumulation_steps)"
    if settings.microbatch_size is not None and not case.trainer.get("ACCUMULATES", False):
        yield f"the trainer {settings.trainer} cannot compute a batch in parts (microbatch_size)"
    if settings.microbatch_size is not None and case.needs.one_process:
        yield f"the strategy {settings.strategy} hands one process the batches of all workers (microbatch_size)"
    if parts > max(smallest, 1):
        samples = f"{smallest} sample{'s' if smallest != 1 else ''}"
        yield f"a worker's batch of {samples} cannot be computed in {parts} parts (gradient_accumulation_steps)"


def _input(case: Case) -> Iterator[str]:
    settings = case.settings
    if settings.input is Input.DEVICE and not case.trainer.get("HOLDS_SAMPLES", False):
        yield f"the trainer {settings.trainer} has no device that holds samples (input: device); use `memory`"
    if settings.input is Input.DEVICE and case.needs.one_process:
        yield f"the strategy {settings.strategy} divides batches over devices (input: device); use `memory`"


def _steps_per_execution(case: Case) -> Iterator[str]:
    """Refuse what cannot be made in one call of several steps."""
    settings, what = case.settings, f"`steps_per_execution: {case.settings.steps_per_execution}`"
    if settings.steps_per_execution == 1:
        return
    if not case.trainer.get("REPEATS_STEPS", False):
        yield f"the trainer {settings.trainer} makes each step in separate calls: remove {what}"
    if case.needs.exchange is not Exchange.INSIDE or settings.is_simulated:
        able = [name for name in plugins.names("strategies") if needs_of(name).exchange is Exchange.INSIDE]
        who = "a simulation" if settings.is_simulated else f"the strategy {settings.strategy}"
        yield f"{who} makes one step in each call, {' and '.join(able)} may make several: remove {what}"
    if settings.gradient_accumulation_steps > 1 or settings.microbatch_size is not None:
        yield f"each part of a batch is computed in a separate call: remove {what}, or what cuts batches into parts"
    if settings.batch_policy is not BatchPolicy.FIXED:
        yield f"a batch that changes is decided on between two steps: remove {what}, or `batch_policy`"


def _belonging(case: Case) -> Iterator[str]:
    settings = case.settings
    for name, (key, values) in _BELONGING.items():
        value = getattr(settings, key)
        if value not in values and getattr(settings, name) != Settings.model_fields[name].default:
            yield f"{name} belongs to `{key}: {' or '.join(values)}`, not to {value}"


def _batch_policy(case: Case) -> Iterator[str]:
    """Refuse what a batch that changes cannot be combined with."""
    settings, what = case.settings, f"`batch_policy: {case.settings.batch_policy}`"
    if settings.batch_policy is BatchPolicy.FIXED:
        return
    if not case.needs.changes_batch:
        able = [name for name in plugins.names("strategies") if needs_of(name).changes_batch]
        yield f"the strategy {settings.strategy} trains one batch size: {what} is for {', '.join(able)}"
    if settings.is_simulated:
        yield f"{what} follows measured times, and a simulation has none: leave `communicator` away"
    if settings.compression is not None:
        yield f"{what} changes what a gradient is worth, and `compression` sends parts of old ones: remove one of them"
    if settings.divide is not Divide.DATA:
        yield f"{what} cuts one order of all samples: use `divide: data`"
    if settings.extend_window:
        yield f"steps after training have the last batch, whose rate is not that of {what}: set `extend_window: false`"


def _policy_needs(case: Case) -> Iterator[str]:
    """Refuse a batch policy that lacks what it needs."""
    settings, policy, what = case.settings, case.settings.batch_policy, f"`batch_policy: {case.settings.batch_policy}`"
    if policy is BatchPolicy.FIXED:
        return
    if (settings.largest_batch_size or 0) < 2 * settings.batch_size:
        yield (
            f"{what} needs a largest_batch_size of at least twice the batch_size, {2 * settings.batch_size}; "
            "`dlbench fit SCENARIO` finds what fits, and with microbatch_size it may be beyond that"
        )
    if policy is BatchPolicy.STEP_DOUBLING and settings.batch_doubling_epochs is None:
        yield f"{what} needs batch_doubling_epochs: the epochs between two doublings"
    if policy is BatchPolicy.GOODPUT:
        yield _goodput(case)
    if case.description is not None:
        available = num_training_samples(settings, case.description)
        largest = case.run.global_batch_size * ((settings.largest_batch_size or 0) // settings.batch_size)
        if largest > available:
            yield f"the largest batch of all workers is {largest} samples, and there are {available} to train on"


def _goodput(case: Case) -> str:
    """Return why the noise of gradients, or a rate that follows it, is not for this run; or an empty string."""
    settings, batch = case.settings, case.run.global_batch_size
    if settings.optimizer != "sgd":
        return (
            f"AdaScale's gain, by which `batch_policy: goodput` sets the rate, is for sgd, not for {settings.optimizer}"
        )
    if settings.precision is Precision.MIXED_FLOAT16:
        return "mixed_float16 skips steps whose gradients are not finite, which noise cannot be measured of"
    if case.run.options.get("strategy.adasum"):
        return "strategy.adasum is no mean of gradients, which `batch_policy: goodput` measures the noise of"
    if batch % max(2, settings.workers):
        return f"`batch_policy: goodput` compares equal batches, of workers or halves: {batch} samples are none"
    return ""


def _samples(case: Case) -> Iterator[str]:
    settings, description = case.settings, case.description
    if description is None:
        return
    available = num_training_samples(settings.model_copy(update={"train_samples": None}), description)
    if (settings.train_samples or 0) > available:
        yield f"the data set {settings.dataset} has {available} training samples, not {settings.train_samples}"
    held_out = description.num_validation or description.num_train - available
    if (settings.validation_samples or 0) > held_out:
        yield f"the data set {settings.dataset} has {held_out} validation samples, not {settings.validation_samples}"
    yield no_full_batch(case.run, settings.train_samples or available)


def no_full_batch(run: RunSpec, available: int) -> str:
    """Return why this many training samples fill no batch, or an empty string: smaller ones only end an epoch.

    Nor do they fill a call that makes several steps.
    """
    alone = run.settings.divide is Divide.EPOCHS
    hands_out = needs_of(run.settings.strategy).hands_out
    if alone and hands_out:
        return f"{run.settings.strategy} hands out the samples of one epoch to all workers: use `divide: data`"
    of_one = (run.local_batch_size(0), "of one worker")
    batch, whose = of_one if alone or hands_out else (run.global_batch_size, "of all workers")
    if batch > available:
        return f"one batch {whose} is {batch} samples, and there are {available} to train on"
    per_call = run.settings.steps_per_execution
    if per_call * batch > available:
        return (
            f"`steps_per_execution: {per_call}` needs as many full steps in an epoch, and {available} training samples "
            f"give {available // batch} of {batch}"
        )
    return ""


def _shapes(case: Case) -> Iterator[str]:
    settings, samples = case.settings, case.description
    model = plugins.load("models", settings.model)
    refuse: Callable[..., str] | None = model.get("refuse")
    has_shape = samples is not None and samples.input_shape is not None
    if refuse and has_shape and (reason := refuse(samples, model.options(**case.run.options_of("model")))):
        yield f"the model {settings.model} refuses the data set {settings.dataset}: {reason}"
    # What reduces inside the compiled step can average batch statistics over workers there, too.
    reduces_in_step = case.needs.exchange in (Exchange.INSIDE, Exchange.WRAPPED)
    wants_sums = case.run.options.get("model.batch_norm") == "synchronized" and settings.workers > 1
    if wants_sums and not reduces_in_step:
        yield (
            f"the strategy {settings.strategy} reduces nothing inside the step, where `model.batch_norm: "
            "synchronized` sums its means over workers; use `local`, or a strategy such as horovod or mirrored"
        )
    if settings.augmentation is Augmentation.NONE:
        return
    if settings.input is Input.SYNTHETIC:
        yield f"augmentation {settings.augmentation} changes pictures that are read; input synthetic reads none"
    if samples is not None and samples.input_shape is not None:
        yield not_pictures(samples.input_shape, samples.vocabulary, settings.augmentation_padding)


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


def _chance(case: Case) -> Iterator[str]:
    """Refuse what makes a loss of the same samples differ by chance, where a strategy compares losses."""
    settings = case.settings
    has_dropout = bool(case.run.options.get("model.dropout"))
    if case.needs.compares_losses and (has_dropout or settings.augmentation is not Augmentation.NONE):
        what = "model.dropout" if has_dropout else "augmentation"
        yield f"the strategy {settings.strategy} compares losses of the same samples: remove `{what}`"


def _measured(case: Case) -> Iterator[str]:
    """Refuse what is never measured; what is not known before the data set is prepared is let through."""
    settings, target, description = case.settings, case.run.target, case.description
    wanted = {"target": target.metric if target else None, "goal": case.goal_score}
    if settings.extend_window and settings.sample_every == 1:
        yield "with sample_every: 1 no step lies in the timed window, which extend_window is to fill; use 2 or more"
    for what, score in wanted.items():
        if score in case.run.metrics:
            yield f"only a script of your own reports {score}, which the {what} is about"
    if description is None or description.num_classes is None:
        return
    scores = [f"{samples}_{name}" for samples in SAMPLES for name in evaluated(description.num_classes)]
    what = "classes" if description.num_classes else "numbers to predict"
    for score in wanted.values():
        yield choice("score", score, tuple(scores), f"data set {settings.dataset}, which has {what},")


TRAINING_CHECKS = (
    _engine,
    _step,
    _input,
    _steps_per_execution,
    _belonging,
    _batch_policy,
    _policy_needs,
    _samples,
    _shapes,
    _chance,
    _measured,
)
