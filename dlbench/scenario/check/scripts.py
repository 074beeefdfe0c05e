"""What Python scripts of a user's own do, by their source; nothing is executed."""

import ast
import os
import re
import sys
import warnings
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from functools import lru_cache
from itertools import accumulate
from pathlib import Path

from dlbench.regular_file import is_file, read_regular
from dlbench.scenario.check.commands import SHELLS, module_file, scripts_of, shell_text, simple_commands, text_of
from dlbench.scenario.placeholders import names
from dlbench.scenario.settings import Affects, settings_of

# What dlbench itself applies to a script: how many workers it starts, where.
APPLIED = frozenset(settings_of(Affects.DISTRIBUTION, Affects.OBSERVATION)) | {"cores_per_worker", "command"}
# What a run of dlbench's own is trained with, and with which setting a script takes what changes its value.
_TRAINING = tuple(key for key in settings_of(Affects.STEP, Affects.ARITHMETIC, Affects.TRAINING) if key not in APPLIED)
TOGETHER = {
    "batch_scope": "batch_size",
    "divide": "epochs",
    "learning_rate_scale": "learning_rate",
    "learning_rate_base_batch": "learning_rate",
}
HOOK = "dlbench"
# What scripts mention that connect processes, lines that import, and libraries that by themselves connect none.
_CONNECTED = re.compile(
    r"(?i)distribut(?!ions?\b)|distribution(?:\.initialize| import .*\binitialize| as (\w+)\b(?s:.*)\b\1\.initialize)"
    r"|(?<!num_)(?<!nn\.)(?<!data)(?<!data_)parallel(?!_calls|ism_threads)|(?<!matrix_)rank|world.?size|TF_CONFIG"
    r"|MASTER_|OMPI_|SLURM_"
)
_IMPORT = re.compile(r"(?m)^ *((?:from .* )?import )(.*)$")
_ALONE = sys.stdlib_module_names - {
    "asyncio", "concurrent", "ctypes", "http", "importlib", "mmap", "multiprocessing", "runpy", "select", "selectors",
    "socket", "socketserver", "ssl", "subprocess", "urllib", "xmlrpc",
} | {
    "numpy", "scipy", "pandas", "sklearn", "matplotlib", "PIL", "tqdm", "yaml", "torch", "torchvision", "tensorflow",
    "tensorflow_datasets", "keras", "jax", "flax", "optax", "orbax", "clu", "absl", "ml_collections", "einops",
    "packaging", "flaxformer", "tensorflow_text", "dlbench",
}  # fmt: skip
# Calls after which other code may train; and programs that do not.
_LEAVES = re.compile(r"exec\w*|(posix_)?spawn\w*|system|fork|__import__")
_HARMLESS = {
    *SHELLS, "cd", "cp", "date", "echo", "exit", "export", "ln", "mkdir", "mv", "printf", "pwd", "rm", "set", "ulimit",
}  # fmt: skip
# Calls of a script that start workers, in a loop over ranks or at once; those that find what an earlier run has
# trained, and those that take it up.
_PROCESS = re.compile(r"([\w.]*\bProcess)\([^()]*\btarget=")
_STARTS = (
    "mp.spawn", "multiprocessing.spawn", "mp.start_processes", "multiprocessing.start_processes",
    "TorchTrainer", "TensorflowTrainer", "JaxTrainer", "RayExecutor",
    "ElasticRayExecutor", "spark.run", "spark.run_elastic", "KerasEstimator", "TorchEstimator",
    "LightningTrainer", "AccelerateTrainer", "TransformersTrainer", "HorovodTrainer", "horovod.run",
    "notebook_launcher", "debug_launcher",
)  # fmt: skip
_FINDS = re.compile(r"((get|find)_)?(last|latest)_(checkpoint|ckpt)\w*|auto_?resume\w*")
_LISTS = {"listdir", "scandir", "iterdir", "glob", "iglob", "rglob"}
_IS_THERE = {"exists", "isfile", "is_file", "isdir", "is_dir", "lexists"} | _LISTS
_TAKES_UP = {"load_state_dict", "load_weights", "load_model", "load_checkpoint", "load_state", "restore", "set_weights"}
# Arguments that say where a script writes its checkpoints; beside a folder of logs they may be elsewhere.
FOLDERS = ("output_dir", "out_dir", "save_dir", "workdir", "checkpoint_dir", "output")
# Libraries that find other workers by what torchrun sets.
BY_TORCHRUN = {"lightning", "pytorch_lightning"}
# What makes its trainers, and what of a command says how many workers they have on a host, or a file that may.
_MAKES = re.compile(r"\b(Trainer|Fabric)\(|\bLightningCLI\b")
_DEVICES = re.compile(
    r"(?:--|\b)(?:LT_|PL_TRAINER_|\w+\.)?devices\b|LOCAL_WORLD_SIZE|--config\b|\.py\b.* -c\b", re.IGNORECASE
)
# A Trainer takes of its environment what no argument says; a LightningCLI passes all arguments.
_ARGUMENTS = re.compile(r"\bdevices=|\bLightningCLI\b")
# By default it takes a single processor; what may say another number.
_ONE = re.compile(r"\bdevices(?:=|': )(1|None|'auto')(?=[,)}])")
_MAY_SAY = re.compile(
    r"devices|num_nodes|LOCAL_WORLD_SIZE|instantiate\("
    r"|(Trainer|Fabric|CLI)\(.*(\*\*|\b(args|parser_kwargs|trainer_class)=|trainer_defaults=\w+[,)])"
)
# `if os.path.isfile(args.resume)` asks an argument.
_ASKED = re.compile(r"\(\w+\.\w*(?:resume|checkpoint|ckpt|pretrained|load|weights|model)\w*\)")
# So does `if args.resume == "latest"`, or a variable that has its answer, where `--resume` is off by default.
_WISHED, _OFF = re.compile(r"(\w+\.)?resume(_latest|_last)?( == '\w+'| is not None)?"), {"None", "''", "False"}
# Of the modules beside a script at most this many are read, and of a name with dots this many parts.
_MOST_MODULES, _MOST_PARTS = 100, 4


