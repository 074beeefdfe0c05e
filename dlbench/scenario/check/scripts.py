"""Commands of a user's own: what they start, and what dlbench cannot set or would not record in their scripts."""

import ast
import re
import shlex
import sys
import warnings
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from importlib.util import find_spec
from itertools import accumulate, dropwhile
from pathlib import Path
from typing import TypeGuard

from dlbench.errors import shorten
from dlbench.grouping import by_key
from dlbench.regular_file import is_file, read_regular
from dlbench.scenario.check.case import Case
from dlbench.scenario.metrics import BUILT_IN, RATE
from dlbench.scenario.placeholders import ATTEMPT, names, unfilled
from dlbench.scenario.plugin_settings import needs_of
from dlbench.scenario.run_spec import RunSpec
from dlbench.scenario.settings import Affects, Settings, settings_of

# What dlbench itself applies to a script: how many workers it starts, where.
_APPLIED = frozenset(settings_of(Affects.DISTRIBUTION, Affects.OBSERVATION)) | {"cores_per_worker", "command"}
# What a run of dlbench's own is trained with, and with which setting a script takes what changes its value.
_TRAINING = tuple(key for key in settings_of(Affects.STEP, Affects.ARITHMETIC, Affects.TRAINING) if key not in _APPLIED)
TOGETHER = {
    "batch_scope": "batch_size",
    "divide": "epochs",
    "learning_rate_scale": "learning_rate",
    "learning_rate_base_batch": "learning_rate",
}
HOOK = "dlbench"
# What is read of a script at most, of its first line, and of a word.
MOST_BYTES, LINE_BYTES, MOST_WORD = 2**20, 256, 2**14
SHELLS = ("bash", "sh", "dash", "zsh", "ksh")
# Programs that start several processes, those that do with a word after them, and those that are Python modules.
LAUNCHERS = {
    "mpirun", "mpiexec", "mpirun.openmpi", "mpiexec.openmpi", "mpirun.mpich", "mpiexec.mpich", "mpiexec.hydra",
    "mpirun_rsh", "orterun", "prterun", "prun", "srun", "torchrun", "horovodrun", "deepspeed", "jsrun", "aprun",
    "ibrun", "lrun", "mpiexec_mpt", "salloc",
}  # fmt: skip
_SUBCOMMANDS = {"accelerate": "launch", "colossalai": "run", "fabric": "run", "flux": "run", "lightning": "run"}
_MODULES = {
    "torch.distributed.run", "torch.distributed.launch", "accelerate.commands.launch", "horovod.runner",
    "horovod.runner.launch", "horovod.run", "deepspeed.launcher.runner", "deepspeed.launcher.launch",
    "accelerate.commands.accelerate_cli", "paddle.distributed.launch",
}  # fmt: skip
# With one of these at the end a launcher starts nothing.
_QUESTIONS = {"--version", "-V", "--help", "-h"}
# Words of a shell before which a command begins, with the option of `time` and `command`.
_KEYWORDS = {"if", "then", "else", "elif", "do", "while", "until", "!", "{", "time", "coproc", "command", "-p"}
# Programs after which, options aside, another program stands, and those where it does after `run` or `exec`.
_WRAPPERS = {
    "env", "nice", "ionice", "nohup", "exec", "numactl", "taskset", "timeout", "stdbuf", "setsid", "chrt", "sudo",
    "time", "unbuffer", "xvfb-run", "strace", "perf", "nsys", "ncu", "catchsegv",
}  # fmt: skip
_ENVIRONMENTS = {
    "singularity", "apptainer", "docker", "podman", "uv", "poetry", "pipenv", "pdm", "hatch", "pixi", "conda", "mamba",
    "micromamba",
}  # fmt: skip
_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*\+?=")
_EXPORTS = {"export", "declare", "local", "readonly", "typeset"}
_VARIABLE = re.compile(r"\$(?:\{(\w+)(?:\[[@*]\])?(?::?-([^{}]*))?\}|(\w+))")
# What a shell script is simplified by before it is read: the path of a program, the folder of the script, and
# here-documents without their text.
_LOOK_UP = re.compile(r"(?:\$\(|`)\s*(?:which|command -v|type -p)\s+([^\s`)]+)\s*[`)]")
_FOLDER = re.compile(r"""\$\(\s*dirname\s+(?:--\s+)?"?\$\{?(?:0|BASH_SOURCE(?:\[0\])?)\}?"?\s*\)|\$\{0%/\*\}""")
_HERE_DOCUMENT = re.compile(r"""((?<!<)<<-?[ \t]*["'\\]?([A-Za-z_]\w*)[^\n]*\n)(?s:.*?)^\s*\2[ \t]*$""", re.MULTILINE)
_WORD = r"""(?:'[^']*'|"(?:\\.|[^"\\])*"|\$'(?:\\.|[^'\\])*'|\$\{[^}]*\}|\\.|[^\s;&|()<>`'"\\$]++|\$)++"""
# The parts of a shell script; comments, redirections and the heads of functions are no words.
_TOKEN = re.compile(
    rf"""\#[^\n]* | (?:\d*|&)[<>]+[&|]?[ \t]*{_WORD} | function\s+[\w.-]+ | [\w.-]++\s*+\(\s*\)
    | (?P<array>[A-Za-z_]\w*)\+?=\((?P<items>[^()]*)\) | (?P<end>[;&|()\n`]+) | (?P<word>{_WORD})""",
    re.VERBOSE | re.DOTALL,
)
_PYTHON = re.compile(r"python[\d.]*")
# Libraries that train, by module, and what installs them.
LIBRARIES = {
    "torch": "torch", "tensorflow": "tensorflow", "keras": "keras", "jax": "jax", "horovod": "horovod",
    "mpi4py": "mpi4py openmpi", "lightning": "lightning", "pytorch_lightning": "pytorch-lightning",
    "accelerate": "accelerate", "transformers": "transformers", "deepspeed": "deepspeed",
}  # fmt: skip
# Horovod's modules, the engine that each is built for, and how.
_FOR_TENSORFLOW = ("tensorflow", "`make horovod` builds it (docs/horovod.md)")
_HOROVOD = {
    "horovod.torch": ("torch", "build Horovod with HOROVOD_WITH_PYTORCH=1; `make horovod` is for TensorFlow alone"),
    "horovod.tensorflow": _FOR_TENSORFLOW,
    "horovod.keras": _FOR_TENSORFLOW,
}
# What scripts mention that place replicas on several devices; that connect processes; and libraries that by themselves
# connect none.
_REPLICATED = re.compile("mirrored|distribut|parallel|replica|shard|pmap", re.IGNORECASE)
_CONNECTED = re.compile(
    r"(?i)distribut(?!ions?\b)|(keras\.|import )distribution\b|(?<!num_)parallel(?!_calls|ism_threads)|(?<!matrix_)rank"
    r"|world.?size|TF_CONFIG|MASTER_|OMPI_|SLURM_"
)
_ALONE = sys.stdlib_module_names - {
    "asyncio", "concurrent", "ctypes", "http", "importlib", "mmap", "multiprocessing", "runpy", "select", "selectors",
    "socket", "socketserver", "ssl", "subprocess", "urllib", "xmlrpc",
} | {
    "numpy", "scipy", "pandas", "sklearn", "matplotlib", "PIL", "tqdm", "yaml", "torch", "torchvision", "tensorflow",
    "tensorflow_datasets", "keras", "jax", "flax", "optax", "dlbench",
}  # fmt: skip
# Calls after which other code may train; and programs that do not.
_LEAVES = re.compile(r"exec\w*|(posix_)?spawn\w*|system|popen|fork|__import__")
_HARMLESS = {
    *SHELLS, "cd", "cp", "date", "echo", "exit", "export", "ln", "mkdir", "mv", "printf", "pwd", "rm", "set", "ulimit",
}  # fmt: skip
# Calls of a script that start workers, in a loop over ranks or at once; those that find what an earlier run has
# trained, and those that take it up.
_PROCESS = re.compile(r"([\w.]*\bProcess)\([^()]*\btarget=")
_STARTS = (
    "mp.spawn", "multiprocessing.spawn", "mp.start_processes", "multiprocessing.start_processes",
    "TorchTrainer", "TensorflowTrainer", "JaxTrainer", "RayExecutor",
    "LightningTrainer", "AccelerateTrainer", "TransformersTrainer", "HorovodTrainer", "horovod.run",
    "notebook_launcher", "debug_launcher",
)  # fmt: skip
_FINDS = re.compile(r"((get|find)_)?(last|latest)_(checkpoint|ckpt)\w*")
_LISTS = {"listdir", "scandir", "iterdir", "glob", "iglob", "rglob"}
_IS_THERE = {"exists", "isfile", "is_file", "isdir", "is_dir", "lexists"} | _LISTS
_TAKES_UP = {"load_state_dict", "load_weights", "load_model", "load_checkpoint", "load_state", "restore", "set_weights"}
# Arguments that say where a script writes.
FOLDERS = ("output_dir", "out_dir", "save_dir", "log_dir", "logdir", "workdir", "checkpoint_dir")
# Libraries that find other workers by what torchrun sets, and an argument whose default is an address.
BY_TORCHRUN = {"lightning", "pytorch_lightning"}
_ADDRESS = re.compile(r"""["'](--(?:dist[-_]url|init[-_]method))["'][^)]*?["']tcp://""")
# What says how many workers Lightning has on a host; by default it takes a single processor.
_DEVICES = re.compile(r"(?:--|\b)(?:LT_|PL_TRAINER_|\w+\.)?devices\b|LOCAL_WORLD_SIZE|--config\b", re.IGNORECASE)
# JAX finds the other processes by itself in some surroundings alone.
_JAX_ALONE = re.compile(r"\bdistributed\.initialize\(\)")
# An argument that torch.distributed.launch gave each process, and a command that gives it.
_LOCAL_RANK, _GIVES_RANK = re.compile(r"""["'](--local[-_]rank)["']"""), re.compile(r"--local[-_]rank[= ]['\"]?\$")
# `if os.path.isfile(args.resume)` asks an argument.
_ASKED = re.compile(r"\(\w+\.\w*(?:resume|checkpoint|ckpt|pretrained|load|weights|model)\w*\)")
# Of the modules beside a script as many are read at most.
_MOST_MODULES = 100
# Scripts that call scripts are followed to this depth.
_MOST_DEPTH = 4


