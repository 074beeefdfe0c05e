"""The scenario that `dlbench init` writes: a first comparison of a user's own data or script, ready to run."""

import ast
import os
import re
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from dlbench import plugins
from dlbench.analysis.formatting import one_line
from dlbench.errors import UserError, nearest
from dlbench.regular_file import is_file
from dlbench.scenario.check.case import num_training_samples
from dlbench.scenario.check.commands import SHELLS, interpreter_of, scripts_of, simple_commands, text_of
from dlbench.scenario.check.script_arguments import (
    BY_TORCH,
    GLOBAL_BATCH,
    LAUNCHER,
    LOCAL_RANK,
    Argument,
    arguments_of,
    filled,
    with_imported,
)
from dlbench.scenario.check.scripts import (
    BY_TORCHRUN,
    callee,
    code_of,
    goes_on,
    has_hook,
    lacks_devices,
    modules_of,
    parsed,
    python_fault,
    reads,
    starts_workers,
    unconnected,
    with_modules,
)
from dlbench.scenario.metrics import QUALITY
from dlbench.scenario.read.document import inline
from dlbench.scenario.settings import Settings

AXES = ("workers", "batch_size", "strategy")
# The first pair whose larger one is there for all workers.
BATCH_SIZES = ((32, 128), (8, 32), (2, 8), (1, 2))
# Below this many pixels at a side a convolution has nothing to pool.
SMALLEST_SIDE = 16
# What a script uses, in this order, as patterns of modules, and the strategy that starts it.
STARTED_BY = (
    ("horovod", "horovod"), ("mpi4py", "mpi"), ("torch.distributed", "mpi"), ("accelerate", "mpi"),
    ("lightning", "mpi"), ("pytorch_lightning", "mpi"), ("transformers.*Trainer", "mpi"), ("jax.distributed", "mpi"),
    ("deepspeed.init.*", "mpi"), ("trl.*Trainer", "mpi"),
    ("keras.distribution.initialize", "mpi"), ("MultiWorkerMirroredStrategy", "multi_worker"),
    ("MirroredStrategy", "mirrored"), ("ParameterServerStrategy", "single"), ("TF_CONFIG", "multi_worker"),
)  # fmt: skip
# What connects workers in a module of the script; other modules may use the same library.
_CONNECTS = re.compile(
    r"init_process_group\(|hvd\.init\(|COMM_WORLD|(distribut(ed|ion)|deepspeed)\.initialize\("
    r"|deepspeed\.init_distributed\(|(Mirrored|Server)Strategy\(|TF_CONFIG"
    r"|\b(Accelerator|Fabric|\w*Trainer|LightningCLI)\("
)
_DISTRIBUTED = re.compile(r"distributed\b")
# Of these the words of scripts for TensorFlow, which are no modules.
OF_TENSORFLOW = {"MultiWorkerMirroredStrategy", "MirroredStrategy", "ParameterServerStrategy", "TF_CONFIG"}
# Settings that a script reads, by the hook or as arguments.
OF_SCRIPTS = ("batch_size", "learning_rate", "epochs")
OF_EACH = "of each worker; `batch_scope: global` makes it that of all"
# So a script's help begins where its batch size is that of all workers; others say what that is of each. How it is
# divided says no more.
_OF_ALL = re.compile(
    r"(?is)\A(?!(?:(?!divided|split).)*(?:\b(?:node|host|machine|per|each|every|single|local|times|x|not)\b|[*/=]))"
    r"(?:the )?(?:global|total)[ -](?:\w+[ -])?batch"
)
# What a batch size of all workers is divided by, and names of what may be their number.
_BY_WORKERS = re.compile(
    r"(?i)(?:\b(?:int|max|get|getenv)\(|[^(*/+-])*(?<!local_)(world_?size|\.size\(\)|comm\w*\.(get_)?size|num_processes|process_count"
    r"|jax\.device_count|num_replicas_in_sync)(?!\w)[^*/+-]*"
)
_MAY_BE_WORKERS = re.compile(r"(?i)\A(?!.*time).*(gpu|(?<!local_)device|node|world|(?<!num_)worker|proc|local_size)")
UNREAD = "let the script read run.batch_size, or give it an argument that the command sets to {batch_size}"
# What is said of a strategy: of workers that dlbench starts, of those that a script starts itself, and of replicas.
_WHY_STRATEGY = (
    "what the workers do together; `dlbench list strategies`",
    "a name alone: how its workers synchronise is the script's choice",
    "one process; on processors the script makes a logical device for each worker",
)
UNSURE_OF_EACH = "it is not certain that this is of each worker: check what the script divides it by"
UNSURE = "it is not certain that the script connects its workers: each may train alone"
# Where a script prints what it measures.
PRINTED = (
    "# metrics:                                                   # what the script prints, as columns",
    "#   train_time_s: {output: 'time: ([0-9.]+) s'}",
    "#   samples_per_s: {output: 'images/sec: ([0-9.]+)', of: all}   # or `of: worker`, each of which prints its own",
    "#   validation_accuracy: {output: 'accuracy: ([0-9.]+)%', times: 0.01}",
)
# What executes a script by the end of its name; others are known by their first line.
PROGRAMS = {".py": "python", ".pyw": "python", ".sh": "bash", ".bash": "bash"}
# How scripts of queues are known: by the end of their names, or by a line for the queue.
JOB_SUFFIXES = (".sbatch", ".slurm", ".pbs", ".lsf", ".sge")
JOB_DIRECTIVE = re.compile(r"^#(?:(?:SBATCH|PBS|BSUB|COBALT|OAR|PJM)\s|\s?flux:|\$\s*-)", re.MULTILINE)