def unconnected(command: str) -> Path | None:
    """Return the Python script of a command that names nothing by which processes find each other; None if unsure."""
    commands = [it for it in simple_commands(command) if Path(it.words[0]).name not in _HARMLESS]
    paths = list(scripts_of(commands))
    # Another program may be what trains.
    texts = [text for it in commands for path in it.scripts or [Path()] for text in with_modules(path) or [""]]
    used = {module for text in texts for module in _imported(ast.walk(parsed(text)))}
    packages = {it.parent for path in paths for it in path.parent.glob("*/__init__.py") if it.parent.name in used}
    folders = sorted(packages)
    for folder in folders:  # what is in their folders of images is left alone
        folders += sorted({it.parent for it in folder.glob("*/*.py") if len(folders) <= _MOST_MODULES})
    inner = [it for folder in folders for it in folder.glob("*.py")]
    texts += [text for it in inner[:_MOST_MODULES] if (text := text_of(it))]
    # Without a tree is what cannot be read.
    is_read = len(inner) <= _MOST_MODULES and all(parsed(it).body for it in texts)
    if not is_read or may_connect(texts):
        return None
    nodes = [node for text in texts for node in ast.walk(parsed(text))]
    beside = {it.stem for path in paths for it in path.parent.glob("*.py")}
    beside |= {it.name for it in [*packages, *map(_package, paths)]}
    is_alone = {module.partition(".")[0] for module in _imported(nodes)} <= _ALONE | beside
    return next(iter(paths), None) if is_alone and not any(map(_LEAVES.fullmatch, _calls(*nodes))) else None


def chooses_workers(command: str) -> bool:
    """Whether neither a command that starts its workers itself says how many, nor its script reads that."""
    return bool(unread(command, ["workers"])) and not any(it.launcher for it in simple_commands(command))


def code_of(text: str) -> str:
    """Return a Python script without comments and docstrings; unchanged where it is nested too deep."""
    with suppress(RecursionError):
        text = ast.unparse(parsed(text))
    return re.sub(r'(?ms)^\s*""".*?"""', "", text)


def may_connect(texts: Iterable[str]) -> bool:
    """Whether the files of a script name anything by which processes find each other."""
    return any(_CONNECTED.search(_used(it)) for it in texts)