@dataclass(frozen=True)
class SimpleCommand:
    """A program with its arguments, in a scenario's command or in a shell script that it starts.

    Attributes:
        words: The program first; assignments and wrappers such as `env` or `nice` are left out.
        place: The file and its line; empty where the scenario itself has it.
    """

    words: tuple[str, ...]
    place: str = ""

    @property
    def launcher(self) -> str:
        """The program that starts several processes, as it is written; empty where it is another."""
        name, arguments = Path(self.words[0]).name, self.words[1:]
        if not arguments or arguments[-1] in _QUESTIONS:
            return ""
        if name in LAUNCHERS or (name in _SUBCOMMANDS and _SUBCOMMANDS[name] in arguments[:1]):
            return " ".join([name, *arguments[: name in _SUBCOMMANDS]])
        if not _PYTHON.fullmatch(name):
            return ""
        module, script = _module_and_script(arguments)
        if module in _MODULES:
            return f"{name} -m {module}"
        return Path(script).name if Path(script).name in LAUNCHERS else ""

    @property
    def scripts(self) -> tuple[Path, ...]:
        """The Python scripts among its words."""
        return tuple(Path(word) for word in self.words if word.endswith(".py") and not names(word))

    @property
    def remedy(self) -> str:
        """The part of a launcher's command that each worker is to execute; empty where it is not clear."""
        from_script = dropwhile(lambda word: not word.endswith(".py"), self.words[1:])
        words = ["..." if "$" in word else word for word in from_script]
        return shlex.join(["python", *words]) if words else ""