@dataclass(frozen=True)
class Wish:
    """What a first scenario is to compare.

    Attributes:
        data: A folder of images, an .npz or a text file, the name of a data set, or `module:function`.
        script: A training script in place of data and model.
        model: A model's name or `module:function`; empty chooses one that suits the data.
        compare: Which of `AXES` vary; default: workers, where there can be several, and batch_size.
        max_workers: Most workers.
    """

    data: str = "digits"
    script: str = ""
    model: str = ""
    compare: Sequence[str] = ()
    max_workers: int = 2


@dataclass
class _Lines:
    """Settings with a comment each."""

    found: list[tuple[str, Any, str]] = field(default_factory=list)
    num_training: int | None = None
    num_classes: int | None = None
    batch_size: int | None = None
    about_batch: str = OF_EACH
    left_out: Sequence[str] = ()
    has_hook: bool = False
    starts_workers: bool = False

    def add(self, key: str, value: Any, why: str = "") -> None:
        self.found.append((key, value, why))

    def text(self) -> Iterator[str]:
        pairs = [(f"  {key}: {inline(value)}", why) for key, value, why in self.found]
        width = max((len(pair) for pair, _ in pairs), default=0)
        for pair, why in pairs:
            yield f"{pair.ljust(width)}   # {why}" if why else pair
        if self.left_out:
            missing = ", ".join(self.left_out)
            yield f"  # as the script has it: {missing} (no argument with a known default, no run.{self.left_out[0]})"