def _used(text: str) -> str:
    """Return the code of a Python script without imports of names that it never uses."""
    code = code_of(text)
    uses = {"*", *re.findall(r"[\w.]+", _IMPORT.sub("", code))}
    uses |= {part for it in uses for part in accumulate(it.split("."), "{}.{}".format)}

    def used(line: re.Match[str]) -> str:
        parts = [it for it in line[2].split(",") if uses & {*it.split()[-1:]}]
        return line[1] + ",".join(parts) if parts else ""

    return _IMPORT.sub(used, code)


def lacks_devices(command: str) -> Path | None:
    """Return the Python script of a command whose Lightning has one worker in each process; None if unsure."""
    path, outer, texts = _script_and_texts(command)
    code = "\n".join(map(code_of, texts))
    if _ARGUMENTS.search(code):
        outer = [it.replace("PL_TRAINER_DEVICES", "") for it in outer]
    is_said = any(map(_DEVICES.search, outer)) or _MAY_SAY.search(_ONE.sub("", code))
    is_made = any(BY_TORCHRUN & {*modules_of(text)} for text in texts) and _MAKES.search(code)
    # Scripts with the hook compare how many there are.
    return path if is_made and not is_said and not any(map(has_hook, texts)) else None


def _script_and_texts(command: str) -> tuple[Path | None, list[str], list[str]]:
    """Return a command's Python script, the texts of the command and its shell script, and of the script's files."""
    path = next(scripts_of(simple_commands(command)), None)
    return path, [command, shell_text(command)], with_modules(path) if path else []


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


def unread(command: str, settings: Iterable[str] = _TRAINING) -> tuple[str, ...]:
    """Return the settings that a command of the user's own does not know: neither it nor its script names them."""
    _, outer, texts = _script_and_texts(command)
    texts = [*outer, *texts]
    filled_in = names(command)
    return tuple(
        key for key in settings if not any(it in filled_in or reads(texts, it) for it in {key, TOGETHER.get(key, key)})
    )


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


def starts_workers(text: str) -> tuple[str, str]:
    """Return the call by which a Python script starts workers, and the text of it and its loop.

    It starts them always, or where there are several. Both are empty where no call does. A name in the text that is set
    to an attribute, such as `args.workers`, is replaced with that.
    """
    nodes: list[ast.AST] = [parsed(text)]
    meant = {
        ast.unparse(it.targets[0]): _dotted(it.value)
        for it in ast.walk(parsed(text))
        if isinstance(it, ast.Assign) and isinstance(it.value, ast.Attribute)
    }

    def with_meant(node: ast.AST) -> str:
        return re.sub(r"(?<![\w.])[^\W\d]\w*\b(?!=)", lambda it: meant.get(it[0]) or it[0], ast.unparse(node))

    for node in nodes:
        called = ast.unparse(node.func) if isinstance(node, ast.Call) else ""
        if called and any(f".{called}".endswith(f".{name}") for name in _STARTS):
            return called, with_meant(node)
        loop = getattr(node, "generators", [node])[0] if isinstance(node, ast.For | ast.ListComp) else None
        # Others may be helpers.
        if (
            loop
            and re.fullmatch(r"(\w+_)?rank", ast.unparse(loop.target))
            and (process := _PROCESS.search(ast.unparse(node)))
        ):
            return process[1], with_meant(node)
        if not isinstance(node, ast.If) or re.search(r"__name__|> 1$", ast.unparse(node.test)):
            nodes += ast.iter_child_nodes(node)
    return "", ""


def goes_on(texts: Sequence[str]) -> bool:
    """Whether the files of a Python script train on from a checkpoint that they find, which no argument names."""
    nodes = [node for text in texts for node in ast.walk(parsed(text))]
    functions = [node for node in nodes if isinstance(node, ast.FunctionDef)]
    # Others than `load`, which json and NumPy have, too.
    takes_up = _TAKES_UP | {it.name for it in functions if _calls(it) & _TAKES_UP and it.name not in ("load", "main")}
    calls = [it for it in nodes if isinstance(it, ast.Call)]
    flags = [it for it in calls if any(getattr(arg, "value", "") == "--resume" for arg in it.args)]
    defaults = {ast.unparse(it.value) for call in flags for it in call.keywords if it.arg == "default"}
    is_off = flags and defaults <= _OFF
    asking = [it for it in nodes if is_off and isinstance(it, ast.If) and _WISHED.fullmatch(ast.unparse(it.test))]
    wished = {inner for it in asking for part in it.body for inner in ast.walk(part)}
    looks = {callee(it) for it in calls if it not in wished}
    # `args.resume = max(glob(path))`, and what loads that is elsewhere.
    listing = [it for function in functions if _calls(function) & _LISTS for it in ast.walk(function)]
    stores = [it for it in listing if isinstance(it, ast.Assign) and callee(it.targets[0]) == "resume"]
    chosen = [it for it in stores if it not in wished and not isinstance(it.value, ast.Attribute | ast.Constant)]
    # What passes on what is given chooses nothing.
    is_chosen = any(not re.search(r"\bresume\b", ast.unparse(it.value)) for it in chosen)
    return (
        is_chosen
        or any(map(_FINDS.fullmatch, looks))
        or any(
            _calls(*_where_files_are(scope)) & takes_up
            for text in texts
            for scope in ast.walk(parsed(text))
            if isinstance(scope, ast.Module | ast.FunctionDef)
        )
    )