def _scripts_of(commands: Iterable[SimpleCommand]) -> Iterator[Path]:
    return (path for it in commands for path in it.scripts)


def simple_commands(command: str) -> list[SimpleCommand]:
    """Return the programs that a scenario's command starts, with those of shell scripts that it names."""
    try:
        words = shlex.split(command)
    except ValueError:  # which is refused elsewhere
        return []
    return list(_followed(words, "", (Path(),), _MOST_DEPTH))


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
    paths = list(_scripts_of(simple_commands(settings.command or "")))
    texts = [text for path in paths if (text := text_of(path)) is not None]
    if not texts or any(map(_REPLICATED.search, texts)):
        return ""
    return (
        f"the strategy {settings.strategy} starts one process for all {settings.workers} workers, and {paths[0]} "
        "mentions neither MirroredStrategy nor DataParallel: it would train as one worker; let the script place its "
        "replicas, or use `strategy: mpi` with one process for each worker (docs/own-code.md)"
    )


def unconnected(command: str) -> Path | None:
    """Return the Python script of a command that names nothing by which processes find each other; None if unsure."""
    commands = [it for it in simple_commands(command) if Path(it.words[0]).name not in _HARMLESS]
    paths = list(_scripts_of(commands))
    # Another program may be what trains.
    texts = [text for it in commands for path in it.scripts or [Path()] for text in with_modules(path) or [""]]
    # Without a tree is what cannot be read.
    if not all(parsed(it).body for it in texts) or any(_CONNECTED.search(_code(it)) for it in texts):
        return None
    nodes = [node for text in texts for node in ast.walk(parsed(text))]
    imported = {alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names}
    imported |= {str(node.module) for node in nodes if isinstance(node, ast.ImportFrom) and not node.level}
    beside = {it.stem for path in paths for it in path.parent.glob("*.py")}
    is_alone = {module.partition(".")[0] for module in imported} <= _ALONE | beside
    return next(iter(paths), None) if is_alone and not any(map(_LEAVES.fullmatch, _calls(*nodes))) else None