def starter(wish: Wish, name: str) -> str:
    """Return a scenario that compares what is wished for, as text.

    Args:
        wish: What to compare.
        name: The file that it will be in.

    Raises:
        UserError: The data or the script is not there, or cannot be compared so.
    """
    if axis := next((axis for axis in wish.compare if axis not in AXES), None):
        raise UserError(f"{axis!r} cannot be compared; there are: {', '.join(AXES)}", hint=nearest(axis, AXES))
    base, matrix = _Lines(), _Lines()
    strategy = _of_script(wish, base) if wish.script else _of_data(wish, base)
    is_unsure = not strategy and "workers" in wish.compare
    strategy = strategy or ("mpi" if is_unsure else "single")
    powers = [2**power for power in range(wish.max_workers.bit_length())]
    counts = powers if powers[-1] == wish.max_workers else [*powers, wish.max_workers]
    # The base line executes the same command as one of these would.
    counts = (counts[1:] if base.starts_workers else []) or counts
    if not wish.compare:
        wish = replace(
            wish, compare=["workers"] * (strategy != "single") + ["batch_size"] * ("batch_size" not in base.left_out)
        )
    if strategy == "single" and {"workers", "strategy"} & set(wish.compare):
        raise UserError(
            f"{wish.script} uses neither mpi4py, Horovod, torch.distributed nor what is built on it, nor what JAX, "
            "Keras or TensorFlow have for workers alike (dlbench starts no parameter servers for a script)",
            hint="compare batch_size alone, or see docs/own-code.md for a script with several workers",
        )
    if "strategy" in wish.compare:
        if wish.script:
            hint = "compare workers, batch_size, or both"
            raise UserError("a script has one way of synchronising, its own", hint=hint)
        trains_with_keras = all(key != "trainer" for key, _, _ in base.found)
        horovod = ["horovod"] if trains_with_keras and find_spec("horovod") is not None else []
        why = "MPI's all-reduce beside others; `dlbench list strategies` has all"
        matrix.add("strategy", ["mpi", *horovod, "local_sgd"], why)
    else:
        why = _WHY_STRATEGY[2 if strategy == "mirrored" else base.starts_workers]
        base.add("strategy", strategy, UNSURE if is_unsure else why)
    if "workers" in wish.compare:
        alone = "; one alone is added as the base line" * (counts[0] > 1)
        matrix.add("workers", counts, f"processes that train together, each with its share of the cores{alone}")
    elif strategy != "single":
        base.add("workers", counts[-1], "processes that train together")
    if "batch_size" in wish.compare:
        room = float("inf") if base.num_training is None else base.num_training / counts[-1]
        sizes = next((pair for pair in BATCH_SIZES if pair[1] <= room), BATCH_SIZES[-1])
        if base.batch_size:
            sizes = (base.batch_size, 4 * base.batch_size)
        matrix.add("batch_size", list(sizes), base.about_batch)
    axes = ("matrix:   # every combination of these is an arm", *matrix.text(), "") if matrix.found else ()
    return "\n".join((*_head(wish, name), "base:", *base.text(), "", *axes, *_end(wish, base))) + "\n"


def _head(wish: Wish, name: str) -> Iterator[str]:
    shown = one_line(shlex.quote(name))
    does = f"Compares {' and '.join(wish.compare)} for" if wish.compare else "Measures"
    yield f"# {does} {one_line(wish.script or wish.data)}."
    yield "#"
    yield f"#   dlbench check {shown}            what would be run; starts nothing"
    yield f"#   dlbench run {shown} --report     run it, and draw the charts"
    yield "#"
    yield "# `dlbench list settings` shows everything that can be set here."


def _end(wish: Wish, base: _Lines) -> Iterator[str]:
    yield "repeats: 5   # fewer cannot show what is chance"
    yield "# timeout_s: 30m                                              # ends a run that takes longer"
    if wish.script and not base.has_hook:
        yield from PRINTED
    if not wish.script:
        target = f"{{metric: {QUALITY[1] if base.num_classes == 0 else QUALITY[0]}, value: 0.9}}"
        yield f"# target: {target.ljust(51)}# the time to it becomes a column"


