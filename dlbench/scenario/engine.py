"""Can the trainer do what a run asks of it? What it says of itself decides; nothing is imported for it."""

from collections.abc import Callable

from dlbench.errors import nearest, shown
from dlbench.plugins import Plugin
from dlbench.scenario.needs import Needs
from dlbench.scenario.run_spec import BatchOrigin, RunSpec
from dlbench.scenario.settings import Settings


def refusal(run: RunSpec, trainer: Plugin, needs: Needs) -> str:
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


def choice(what: str, value: str | None, allowed: tuple[str, ...], who: str) -> str:
    """Return why a value is none of those allowed, or an empty string; None is nobody's choice."""
    if value is None or value in allowed:
        return ""
    if not allowed:
        return f"the {who} has no choice of {what}, such as {shown(value)}"
    near = nearest(value, allowed)
    return f"the {who} has no {what} {shown(value)}; it has: {', '.join(allowed)}" + (f" ({near})" if near else "")


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
    if run.batch_size_origin is not BatchOrigin.OPEN and parts > smallest:
        samples = f"{smallest} sample{'s' if smallest != 1 else ''}"
        return f"a worker's batch of {samples} cannot be computed in {parts} parts (gradient_accumulation_steps)"
    return ""


def _who(settings: Settings) -> str:
    return f"trainer {settings.trainer}"