def _code(text: str) -> str:
    """Return a Python script without comments and docstrings."""
    return re.sub(r'(?ms)^\s*""".*?"""', "", ast.unparse(parsed(text)))


def lacks_devices(command: str) -> Path | None:
    """Return the Python script of a command whose Lightning has one worker in each process; None if unsure."""
    path, outer, texts = _script_and_texts(command)
    calls = [it for text in texts for it in ast.walk(parsed(text)) if isinstance(it, ast.Call)]
    makers = [it for it in calls if re.fullmatch(r"(.*\.)?(Trainer|Fabric)", ast.unparse(it.func))]
    passed = [(it.arg, ast.unparse(it.value)) for call in makers for it in call.keywords]
    devices = {value for key, value in passed if key == "devices"}
    flags = [it for it in calls if "'--devices'" in map(ast.unparse, it.args)]
    if flags:  # which the command gives, or not
        defaults = {ast.unparse(it.value) for call in flags for it in call.keywords if it.arg == "default"}
        devices = {it for it in devices if not f".{it}".endswith(".devices")} | defaults
    # A Trainer takes of its environment what no argument says.
    outer = [it.replace("PL_TRAINER_DEVICES", "") if "devices" in dict(passed) else it for it in outer]
    is_set = any(map(_DEVICES.search, outer)) or not devices <= {"1", "None", "'auto'"}
    unclear = {None, "num_nodes"} & {*dict(passed)} or re.search(r"LOCAL_WORLD_SIZE|instantiate\(", "\n".join(texts))
    # Scripts with the hook compare how many there are.
    if not makers or is_set or unclear or any(map(has_hook, texts)):
        return None
    return path if any(BY_TORCHRUN & {*modules_of(text)} for text in texts) else None


def _script_and_texts(command: str) -> tuple[Path | None, list[str], list[str]]:
    """Return a command's Python script, the texts of the command and its shell script, and of the script's files."""
    path = next(_scripts_of(simple_commands(command)), None)
    words = _unwrapped(shlex.split(command)) or [""]
    return path, [command, _shell_text(words, (Path(),))[0] or ""], with_modules(path) if path else []


def executed(words: Sequence[str]) -> tuple[str, str, str]:
    """Return a command's program, and the Python module or the script that it executes; empty where it names none."""
    program, *arguments = (*dropwhile(lambda word: word == "env" or _ASSIGNMENT.match(word), words), "")
    if _PYTHON.fullmatch(Path(program).name):
        return program, *_module_and_script(arguments)
    return program, "", _text_and_script(arguments)[1] if Path(program).name in SHELLS else ""


def python_fault(path: Path) -> str:
    """Return the line and the reason why a Python script does not compile, or an empty string; nothing is executed."""
    try:
        with warnings.catch_warnings(action="ignore"):
            compile(read_regular(path), str(path), "exec", dont_inherit=True)
    except OSError:  # it is executed elsewhere, or the run says why it cannot be read
        return ""
    except SyntaxError as error:
        return f"line {error.lineno or 1}: {error.msg}"
    except (ValueError, RecursionError, MemoryError, OverflowError) as error:
        return str(error) or "it is nested too deep"
    return ""


def interpreter_of(text: str) -> str:
    """Return the program that the first line of a script (`#!`) names, without its folder; else an empty string."""
    first = text.partition("\n")[0]
    words = first[2:].split() if first.startswith("#!") else []
    if words and Path(words[0]).name == "env":
        words = [word for word in words[1:] if not word.startswith("-") and not _ASSIGNMENT.match(word)]
    name = Path(words[0]).name if words else ""
    return "python" if _PYTHON.fullmatch(name) else name


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
        commands = simple_commands(command)
        if _hides_failures(command):
            lines.append(
                "the last command of a pipe decides whether a run completed: begin with `set -o pipefail;`, or failed "
                "training counts as completed"
            )
        one_process = (run.settings.workers == 1 or needs_of(run.settings.strategy).one_process for run in runs)
        if not runs[0].settings.workers_inside and any(one_process):
            lines += _launcher_warnings(commands)
        path = next(_scripts_of(commands), None)
        text = text_of(path) if path else None
        if text is not None:
            lines += _about(str(path), text, command, runs)
    return list(dict.fromkeys(lines))


