"""`dlbench init`: write a first scenario for a user's own data or script."""

import re
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path

import click

from dlbench.cli import options
from dlbench.errors import UserError


@click.command("init")
@click.argument("file", type=options.path, default=Path("scenario.yaml"))
@click.option(
    "--data", metavar="DATA", help="A folder of images, an .npz or text file, a data set, or module:function."
)
@click.option("--script", metavar="FILE", help="A training script (mpi4py, Horovod, PyTorch, Keras) in place of data.")
@click.option(
    "--model", metavar="NAME", shell_complete=options.plugins_of("models"),
    help="Default: one that suits the data.",
)  # fmt: skip
@click.option("--compare", metavar="A,B", help="What varies: workers, batch_size, strategy.")
@click.option(
    "--workers",
    "max_workers",
    type=click.IntRange(min=1),
    metavar="N",
    help="Most workers; default: the cores here, 4 at most.",
)
@click.option("--force", is_flag=True, help="Replace FILE.")
def command(
    file: Path,
    data: str | None,
    script: str | None,
    model: str | None,
    compare: str | None,
    max_workers: int | None,
    force: bool,
) -> None:
    """Write FILE (scenario.yaml), a commented scenario that runs as it is. Asks for what is not given."""
    from dlbench.analysis.formatting import counted
    from dlbench.scenario.check.commands import simple_commands
    from dlbench.scenario.check.script_warnings import script_warnings
    from dlbench.scenario.check.scripts import has_hook
    from dlbench.scenario.cluster import this_machine
    from dlbench.scenario.expand.runs import expand
    from dlbench.scenario.read.scenario_file import parse
    from dlbench.study.prepare import verify
    from dlbench.study.starter import Wish, starter, texts_of

    if file.exists() and not force:
        raise UserError(f"{file} is there already", hint="name another file, or replace it with --force")
    if data and script:
        raise UserError("--data and --script exclude each other: a script brings its data")
    if not script and not data:
        data = _asked("Data: a folder of images, an .npz or text file, or a data set", "digits")
    axes = compare or _asked("Compare: workers, batch_size, strategy; empty: what there can be several of", "")
    cluster = this_machine()
    wish = Wish(
        data=data or "",
        script=script or "",
        model=model or "",
        compare=tuple(word.strip() for word in axes.split(",") if word.strip()),
        max_workers=max_workers or min(4, cluster.hosts[0].slots),
    )
    text = starter(wish, str(file))
    try:
        runs = expand(parse(text, str(file)), cluster, {})
        verify(runs, lambda line: click.echo(line, err=True))
    except UserError as error:  # of a file that is not written no line is of use, nor what to write into it
        hint = "try fewer --workers, or another --compare" if "exclude:" in error.hint else error.hint
        raise UserError(error.message, hint=hint) from error
    options.write_file(file, text)
    arms = {run.fingerprint for run in runs}
    size = f"{counted(len(runs), 'run')} of {counted(len(arms), 'arm')}"
    click.echo(f"{file}: {size}. Next: dlbench run {shlex.quote(str(file))} --report")
    settings = runs[0].settings
    most = max(run.settings.workers for run in runs)
    starts_some = settings.workers_inside or any(it.launcher for it in simple_commands(settings.command or ""))
    if script and max_workers and most < max_workers and not starts_some:
        click.echo(f"warning: one worker, not {max_workers}: {script} is not known to connect several", err=True)
    for warning in script_warnings(runs):
        click.echo(f"warning: {warning}", err=True)
    if script and not any(map(has_hook, texts := texts_of(Path(script)))):
        click.echo(f"For every step and epoch, add to {script}, or to the Python script that it starts:", err=True)
        for line in hook_lines(texts, starts_workers=settings.workers_inside):
            click.echo(f"    {line}", err=True)


def hook_lines(texts: Sequence[str], *, starts_workers: bool) -> Sequence[str]:
    """Return the lines that a script of these files needs at least to report its steps."""
    from dlbench.scenario.check.scripts import modules_of

    if starts_workers:
        return INSIDE
    modules = {"", *(module for text in texts for module in modules_of(text))}
    if modules & {"mpi4py", "horovod"} and "torch.distributed" not in modules:
        modules.discard("torch")  # whose hook asks torch.distributed for the other processes
    script = "\n".join(texts)
    hooks = (lines for (module, call), lines in HOOKS.items() if module in modules and re.search(call, script))
    return next(hooks, HOOKS["", ""])


# What a script needs at least, by a module that it imports and a pattern in it: the first counts, the last is for any.
_KERAS = (
    "import dlbench.keras",
    "model.fit(..., callbacks=[dlbench.keras.Callback()])  # several processes: (rank=..., size=..., barrier=...)",
)
_LIGHTNING = ("import dlbench.lightning", "Trainer(..., callbacks=[dlbench.lightning.Callback()])")
_LIGHTNING_CLI = (_LIGHTNING[0], 'LightningCLI(..., trainer_defaults={"callbacks": [dlbench.lightning.Callback()]})')
_TRANSFORMERS = ("import dlbench.transformers", "Trainer(..., callbacks=[dlbench.transformers.Callback()])")
HOOKS = {
    ("transformers", r"Trainer\("): _TRANSFORMERS,
    ("trl", r"Trainer\("): _TRANSFORMERS,
    ("lightning", r"\bTrainer\("): _LIGHTNING,
    ("pytorch_lightning", r"\bTrainer\("): _LIGHTNING,
    ("lightning", r"\bLightningCLI\("): _LIGHTNING_CLI,
    ("pytorch_lightning", r"\bLightningCLI\("): _LIGHTNING_CLI,
    ("keras", r"\.fit\("): _KERAS,
    ("tensorflow", r"\.fit\("): _KERAS,
    ("torch", r"\.step\("): (
        "import dlbench.torch",
        "hook = dlbench.torch.Hook(model, optimizer)  # before training; under DDP, of the wrapped model",
        "hook.loss(loss)                              # before optimizer.step()",
        "hook.epoch(validation_accuracy=...)          # after each epoch (without an optimizer: docs/own-code.md)",
    ),
    ("", ""): (
        "import dlbench.worker as dlbench",
        "run = dlbench.begin(rank=..., size=..., barrier=...)     # before training; one worker: 0, 1, lambda: None",
        "with run.step(num_samples=...) as step: step.loss = ...  # around each step",
        "run.epoch(validation_accuracy=...)                       # after each epoch",
        "run.finish()                                             # at the end; docs/own-code.md has whole scripts",
    ),
}
# Of workers that the script starts itself.
INSIDE = (
    "import dlbench.worker as dlbench                         # in the first worker alone, which reports for all:",
    "run = dlbench.begin(barrier=lambda: None)                # before training",
    "with run.step(num_samples=...) as step: step.loss = ...  # around each step; samples of all workers",
    "run.epoch(validation_accuracy=...)                       # after each epoch",
    "run.finish()                                             # at the end; scenarios/ray_train.py is such a script",
)


def _asked(question: str, default: str) -> str:
    """Ask on a terminal; elsewhere take the default."""
    return str(click.prompt(question, default=default)) if sys.stdin.isatty() else default