def _where_files_are(scope: ast.AST) -> list[ast.AST]:
    """Return what of a module or a function is executed where a file is there that no argument names."""
    nodes = [scope]
    for node in nodes:
        if node is scope or not isinstance(node, ast.FunctionDef):
            nodes += ast.iter_child_nodes(node)
    nodes = [it for it in nodes if it is scope or not isinstance(it, ast.FunctionDef)]
    blocks = [getattr(it, key, None) for it in nodes for key in ("body", "orelse", "finalbody")]
    steps = [(it, block[number:]) for block in blocks if isinstance(block, list) for number, it in enumerate(block, 1)]
    answers, there = set[str](), list[ast.AST]()
    for step, after in sorted(steps, key=lambda it: it[0].lineno):
        asks: Sequence[ast.AST]
        if isinstance(step, ast.If):
            asks, then, missing = [step.test], step.body, step.orelse
            if isinstance(step.test, ast.UnaryOp):
                then, missing = missing, then
            names_in = {getattr(it, "id", "") for it in ast.walk(step.test)}
            is_asked = bool(_calls(step.test) & _IS_THERE or answers & names_in)
        elif isinstance(step, ast.Try):
            asks, then = step.body, [*step.body, *step.orelse]
            missing = [it for part in step.handlers for it in part.body]
            is_asked = any("FileNotFoundError" in ast.unparse(it) for it in step.handlers)
        elif isinstance(step, ast.Assign):
            asks, then, missing, is_asked = [step.value], [step], [], bool(_calls(step.value) & _IS_THERE)
        else:
            continue
        if is_asked and not any(_ASKED.search(ast.unparse(it)) for it in asks):
            targets = [target for it in then if isinstance(it, ast.Assign) for target in it.targets]
            answers |= {it.id for it in targets if isinstance(it, ast.Name)}
            there += then
            # After an early return what is loaded from there counts, not what the script has written since.
            calls = [it for part in asks for it in ast.walk(part) if isinstance(it, ast.Call)]
            asked = answers | {ast.unparse(arg) for it in calls for arg in it.args}
            if any(isinstance(it, ast.Return) for it in missing[-1:]) and _loads(after) & asked:
                there += after
    return there


def _loads(steps: Sequence[ast.AST]) -> set[str]:
    """Return what is passed to functions that load, as text."""
    calls = (it for step in steps for it in ast.walk(step) if isinstance(it, ast.Call))
    calls = (it for it in calls if callee(it) in {"load", *_TAKES_UP})
    return {ast.unparse(arg) for it in calls for arg in it.args}


def _calls(*nodes: ast.AST) -> set[str]:
    """Return the last parts of the names of what is called within."""
    return {callee(it) for node in nodes for it in ast.walk(node) if isinstance(it, ast.Call)}


def callee(node: ast.expr | None) -> str:
    """Return the last part of the name of what is called, or of a name."""
    function = node.func if isinstance(node, ast.Call) else node
    return function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")


def with_modules(path: Path) -> list[str]:
    """Return the text of a Python script, and of the modules that it imports beside it and from its package.

    Of other packages no more than modules that are named: what all of a library could do, no script does.
    """
    texts, paths = dict[Path, str](), [path]
    package = _package(path)
    for each in paths:
        if each not in texts and len(texts) < _MOST_MODULES and (text := text_of(each)) is not None:
            texts[each] = text
            files = set[Path | None]()
            for _, dotted, module, folders in _imports(text, each, path):
                names = {module, *accumulate(dotted.split("."), "{}.{}".format)} - {""}
                files |= {module_file(name, folder) for name in names for folder in folders}
            paths += sorted(it for it in files if it and (it.name != "__init__.py" or package in it.parents))
    # Many an `__init__.py` is empty.
    return [text for it, text in texts.items() if it == path or it.name != "__init__.py" or parsed(text).body]