def _hides_failures(command: str) -> bool:
    """Whether a shell's command line has a pipe whose first part may fail unseen."""
    with suppress(ValueError):
        words = shlex.split(command)
        return Path(words[0]).name in SHELLS and bool(re.search(r"[^|]\|[^|]", words[-1])) and "pipefail" not in command
    return False


def _launcher_warnings(commands: Iterable[SimpleCommand]) -> list[str]:
    """Warn of launchers that a single process starts: more processes are no workers of the run."""
    return [
        f"the command starts `{it.launcher}` where dlbench starts one process: if it starts several, the run fails; "
        f"write what one process executes{f', `{it.remedy}`' if it.remedy else ''}"
        for it in commands
        if it.launcher
    ]


def _about(path: str, text: str, command: str, arms: Sequence[RunSpec]) -> Iterable[str]:
    taken = {name for run in arms for name, declaration in run.metrics.items() if declaration.is_taken}
    if not has_hook(text) and not taken:
        yield (
            f"{path} never mentions dlbench.worker: its row is its time and its end; `metrics` takes numbers from what "
            "it prints or writes, and a few lines report every step (docs/own-code.md)"
        )
    if has_hook(text) and (measured := sorted(taken & BUILT_IN.keys())):
        yield (
            f"{path} reports its steps by the hook: {', '.join(measured)} of `metrics` are not taken from it; what "
            "dlbench does not measure needs another name (docs/own-code.md)"
        )
    yield from _about_workers(path, text, command, arms)
    texts = with_modules(Path(path))
    if goes_on(texts) and ATTEMPT not in names(command) and "--overwrite_output_dir" not in command:
        why = "a run may begin with what another has trained"
        folder, script = f"output/{{{ATTEMPT}}}", Path(path).absolute()
        way = f"let each write to another folder, such as `--output_dir {folder}`"
        if "TrainingArguments" not in text and not any(name in text.replace("-", "_") for name in FOLDERS):
            way = f"start each in another folder: `bash -c 'mkdir -p {folder} && cd {folder} && python {script} ...'`"
        yield f"{path} goes on from a checkpoint where there is one: {why}; {way}"
    program = executed(shlex.split(command))[0]
    imported = _imported_by(text) if program in ("python", "python3") else ()
    for module, names_of in LIBRARIES.items():
        if module in imported and find_spec(module) is None:
            yield f"{path} imports {module}, which is not installed here: pip install {names_of}"
    spec = find_spec("horovod")
    folders = (spec and spec.submodule_search_locations) or ()
    for module, (engine, how) in _HOROVOD.items():
        if module in imported and folders and not any(any(Path(it, engine).glob("mpi_lib*.so")) for it in folders):
            yield f"{path} imports {module}, which was not built here: {how}"
    axes = dict.fromkeys(key for run in arms for key in run.axes if key not in _APPLIED and "." not in key)
    varied = [key for key in axes if len({run.axes.get(key) for run in arms}) > 1]
    for key in unread(command, varied):
        yield (
            f"`{key}` varies, and neither does the command have {{{key}}} nor {path} read run.{key}: if the script "
            "does not know it, arms are not what they are called"
        )


def _about_workers(path: str, text: str, command: str, arms: Sequence[RunSpec]) -> Iterable[str]:
    """Warn of a script that starts its workers otherwise than its arms say, or in which they do not connect."""
    several = [run.settings for run in arms if run.settings.workers > 1 and not run.settings.workers_inside]
    if BY_TORCHRUN & {*modules_of(text)} and {it.launcher for it in several} & {"mpirun", "local"}:
        yield f"{path} uses Lightning, which may hang with several workers without torchrun: set `launcher: torchrun`"
    if several and (address := _ADDRESS.search(text)) and address[1] not in command:
        yield f"{path} connects its workers by `{address[1]}`, whose default names a host: add `{address[1]} env://`"
    if any(it.launcher != "srun" for it in several) and _JAX_ALONE.search(_code(text)):
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
            f"first GPU; write `command: bash -c 'python {path} ... {rank[1]} $LOCAL_RANK'`"
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
            "python ...`, for Fabric `env LT_CLI_USED=1 LT_DEVICES={workers} python ...` (docs/own-code.md)"
        )
    if (call := starts_workers(text)) and not arms[0].settings.workers_inside:
        yield (
            f"{path} starts workers itself, by `{call}`: they are none of the run's; `workers_inside: true` has it "
            "started once, and {workers} in the command says how many (docs/own-code.md)"
        )
    has_several = len({run.settings.workers for run in arms}) > 1
    rate = arms[0].metrics.get(RATE.column)
    if has_several and several and rate and rate.is_taken and not rate.of and not has_hook(text):
        yield (
            f"`workers` varies: is the {RATE.column} that {path} states of all workers or of one? say `of: all` or "
            f"`of: worker`, as in `{RATE.column}: {{output: '...', of: worker}}`"
        )
    if arms[0].settings.workers_inside and has_several and "workers" not in names(command):
        yield "`workers` varies, and the command has no {workers}: how many it starts is not what arms are called"


