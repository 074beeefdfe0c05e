"""What completion in a shell offers for an argument: scenarios, studies, plugins."""

from collections.abc import Callable, Iterable
from pathlib import Path

import click
from click.shell_completion import CompletionItem

Candidates = Callable[[click.Context, click.Parameter, str], list[CompletionItem]]


def scenarios(_: click.Context, __: click.Parameter, begun: str) -> list[CompletionItem]:
    """Offer the YAML files of this folder and the scenarios that come with dlbench, else any file."""
    from dlbench.scenario.read import packaged

    here = sorted(path.name for path in Path().glob("*.y*ml"))
    return starting_with([*here, *packaged.names()], begun) or [CompletionItem(begun, type="file")]


def studies(context: click.Context, _: click.Parameter, begun: str) -> list[CompletionItem]:
    """Offer the studies of the folder of studies, else any folder."""
    from dlbench.records import files

    parent = Path(context.params.get("studies") or context.params.get("output") or "studies")
    paths = sorted(str(path.parent) for path in parent.glob(f"*/{files.STUDY}"))
    return starting_with(paths, begun) or [CompletionItem(begun, type="dir")]


def plugins_of(kind: str) -> Candidates:
    """Return what offers the plugins of a kind."""

    def offered(_: click.Context, __: click.Parameter, begun: str) -> list[CompletionItem]:
        from dlbench import plugins

        return starting_with(plugins.names(kind), begun)

    return offered


def starting_with(names: Iterable[str], begun: str) -> list[CompletionItem]:
    """Offer the names that begin with what is typed."""
    return [CompletionItem(name) for name in names if name.startswith(begun)]
