"""Options that several commands share, how to read their values, and what completion in a shell offers for them."""

import contextlib
import functools
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.shell_completion import CompletionItem

from dlbench.errors import UserError, unwritable

if TYPE_CHECKING:
    from dlbench.scenario.scenario import Repeats

Candidates = Callable[[click.Context, click.Parameter, str], list[CompletionItem]]


def scenario_names(_: click.Context, __: click.Parameter, begun: str) -> list[CompletionItem]:
    """Offer the YAML files of this folder and the scenarios that come with dlbench, else any file."""
    from dlbench.scenario.read import packaged

    here = sorted(path.name for path in Path().glob("*.y*ml"))
    return starting_with([*here, *packaged.names()], begun) or [CompletionItem(begun, type="file")]


def study_paths(context: click.Context, _: click.Parameter, begun: str) -> list[CompletionItem]:
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


path = click.Path(path_type=Path)
scenario = click.argument("scenario", type=path, shell_complete=scenario_names)
study = click.argument("study", type=path, required=False, shell_complete=study_paths)
several_studies = click.argument(
    "studies", type=path, nargs=-1, required=True, metavar="STUDY...", shell_complete=study_paths
)
_hosts = click.option(
    "--hosts", metavar="a:4,b:4", help="Hosts and how many workers fit on each; default: this machine."
)
_hostfile = click.option(
    "--hostfile", type=path, metavar="FILE", help="The same from a file of Open MPI, MPICH or a queue."
)
_cluster = click.option(
    "--cluster", type=path, metavar="FILE",
    help="The same from a cluster file, with all that hosts have in common (see docs/hosts.md).",
)  # fmt: skip
only = click.option(
    "--only", "only", multiple=True, metavar="AXIS=VALUE", help="Only runs with this value; may be given again."
)
studies = click.option(
    "--studies", type=click.Path(path_type=Path, file_okay=False), default=Path("studies"), show_default=True,
    help="Folder of studies.",
)  # fmt: skip
output = click.option(
    "--output", type=path, default=Path("studies"), metavar="DIR", show_default=True, help="Folder of all studies."
)
sets = click.option(
    "--set", "sets", multiple=True, metavar="KEY=VALUE",
    help="A value in place of the scenario's, as it is written there; may be given again.",
)  # fmt: skip


def read_only(texts: tuple[str, ...]) -> dict[str, str]:
    """Return `--only axis=value` texts as a mapping.

    Raises:
        UserError: One has another form, or an axis is given twice.
    """
    return _read_pairs(texts, "--only", "axis=value", "--only workers=2", "all that is given must hold at once")


def read_sets(texts: tuple[str, ...]) -> dict[str, str]:
    """Return `--set key=value` texts as a mapping.

    Raises:
        UserError: One has another form, or a key is given twice.
    """
    return _read_pairs(texts, "--set", "key=value", "--set epochs=2", "one value can hold")


def read_repeats(text: str | None) -> "int | Repeats | None":
    """Return `--repeats`: a number, or MIN..MAX for as many as decide.

    Raises:
        UserError: It is neither.
    """
    from dlbench.scenario.scenario import MOST_OF_RULE, Repeats

    if text is None:
        return None
    least, dots, most = text.partition("..")
    with contextlib.suppress(ValueError):
        if dots:
            return Repeats(min=int(least), max=int(most))
        if int(text) >= 1:
            return int(text)
    raise UserError(
        f"--repeats {text!r} is neither a number nor MIN..MAX",
        hint=f"--repeats 5, or --repeats 5..40 for as many as decide, of 3 to {MOST_OF_RULE}",
    )


def _read_pairs(texts: tuple[str, ...], option: str, form: str, example: str, why_once: str) -> dict[str, str]:
    pairs: dict[str, str] = {}
    for text in texts:
        key, equals, value = text.partition("=")
        if not equals or not key.strip():
            raise UserError(f"{option} {text!r} is not of the form {form}", hint=f"for example {example}")
        if key.strip() in pairs:
            raise UserError(f"{option} names {key.strip()!r} twice; {why_once}")
        pairs[key.strip()] = value.strip()
    return pairs


def hosts(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add `--hosts`, `--hostfile` and `--cluster` to a command, which gets them as one argument `where`."""

    @functools.wraps(command)
    def wrapped(*, hosts: str | None, hostfile: Path | None, cluster: Path | None, **others: Any) -> Any:
        from dlbench.scenario.cluster.cluster_file import ClusterOptions

        return command(where=ClusterOptions(hosts, hostfile, cluster), **others)

    return _hosts(_hostfile(_cluster(wrapped)))


def read_part(text: str | None) -> tuple[int, int] | None:
    """Return the two numbers of `3/12`; None where nothing is given.

    Raises:
        UserError: It has another form.
    """
    if text is None:
        return None
    number, _, total = text.partition("/")
    if not (number.isdecimal() and total.isdecimal()):
        raise UserError(f"--part {text!r} is not of the form 3/12")
    return int(number), int(total)


def write_file(path: Path, text: str) -> None:
    """Replace a file that the user names.

    Raises:
        UserError: It cannot be written.
    """
    from dlbench.records.files import write_text

    try:
        write_text(path, text)
    except OSError as error:
        raise unwritable(error, path) from error