def _of_script(wish: Wish, base: _Lines) -> str:
    """Add what a script needs; return the strategy that starts it, or nothing where that is not certain."""
    script = Path(wish.script)
    command = command_of(script)
    is_python, commands = command.startswith("python"), simple_commands(command)
    nested = next((it for it in commands if it.launcher), None)
    if nested and {"workers", "strategy"} & set(wish.compare):
        raise UserError(
            f"{wish.script} starts processes itself, by `{nested.launcher}`, and dlbench starts one for each worker",
            hint=f"name the script that one process executes: --script {(*nested.scripts, 'train.py')[0]}",
        )
    texts, started = texts_of(script), {text_of(path) for path in (script, *scripts_of(commands))}
    # What a module imports alone, such as `torch.distributed` to ask for its rank, starts no workers.
    connecting = [text for text in texts if text in started or _CONNECTS.search(text)]
    modules = {module for text in connecting for module in modules_of(text)}
    tree = [node for text in connecting for node in ast.walk(parsed(text))]
    modules |= OF_TENSORFLOW & {getattr(node, key, "") for node in tree for key in ("attr", "id", "value")}
    arguments = arguments_of(with_imported(script), script.parent) if is_python else []
    fixed = {"learning_rate": 0.1, "epochs": 10}
    if wish.compare and "batch_size" not in wish.compare:
        fixed["batch_size"] = 32
    # What the script takes by itself is better than what is invented here.
    arguments = [
        it
        for it in arguments
        if it.setting not in fixed or it.is_needed or it.is_positional or _number(it.default, type(fixed[it.setting]))
    ]
    arguments.sort(key=lambda it: it.name == GLOBAL_BATCH)  # the first of a setting is filled in
    starts, starting = starts_workers(text_of(script) or "") if is_python else ("", "")
    words, open_ones = filled(arguments, starts_workers=starting, goes_on=goes_on(texts))
    line = " ".join([command, *words])
    if is_python and not starts and BY_TORCHRUN & {module for text in texts for module in modules_of(text)}:
        line = _of_lightning([command, *words], texts, arguments)
    line = f"bash -c {shlex.quote(line)}" if LOCAL_RANK in line else line
    about = f"{', '.join(open_ones)}: say what it is to be" if open_ones else ""
    base.add("command", line, about or "{batch_size} and every other setting can be filled in")
    defaults = {argument.setting: argument.default for argument in reversed(arguments) if not argument.is_switch}
    base.batch_size = _number(defaults.get("batch_size"), int)
    base.has_hook = any(map(has_hook, texts))
    read = [key for key in OF_SCRIPTS if reads(texts, key)]
    base.left_out = [key for key in OF_SCRIPTS if key not in read and key not in defaults]
    _add_scope(base, arguments, tree)
    for key, default in fixed.items():
        why = [f"what the script reads as run.{key}"] * (key in read)
        why += ["a rate needs 50 steps and 5 s"] * (key == "epochs" and base.has_hook)
        why += [base.about_batch] * (key == "batch_size")
        if key not in base.left_out:
            base.add(key, _number(defaults.get(key), type(default)) or default, "; ".join(why))
    if starts:
        base.starts_workers = True
        takes_number = "{workers}" in words
        what = "as many as {workers} says" if takes_number else "no argument known here says how many"
        if not takes_number and {"workers", "strategy"} & set(wish.compare):
            raise UserError(
                f"{wish.script} starts workers itself, by {starts}: {what}",
                hint="let an argument such as --num-processes say it, or compare batch_size alone",
            )
        base.add("workers_inside", True, f"it starts them itself, by {starts}: {what}")
        return "mpi" if takes_number else "single"
    if nested:
        return "single"
    strategy = _started_by(modules, texts, line)
    if strategy == "mpi" and BY_TORCHRUN & modules:
        base.add("launcher", "torchrun", "which Lightning asks for; `devices` must be its number of workers")
    return strategy


def _of_lightning(words: Sequence[str], texts: Sequence[str], arguments: Sequence[Argument]) -> str:
    """Return a command that tells Lightning how many workers there are on a host, where the script does not say it."""
    code, line = "\n".join(map(code_of, texts)), " ".join(words)
    is_cli = re.search(r"\bLightningCLI\(|\(LightningCLI\)", code) is not None
    if is_cli and not re.search(r"\brun=False", code):  # its first argument says what to do
        line = " ".join([words[0], "fit", *words[1:]])
    passed = re.findall(r"\bdevices=(?:\w+\.)?(\w+)[,)]", code)
    # A list would name devices by their numbers.
    takers = {"devices", *(it.name for it in arguments if it.name in passed and type(it.default) is int)}
    takers -= {it.name for it in arguments if it.is_list or f"{it.name}.split(" in code}
    flags = [it.flag for it in arguments if it.flag.startswith("--") and it.name in takers]
    if flags and not any(it.subcommand for it in arguments):
        return line if flags[0] in words else f"{line} {flags[0]} {{workers}}"
    if re.search(r"instantiate\(\w+\.trainer\b", code):
        return f"{line} trainer.devices={{workers}}"
    if is_cli:
        return f"{line} --trainer.devices {{workers}}"
    if not lacks_devices(line) or "devices=" in code:
        return line
    if re.search(r"\bFabric\(", code):
        # Fabric's own command says the first; with it `.launch()` fails.
        return f"env {'LT_CLI_USED=1 ' * ('.launch(' not in code)}LT_DEVICES={{workers}} {line}"
    return f"env PL_TRAINER_DEVICES={{workers}} {line}"


def _started_by(modules: set[str], texts: Sequence[str], command: str) -> str:
    """Return the strategy that starts a script, by what it uses; nothing where that is not certain."""
    if BY_TORCHRUN & modules and any(re.search(r"\b(Trainer|Fabric|LightningCLI)\(", text) for text in texts):
        modules = modules - {"horovod"}  # Lightning has none any more
    if f"{LAUNCHER} {BY_TORCH}" in command:
        modules = modules | {"torch.distributed"}
    names = (strategy for name, strategy in STARTED_BY if any(re.fullmatch(name, it) for it in modules))
    if strategy := next(names, ""):  # what is imported alone connects none
        return "single" if strategy == "mpi" and unconnected(command) else strategy
    # A library's way to connect may be `library.distributed`.
    return "" if any(_DISTRIBUTED.search(it) for text in texts for it in modules_of(text)) else "single"