def _package(path: Path) -> Path:
    """Return the outermost folder with an `__init__.py` that a script is in; without one the script itself."""
    return next((it for it in (path, *path.parents) if not is_file(it.parent / "__init__.py")), path)


def imports_of(path: Path, script: Path) -> Iterator[tuple[str, Path, str]]:
    """Yield what a file of a script has from others beside it: what it calls that, the other file, its name there.

    The name of a whole module is `*`.
    """
    text = text_of(path) or ""
    attributes = [_dotted(it).rpartition(".") for it in ast.walk(parsed(text)) if isinstance(it, ast.Attribute)]
    for it, dotted, module, folders in _imports(text, path, script):
        here = it.asname or it.name
        if file := next(filter(None, (module_file(dotted, folder) for folder in folders)), None):
            yield here, file, "*"
            yield from ((f"{here}.{name}", file, name) for before, _, name in attributes if before == here)
        elif module and (file := next(filter(None, (module_file(module, folder) for folder in folders)), None)):
            yield here, file, it.name


def _imports(text: str, path: Path, script: Path) -> Iterator[tuple[ast.alias, str, str, list[Path]]]:
    """Yield what a file of a script imports: the name, the same after its module, the module, and where both may be."""
    for node in _import_nodes(text):
        level = getattr(node, "level", 0)
        near = Path(os.path.normpath(path.parent.joinpath(*[".."] * (level - 1))))
        folders = [near] if level else [script.parent, _package(script).parent]
        module = getattr(node, "module", None) or "__init__" * bool(level)
        for it in node.names:
            yield it, f"{module}.{it.name}".removeprefix("__init__").lstrip("."), module, folders


@lru_cache(4 * _MOST_MODULES)
def _import_nodes(text: str) -> list[ast.Import | ast.ImportFrom]:
    return [node for node in ast.walk(parsed(text)) if isinstance(node, ast.Import | ast.ImportFrom)]


@lru_cache(4 * _MOST_MODULES)
def parsed(text: str) -> ast.Module:
    """Return the tree of a Python script, an empty one of what is none; nothing is executed."""
    try:
        with warnings.catch_warnings(action="ignore"):
            return ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):  # another language's
        return ast.Module([], [])


def modules_of(text: str) -> Iterator[str]:
    """Yield the modules that a Python script imports or names (`torch.distributed`), with the packages they are in."""
    return _modules(ast.walk(parsed(text)))


def _modules(nodes: Iterable[ast.AST]) -> Iterator[str]:
    for node in nodes:
        names = [alias.name for alias in node.names] if isinstance(node, ast.Import | ast.ImportFrom) else []
        if isinstance(node, ast.ImportFrom):
            names = [f"{node.module}.{name}" for name in names if not node.level]
        elif isinstance(node, ast.Attribute) and (name := _dotted(node)):
            names = [name]
        for name in names:
            yield from accumulate(name.split("."), "{}.{}".format)


def _dotted(node: ast.AST) -> str:
    """Return a name of few parts, such as `torch.distributed`; empty for another expression."""
    parts = list[str]()
    while isinstance(node, ast.Attribute) and len(parts) < _MOST_PARTS:
        parts.insert(0, node.attr)
        node = node.value
    return ".".join([node.id, *parts]) if isinstance(node, ast.Name) else ""


@lru_cache(_MOST_MODULES)
def has_hook(text: str) -> bool:
    """Whether a Python script names a module of dlbench: it reports for itself then."""
    return any(module.partition(".")[0] == HOOK for module in modules_of(text))


def imported_by(text: str) -> set[str]:
    """Return the modules that a Python script imports whatever happens: at its top, outside `try` and `if`."""
    return _imported(parsed(text).body)


def _imported(nodes: Iterable[ast.AST]) -> set[str]:
    return set(_modules(it for it in nodes if isinstance(it, ast.Import | ast.ImportFrom)))