def unread(command: str, settings: Iterable[str] = _TRAINING) -> tuple[str, ...]:
    """Return the settings that a command of the user's own does not know: neither it nor its script names them."""
    _, outer, texts = _script_and_texts(command)
    texts = [*outer, *texts]
    filled_in = names(command)

    def is_known(key: str) -> bool:
        return key in filled_in or reads(texts, key)

    return tuple(key for key in settings if not any(map(is_known, {key, TOGETHER.get(key, key)})))


def reads(texts: Sequence[str], setting: str) -> bool:
    """Whether the files of a script read a setting of its run, such as `run.batch_size`, or pass the whole run on."""
    if any("DLBENCH_SETTINGS" in text and setting in text for text in texts):
        return True
    return any(map(has_hook, texts)) and any(_uses_run(text, setting) for text in texts)


def _uses_run(text: str, setting: str) -> bool:
    nodes = list(ast.walk(parsed(text)))
    runs = {"run"} - {node.name for node in nodes if isinstance(node, ast.FunctionDef)}

    def is_run(node: ast.AST | None) -> bool:
        if isinstance(node, ast.Attribute):
            return node.attr in runs or (node.attr == "settings" and is_run(node.value))
        called = node.func if isinstance(node, ast.Call) else None
        return getattr(node, "id", "") in runs or getattr(called, "attr", getattr(called, "id", "")) == "begin"

    for node in nodes:
        if isinstance(node, ast.Assign | ast.AnnAssign | ast.NamedExpr) and is_run(node.value):
            stored = [it for it in ast.walk(node) if isinstance(getattr(it, "ctx", None), ast.Store)]
            runs |= {getattr(it, "id", getattr(it, "attr", "run")) for it in stored}
    return any(
        (isinstance(node, ast.Attribute) and node.attr == setting and is_run(node.value))
        or (isinstance(node, ast.Call) and any(map(is_run, (*node.args, *(it.value for it in node.keywords)))))
        for node in nodes
    )


def starts_workers(text: str) -> str:
    """Return the call by which a Python script starts workers whatever happens; an empty string where none does."""
    nodes: list[ast.AST] = [parsed(text)]
    for node in nodes:
        called = ast.unparse(node.func) if isinstance(node, ast.Call) else ""
        if called and any(f".{called}".endswith(f".{name}") for name in _STARTS):
            return called
        loop = getattr(node, "generators", [node])[0] if isinstance(node, ast.For | ast.ListComp) else None
        # Others may be helpers.
        if (
            loop
            and re.fullmatch(r"(\w+_)?rank", ast.unparse(loop.target))
            and (process := _PROCESS.search(ast.unparse(node)))
        ):
            return process[1]
        if not isinstance(node, ast.If) or "__name__" in ast.unparse(node.test):
            nodes += ast.iter_child_nodes(node)
    return ""


def goes_on(texts: Iterable[str]) -> bool:
    """Whether the files of a Python script train on from a checkpoint that they find, which no argument names."""
    nodes = [node for text in texts for node in ast.walk(parsed(text))]
    functions = [node for node in nodes if isinstance(node, ast.FunctionDef)]
    # Others than `load`, which json and NumPy have, too.
    takes_up = _TAKES_UP | {it.name for it in functions if _calls(it) & _TAKES_UP and it.name not in ("load", "main")}
    # What asks whether a file is there, and what is executed where it is.
    assigned = [it for it in nodes if isinstance(it, ast.Assign) and _calls(it.value) & _LISTS]
    listed = {target.id for it in assigned for target in it.targets if isinstance(target, ast.Name)}
    choices: list[tuple[Sequence[ast.AST], Sequence[ast.AST]]]
    choices = [
        ([it.test], it.orelse if isinstance(it.test, ast.UnaryOp) else it.body)
        for it in nodes
        if isinstance(it, ast.If)
        and (_calls(it.test) & _IS_THERE or listed & {getattr(node, "id", "") for node in ast.walk(it.test)})
    ]
    choices += [(it.body, [*it.body, *it.orelse]) for it in nodes if _may_lack_file(it)]
    choices += [
        (it.body, function.body)
        for function in functions
        for it in function.body
        if _may_lack_file(it) and "load" in _calls(*it.body)
    ]
    unasked = [body for asks, body in choices if not any(_ASKED.search(ast.unparse(it)) for it in asks)]
    return any(map(_FINDS.fullmatch, _calls(*nodes))) or any(_calls(*body) & takes_up for body in unasked)


