"""One worker: `train` is dlbench's own loop, `script` the hook for your own script, `process` what both run in.

`begin` is what a script of your own calls (see `dlbench.worker.script.hook`); `Run` and `Step` are what it gets.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dlbench.worker.script.hook import Run, Step, begin

__all__ = ["Run", "Step", "begin"]


def __getattr__(name: str) -> Any:
    """Import the hook when it is used: a worker of dlbench's own never needs it, and starts sooner without."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from dlbench.worker.script import hook

    return getattr(hook, name)
