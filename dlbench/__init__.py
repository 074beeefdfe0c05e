"""dlbench measures which batch size, how many workers, scale-up or scale-out, and which synchronisation strategy."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dlbench.api import load_study, run

__version__ = "0.1.0"
__all__ = ["__version__", "load_study", "run"]


def __getattr__(name: str) -> Any:
    """Import `run` and `load_study` when they are asked for: importing dlbench costs nothing."""
    if name in ("load_study", "run"):
        from dlbench import api

        return getattr(api, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