def _may_lack_file(node: ast.AST) -> TypeGuard[ast.Try]:
    """Whether it is a `try` that asks whether a file is there."""
    return isinstance(node, ast.Try) and any("FileNotFoundError" in ast.unparse(it) for it in node.handlers)


def _calls(*nodes: ast.AST) -> set[str]:
    """Return the last parts of the names of what is called within."""
    calls = (it.func for node in nodes for it in ast.walk(node) if isinstance(it, ast.Call))
    return {getattr(function, "attr", getattr(function, "id", "")) for function in calls}


def with_modules(path: Path) -> list[str]:
    """Return the text of a Python script, and of the modules beside it that it imports."""
    texts, paths = dict[Path, str](), [path]
    for each in paths:
        if each not in texts and len(texts) < _MOST_MODULES and (text := text_of(each)) is not None:
            texts[each] = text
            files = (path.parent / f"{module.replace('.', '/')}.py" for module in set(modules_of(text)))
            paths += sorted(filter(is_file, files))
    return list(texts.values())


@lru_cache(_MOST_MODULES)
def parsed(text: str) -> ast.Module:
    """Return the tree of a Python script, an empty one of what is none; nothing is executed."""
    try:
        with warnings.catch_warnings(action="ignore"):
            return ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):  # another language's
        return ast.Module([], [])


def modules_of(text: str) -> Iterator[str]:
    """Yield the modules that a Python script imports or names (`torch.distributed`), with the packages they are in."""
    for node in ast.walk(parsed(text)):
        names = [alias.name for alias in node.names] if isinstance(node, ast.Import | ast.ImportFrom) else []
        if isinstance(node, ast.ImportFrom):
            names = [f"{node.module}.{name}" for name in names if not node.level]
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            names = [f"{node.value.id}.{node.attr}"]
        for name in names:
            yield from accumulate(name.split("."), "{}.{}".format)


def has_hook(text: str) -> bool:
    """Whether a Python script names a module of dlbench: it reports for itself then."""
    return any(module.partition(".")[0] == HOOK for module in modules_of(text))


def _imported_by(text: str) -> set[str]:
    """Return the modules that a Python script imports whatever happens: at its top, outside `try` and `if`."""
    imports = [node for node in parsed(text).body if isinstance(node, ast.Import | ast.ImportFrom)]
    return set(modules_of("\n".join(map(ast.unparse, imports))))


def text_of(path: Path, most_bytes: int = MOST_BYTES) -> str | None:
    """Return the text of a script, of a longer one its beginning; None if it cannot be read."""
    try:
        return read_regular(path, most_bytes).decode("utf-8", "replace")
    except (OSError, ValueError):  # no path at all, such as one with a zero byte
        return None


def _followed(words: Sequence[str], place: str, folders: Sequence[Path], depth: int) -> Iterator[SimpleCommand]:
    """Yield a command, and those of the shell script that it starts."""
    words = _unwrapped(words)
    if not words:
        return
    yield SimpleCommand(tuple(words), place)
    text, path = _shell_text(words, folders)
    if text is None or depth == 0:
        return
    folders = [Path(), path.parent] if path else folders
    entered: list[Path] = []
    for line, inner in _lines(text):
        if inner[0] == "cd":
            entered = [folder / inner[-1] for folder in folders]
        yield from _followed(inner, f"{path}: {shorten(line, 120)}" if path else place, [*folders, *entered], depth - 1)


def _unwrapped(words: Sequence[str]) -> Sequence[str]:
    """Return a command from its program on, without assignments and wrappers with their options."""
    in_wrapper = False
    for number, word in enumerate(words):
        name = Path(word).name
        if _ASSIGNMENT.match(word):
            continue
        if name == "eval" or (in_wrapper and word == "-S"):
            return _unwrapped(" ".join(words[number + 1 :]).split())
        if name in _WRAPPERS or (name in _ENVIRONMENTS and {"run", "exec"} & set(words)):
            in_wrapper = True
        elif not in_wrapper or _is_program(words, number):
            return words[number:]
    return ()


