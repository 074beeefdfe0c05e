"""One worker: rendezvous, the step loop, clock, evaluation, stream home, watchdog; and the hook for your own script.

`begin` is what a script of your own calls (see `dlbench.worker.hook`); `Run` and `Step` are what it gets.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dlbench.worker.hook import Run, Step, begin

__all__ = ["Run", "Step", "begin"]


def __getattr__(name: str) -> Any:
    """Import the hook when it is used: a worker of dlbench's own never needs it, and starts sooner without."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from dlbench.worker import hook

    return getattr(hook, name)