def _add_scope(base: _Lines, arguments: Sequence[Argument], tree: Sequence[ast.AST]) -> None:
    base.about_batch = UNREAD if "batch_size" in base.left_out else OF_EACH
    batch = next((it for it in arguments if it.setting == "batch_size"), Argument(""))
    # `args.batch_size // passes // world_size`, by the batch size itself and nothing else.
    size = rf"(?:[\w.]+\.)?(?:{re.escape(batch.name)}|batch_size)"
    quotient = re.compile(size + r" //?=? (?!.*(?: [+-] |\([^)]*/))(.*)")
    operations = [it for it in tree if isinstance(it, ast.BinOp | ast.AugAssign)]
    divisions = [it for it in operations if isinstance(it.op, ast.Div | ast.FloorDiv)]
    matches = {it: quotient.fullmatch(ast.unparse(it)) for it in divisions}
    divisors = {it: re.findall(r"[\w.]+(?:\(\))?", found[1]) for it, found in matches.items() if found}
    assigned = [(it.targets[0], it.value) for it in tree if isinstance(it, ast.Assign)]
    pairs = [zip(*(getattr(it, "elts", [it]) for it in pair), strict=False) for pair in assigned]
    meant = {callee(target): value for pair in pairs for target, value in pair}
    for of_one in divisors.values():
        of_one += [ast.unparse(meant[name]) for it in of_one if (name := it.rpartition(".")[2]) in meant]
    every = [divisor for of_one in divisors.values() for divisor in of_one]
    # What is divided by the passes of an update alone may be in total that of one worker.
    is_total, has_passes = _OF_ALL.search(batch.help), any(re.search("(?i)accum|update_freq", it) for it in every)
    names = {it.name for it in arguments if it.setting == "batch_size"}
    reasons = {
        "the script divides it by their number": any(map(_BY_WORKERS.fullmatch, every)),
        "as its name says": batch.name == GLOBAL_BATCH,
        "as the script's help says": is_total and not has_passes,
    }
    if batch.setting and (why := next((it for it, holds in reasons.items() if holds), "")):
        base.about_batch = f"of all workers: {why}"
        base.add("batch_scope", "global", base.about_batch)
    elif base.about_batch == OF_EACH:
        asking = [it for it in tree if isinstance(it, ast.If) and "__name__" not in ast.unparse(it.test)]
        optional = {inner for it in asking for inner in ast.walk(it)}
        always = [it for node, of_one in divisors.items() if node not in optional for it in of_one]
        if is_total or GLOBAL_BATCH in names or any(map(_MAY_BE_WORKERS.search, always)):
            base.about_batch = UNSURE_OF_EACH


def _number(value: object, kind: type[int] | type[float]) -> Any:
    """Return a default as a positive number of a kind, such as 0.1 of "0.1"; None where it is none."""
    try:
        number = kind(float(str(value)))
    except (TypeError, ValueError, OverflowError):
        return None
    return number if number > 0 and not isinstance(value, bool) else None