def _is_program(words: Sequence[str], number: int) -> bool:
    """Whether a word after a wrapper is a program rather than an option of the wrapper or its value."""
    word, name = words[number], Path(words[number]).name
    if name in LAUNCHERS or name in _SUBCOMMANDS:  # or an environment, a file, a container that is called so
        following = (*words[number + 1 :], "")[0]
        can_be_value = re.fullmatch(r"-\w|--[\w-]+", words[number - 1])
        return not can_be_value or following.startswith("-") or following.endswith((".py", "launch"))
    if name in SHELLS or _PYTHON.fullmatch(name):
        return True
    return word.endswith(".py") or interpreter_of(text_of(Path(word), LINE_BYTES) or "") != ""


def _shell_text(words: Sequence[str], folders: Sequence[Path]) -> tuple[str | None, Path | None]:
    """Return the text that a command has a shell execute, and its file where it is in one."""
    name = Path(words[0]).name
    if name not in (*SHELLS, "source", "."):
        path = _there(words[0], folders)
        is_shell = path is not None and interpreter_of(text_of(path, LINE_BYTES) or "") in SHELLS
        return (text_of(path), path) if path and is_shell else (None, None)
    text, script = _text_and_script(words[1:])
    path = _there(script, folders) if script else None
    return (text_of(path), path) if path else (text, None)


def _there(word: str, folders: Sequence[Path]) -> Path | None:
    """Return the file that a word names, from one of the folders that a script may be in at that place."""
    if names(word):
        return None
    return next((path for path in (folder / word for folder in folders) if is_file(path)), None)


def _lines(text: str) -> Iterator[tuple[str, list[str]]]:
    """Yield each simple command of a shell script with its line; variables that the script sets are filled in."""
    values: dict[str, str] = {}
    text = re.sub(r"\\\r?\n|\r", " ", text) + "\n"
    text = _HERE_DOCUMENT.sub(r"\1", _FOLDER.sub(".", _LOOK_UP.sub(r"\1", text)))
    words: list[str] = []
    is_pattern = False  # of `case`
    for token in _TOKEN.finditer(text):
        if token["array"]:
            values[token["array"]] = token["items"]
        elif token["word"] and (words or token["word"] not in _KEYWORDS):
            words += _filled(token["word"], values)
        elif token["end"]:
            if words and not is_pattern:
                values |= _assigned(words)
                start = text.rfind("\n", 0, token.start()) + 1
                yield text[start : start + LINE_BYTES].partition("\n")[0].strip(), words
            is_pattern = _is_pattern_next(words, token["end"].strip(), is_pattern)
            words = []


def _assigned(words: Sequence[str]) -> dict[str, str]:
    """Return the variables that a command sets for those after it."""
    assigned = [word for word in words if _ASSIGNMENT.match(word)]
    is_for_later = len(assigned) == len(words) or words[0] in _EXPORTS
    return dict(word.split("=", 1) for word in assigned) if is_for_later else {}


def _is_pattern_next(words: Sequence[str], end: str, is_pattern: bool) -> bool:
    """Whether a pattern of `case` follows what ends a command."""
    if end.endswith((";;", ";&")):
        return True
    return ")" not in end and words[:1] != ["esac"] and (is_pattern or words[:1] == ["case"])


def _filled(word: str, values: dict[str, str]) -> list[str]:
    """Return a word without quotes, with the values of variables; a value of several words becomes these."""
    with suppress(ValueError):
        word = " ".join(shlex.split(word[:MOST_WORD]))
    filled = _VARIABLE.sub(lambda it: values.get(it[1] or it[3], it[2] or it[0]), word)
    return [filled] if filled == word or _ASSIGNMENT.match(word) else filled.split()


def _text_and_script(arguments: Sequence[str]) -> tuple[str | None, str]:
    """Return the text (`-c`) or the script that words after a shell name; None and empty where they do not."""
    words = iter(arguments)
    for word in words:
        if not word.startswith(("-", "+")):
            return None, word
        if re.fullmatch(r"-\w*s\w*", word):  # from its input
            return None, ""
        if not word.startswith("--") and "c" in word:
            return next((it for it in words if not it.startswith("-")), None), ""
        if re.fullmatch(r"[-+]\w*[oO]|--(rcfile|init-file)", word):
            next(words, "")
    return None, ""


def _module_and_script(arguments: Sequence[str]) -> tuple[str, str]:
    """Return the module (`-m`) or the script that words after `python` name; empty where they do not."""
    words = iter(arguments)
    for word in words:
        if option := re.fullmatch(r"-[bBdEiIOPqsSuvx]*([cm])(.*)", word, re.DOTALL):
            return (option[2] or next(words, "")) if option[1] == "m" else "", ""
        if word in ("-W", "-X"):
            next(words, "")
        elif not word.startswith("-"):
            return "", word
    return "", ""