def command_of(script: Path) -> str:
    """Return the command that executes a script.

    Raises:
        UserError: It is not there, neither Python nor a shell script, a job script or a notebook, or does not compile.
    """
    if not script.is_file():
        near = nearest(script.name, [path.name for path in script.parent.glob("*.py")])
        raise UserError(f"there is no script {str(script)!r}", hint=near)
    quoted = shlex.quote(f"./{script}" if str(script).startswith("-") else str(script))
    text = text_of(script)
    if text is None:
        raise UserError(f"{script} cannot be read")
    if script.suffix == ".ipynb":
        raise UserError(
            f"{script} is a notebook, and a run executes a script",
            hint=f"make one of it: jupyter nbconvert --to script {quoted}",
        )
    program = PROGRAMS.get(script.suffix) or interpreter_of(text)
    if script.suffix in JOB_SUFFIXES or (program != "python" and JOB_DIRECTIVE.search(text)):
        inner = next(scripts_of(simple_commands(f"bash {quoted}")), Path("train.py"))
        raise UserError(
            f"{script} is a job script, and dlbench submits jobs and starts the processes itself (docs/queues.md)",
            hint=f"name the script that its srun or mpirun line starts: --script {inner}",
        )
    if program not in ("python", *SHELLS):
        raise UserError(
            f"{script} is neither a Python nor a shell script by the end of its name (.py, .sh) or its first line (#!)",
            hint="write the command into a scenario by hand: docs/own-code.md",
        )
    if program == "python" and (fault := python_fault(script)):
        raise UserError(f"{script} does not compile: {fault}")
    levels = [node.level for node in parsed(text).body if isinstance(node, ast.ImportFrom) and node.level]
    if program == "python" and levels:
        parts = Path(os.path.relpath(script)).with_suffix("").parts
        # `src/package/train.py` is no module of `src`.
        is_whole = is_file(Path(parts[0], "__init__.py")) or not is_file(script.parent / "__init__.py")
        if is_whole and len(parts) > max(levels) and all(map(str.isidentifier, parts)):
            return f"python -m {'.'.join(parts)}"
        raise UserError(
            f"{script} imports from its package (`from . import`), which Python only does for a module",
            hint=f"go to the folder that the package is in, for `command: python -m package.{script.stem}`",
        )
    return f"{program} {quoted}"


def texts_of(script: Path) -> list[str]:
    """Return the texts of a script, of Python scripts that it starts, and of the modules of both."""
    paths = {script, *scripts_of(simple_commands(command_of(script)))}
    return list(dict.fromkeys(text for path in sorted(paths) for text in with_modules(path)))


def _of_data(wish: Wish, base: _Lines) -> str:
    """Add data and model; return the strategy."""
    options = _options_of(wish.data)
    dataset = str(options.pop("dataset"))
    plugin = plugins.load("datasets", dataset)
    chosen = {key.partition(".")[2]: value for key, value in options.items()}
    about = describe(plugin.options(**chosen)) if (describe := plugin.get("describe")) else None
    if about:
        base.num_training, base.num_classes = num_training_samples(Settings(), about), about.num_classes
    base.add("dataset", dataset, f"{about.num_train:,} samples" if about else "")
    for key, value in options.items():
        base.add(key, value, "all images get this size: theirs differ" if key == "dataset.image_size" else "")
    model = wish.model or _model_for(about)
    base.add("model", model, "`dlbench list models` has others; your own: module:function")
    if model in ("mlp", "softmax"):
        base.add("trainer", "numpy", "starts in a tenth of a second; remove it to train with Keras")
    base.add("epochs", 5, "passes over the data")
    base.add("learning_rate", 0.05, "")
    if "strategy" not in wish.compare:  # those that do not wait for each other cannot
        base.add("extend_window", True, "step on after training until a rate can be measured")
    return "mpi"


def _options_of(data: str) -> dict[str, Any]:
    """Return the data set and its options that a word or a path means."""
    path = Path(data).expanduser()
    if path.is_dir():
        folder = plugins.load("datasets", "image_folder")
        size = folder.get("common_size")(folder.options.model_validate({"path": data}))
        return {"dataset": "image_folder", "dataset.path": data} | ({"dataset.image_size": list(size)} if size else {})
    if path.suffix.lower() == ".npz":
        return {"dataset": "npz", "dataset.path": data}
    if path.is_file():
        return {"dataset": "text", "dataset.path": data}
    names = plugins.names("datasets")
    fields = plugins.load("datasets", data).options.model_fields if data in names else {}
    if needed := ", ".join(f"dataset.{name}" for name, field in fields.items() if field.is_required()):
        raise UserError(f"the data set {data} needs {needed}", hint="name the file or folder itself: --data PATH")
    if data in names or ":" in data:
        return {"dataset": data}
    raise UserError(
        f"{data!r} is no file or folder, and no data set; there are: {', '.join(names)}", hint=nearest(data, names)
    )


def _model_for(found: Any) -> str:
    """Return a model that suits samples: of tokens a recurrent one, of images a convolution where they allow it."""
    if found is not None and found.vocabulary:
        return "lstm"
    shape = None if found is None else found.input_shape
    has_keras = find_spec("tensorflow") is not None
    is_image = shape is not None and len(shape) == 3 and min(shape[:2]) >= SMALLEST_SIDE
    return "cnn" if has_keras and is_image else "mlp"
