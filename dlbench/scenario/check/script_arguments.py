"""The arguments of a Python script, read from its text, and which settings fill them in. The script is never run."""

import ast
import math
import re
from collections.abc import Container, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import yaml

from dlbench.scenario.check.commands import scripts_of, simple_commands, text_of
from dlbench.scenario.check.scripts import FOLDERS, callee, imports_of, modules_of, parsed
from dlbench.scenario.placeholders import ATTEMPT

# The batch size of all workers; then what scripts call the settings, without dashes, by setting.
GLOBAL_BATCH = "global_batch_size"
NAMES = {
    "batch_size": (
        "batch_size", "batchsize", "bs", "b", "train_batch_size", "per_device_train_batch_size",
        "per_device_batch_size", "local_batch_size", "batch_size_per_gpu", "micro_batch_size", GLOBAL_BATCH,
    ),
    "learning_rate": ("learning_rate", "lr", "base_lr", "init_lr", "learningrate", "init_learning_rate"),
    "epochs": (
        "epochs", "num_epochs", "n_epochs", "nepochs", "max_epochs", "total_epochs", "num_train_epochs", "epoch",
    ),
    "seed": ("seed", "random_seed", "manual_seed"),
}  # fmt: skip
SETTINGS = {name: setting for setting, names in NAMES.items() for name in names}
# Calls that declare an argument: of argparse, and of click.
ADDERS = ("add_argument", "option", "argument")
# How many workers a script starts, where it starts them itself.
NUMBERS_OF_WORKERS = (
    "workers", "num_workers", "world_size", "nprocs", "num_procs", "num_proc", "nproc_per_node", "num_gpus", "ngpus",
    "n_gpus", "gpus", "np", "num_processes", "num_devices", "n_devices",
)  # fmt: skip
# Of these what PyTorch calls the processes that load data, where it starts the workers; Ray calls its workers so.
LOADERS = ("workers", "num_workers")
# By what workers connect, and the value that is right for all launchers.
ADDRESSES, BY_ENVIRONMENT = ("dist_url", "init_method"), "env://"
# What torch.distributed.launch gave each process as an argument, and torchrun and dlbench as a variable.
LOCAL_RANK = "$LOCAL_RANK"
# What says, in scripts of OpenMMLab, how workers connect, and that it is by what torchrun and dlbench set.
LAUNCHER, BY_TORCH = "--launcher", "pytorch"
# The folder where a script may write, and numbers that it cannot do without, where no others are known.
FOLDER = "output"
STAND_INS = {"int": "1", "integer": "1", "float": "1.0"}
# Transformers reads the fields of `TrainingArguments` as options; their defaults.
TRANSFORMERS = {
    "--per_device_train_batch_size": 8, "--learning_rate": 5e-5, "--num_train_epochs": 3, "--seed": 42,
}  # fmt: skip
# What reads the parameters of a function or the fields of a class, and what joins the words of their flags.
READERS = {
    "typer.run": "-", "tyro.cli": "-", "Fire": "_", "HfArgumentParser": "_", "TrlParser": "_",
    "add_arguments": "_",
}  # fmt: skip
# Options by which an update gets the gradients of several passes.
_ACCUMULATES = re.compile(
    r"(?i)(?<![\w./-])(?!-*eval)([\w.-]*accum(?!ulator)[\w.-]*|-*(?:\w+\.)*update[-_]freq)"
    r"[= ](?:[2-9]|[1-9]\d+)(?![\w.])"
)
# Parts of a hydra configuration that are not about training.
OTHER_PARTS = {"hydra", "val", "valid", "validation", "eval", "evaluation", "test"}

Definition = ast.FunctionDef | ast.ClassDef


@dataclass(frozen=True)
class Argument:
    """One argument of a script.

    Attributes:
        flag: Its longest name, such as `--batch-size`; of a positional one its name without dashes.
        is_needed: Whether the script refuses to start without it.
        is_switch: Whether it takes no value.
        is_joined: Whether flag and value are one word (`--batch_size=8`), as absl and hydra have them.
        default: What it is where it is not given; None where that is not known.
        kind: The name of its type, such as `int`; empty where it has none.
        is_list: Whether it takes several values.
        choice: The first of the words that it takes, or of launchers torch's; empty where it takes any.
        subcommand: The word of the command that it stands after; empty where it stands before.
        help: What the script says of it.
        flags: All its names; none where they are not known.
    """

    flag: str
    is_needed: bool = False
    is_switch: bool = False
    is_joined: bool = False
    default: object = None
    kind: str = ""
    is_list: bool = False
    choice: str = ""
    subcommand: str = ""
    help: str = ""
    flags: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """Its name without dashes before and within, and without the part of a configuration that it is in."""
        return self.flag.lstrip("-").rpartition(".")[2].replace("-", "_")

    @property
    def setting(self) -> str:
        """The setting that fills it in; empty where none does."""
        return SETTINGS.get(self.name.lower(), "")

    @property
    def is_positional(self) -> bool:
        """Whether it has no flag."""
        return not self.flag.startswith("-") and not self.is_joined


def arguments_of(text: str, folder: Path = Path()) -> list[Argument]:
    """Return the arguments that a script declares, in order; of its subcommands those of the one that trains.

    It declares them by argparse, click, absl, typer, fire, tyro, Transformers, or hydra, whose file is under `folder`.
    """
    nodes = list(ast.walk(parsed(text)))
    calls = [node for node in nodes if isinstance(node, ast.Call)]
    calls.sort(key=lambda call: (call.end_lineno or call.lineno, call.end_col_offset or call.col_offset))
    definitions = {node.name: node for node in nodes if isinstance(node, ast.FunctionDef | ast.ClassDef)}
    commands = _commands(definitions.values())
    owners = {call: [word] for function, word in commands.items() for call in function.decorator_list}
    owners |= _owners(nodes, calls)
    arguments = []
    is_of_trl = "trl" in modules_of(text) and "Trainer(" in text
    if re.search("(HfArgument|Trl)Parser", text) and (is_of_trl or "TrainingArguments" in text):
        # Each of TRL's trainers has a rate of its own.
        defaults = TRANSFORMERS | ({"--learning_rate": None} if is_of_trl else {})
        arguments = [Argument(flag, default=default) for flag, default in defaults.items()]
        arguments += [Argument("--output_dir", is_needed=True)]
    if "configurator.py" in text:  # nanoGPT's: each constant of the module is one
        assigned = [node for node in parsed(text).body if isinstance(node, ast.Assign)]
        constants = {ast.unparse(node.targets[0]): _constant(node.value) for node in assigned}
        arguments += [
            Argument(f"--{name}", is_joined=True, default=it) for name, it in constants.items() if it is not None
        ]
    # `arg = parser.add_argument`
    named = [it for it in nodes if isinstance(it, ast.Assign) and isinstance(it.value, ast.Attribute)]
    aliases = {ast.unparse(it.targets[0]) for it in named if callee(it.value) == "add_argument"}
    for call in calls:
        arguments += [
            replace(it, subcommand=word) for it in _declared(call, aliases) for word in owners.get(call, [""])
        ]
        reader = ast.unparse(call.func)
        if dash := READERS.get(reader) or READERS.get(callee(call)):
            is_typer = reader == "typer.run"
            parts = _of_fire(call, definitions, text) if callee(call) == "Fire" else _read_by(call, definitions)
            owners[call] = [word for word, _ in parts]
            arguments += [
                replace(it, subcommand=word) for word, part in parts if part for it in _fields(part, dash, is_typer)
            ]
        elif reader == "hydra.main":
            arguments += _of_hydra(call, folder)
    if "typer" in modules_of(text):
        for function, word in commands.items():
            arguments += [replace(it, subcommand=word) for it in _fields(function, "-", is_typer=True)]
    marks = [call for call in calls if callee(call) in ("mark_flag_as_required", "mark_flags_as_required")]
    required = {it.value for call in marks for it in ast.walk(call) if isinstance(it, ast.Constant)}
    arguments = [replace(it, is_needed=it.is_needed or it.flag.removeprefix("--") in required) for it in arguments]
    subcommands = {*commands.values(), *(word for words in owners.values() for word in words)} - {""}
    return _of_one(subcommands, list({(it.subcommand, it.flag): it for it in arguments}.values()))


def note_of_batch(command: str, *, with_script: bool = False) -> str:
    """Return what to say of a command that accumulates gradients, or an empty string.

    Args:
        command: The command.
        with_script: Whether its script counts, too, by its defaults; what a finished run executed may be another now.
    """
    commands = simple_commands(command) if with_script else []
    scripts = [*scripts_of(commands)]
    text = "\n".join(text_of(it) or "" for it in scripts)
    arguments = arguments_of(text, scripts[0].parent) if scripts else []
    # Parsers of dataclasses take both `--batch_size` and `--batch-size`.
    given = {word.partition("=")[0].replace("-", "_") for it in commands for word in it.words}
    unset = [it for it in arguments if not given & {flag.replace("-", "_") for flag in (it.flag, *it.flags)}]
    defaults = [f"{it.flag}={it.default}" for it in unset]
    if not (option := next(filter(None, map(_ACCUMULATES.search, [command, *defaults])), None)):
        return ""
    name = re.escape(option[1].lstrip("-").rpartition(".")[2].replace("-", "_"))
    is_divided = re.search(rf"{name}\s*//=.*world", text)
    passes = f"several passes{', fewer with more workers' if is_divided else ''}"
    return f"`{option[0]}`: an update has {passes}, and batch sizes may be those of one"


def with_imported(script: Path) -> str:
    """Return a script's text after what it imports beside it by name, what that uses there, and absl's flags there."""

    @lru_cache(None)
    def text(part: ast.stmt) -> str:
        with suppress(RecursionError):
            return ast.unparse(part)
        return ""  # it is nested too deep

    imports = lru_cache(None)(lambda file: [*imports_of(file, script)])
    kept, done = dict[Path, list[ast.stmt]](), set[tuple[Path, str]]()
    wanted = [(file, name) for _, file, name in imports(script)]
    for each in wanted:
        file, name = each
        # A parser, what is added to it, and its groups; flags are there once a module is imported.
        wanted_part = re.compile(rf"(\w+ = )?({re.escape(name)}( =|[.:,])|[\w.]+\.DEFINE_)")
        for part in parsed(text_of(file) or "").body if each not in done else ():
            is_it = getattr(part, "name", "") == name or wanted_part.match(text(part))
            if is_it and part not in kept.setdefault(file, []):
                kept[file].append(part)
                names = [it for it in ast.walk(part) if isinstance(it, ast.Name)]
                # What a function sets, or takes, is its own.
                local = {it.arg for it in ast.walk(part) if isinstance(it, ast.arg)}
                local |= {it.id for it in names if isinstance(part, Definition) and isinstance(it.ctx, ast.Store)}
                wanted += [(file, it) for it in {name.id for name in names} - local]
        wanted += [it[1:] for it in imports(file) if each not in done and it[0].partition(".")[0] == name]
        done.add(each)
    parts = [it for file in reversed(kept) for it in sorted(kept[file], key=lambda it: it.lineno)]
    return "\n".join([*map(text, parts), text_of(script) or ""])


def filled(
    arguments: list[Argument], *, starts_workers: str = "", goes_on: bool = False
) -> tuple[list[str], list[str]]:
    """Return the words that fill in a script's arguments, and those of them that a user has to think about.

    Of several names of one setting the first is filled in.

    Args:
        arguments: The script's.
        starts_workers: What starts its workers itself, as many as an argument says, as text; empty without it.
        goes_on: Whether it trains on from a checkpoint in its folder, which must be another one in each run.
    """
    words, open_ones, done = list[str](), list[str](), set[str]()
    subcommand = ""
    for argument in sorted(arguments, key=lambda it: (it.subcommand, it.is_positional)):
        if argument.subcommand != subcommand:
            subcommand = argument.subcommand
            words.append(subcommand)
        name = argument.name.lower()
        takes_number = name in NUMBERS_OF_WORKERS and not argument.is_list
        is_loader = name in LOADERS and re.search(r"\b(spawn|start_processes|Process)\(", starts_workers)
        is_said = re.search(rf"(nprocs=|range\()(\w+\.)*{re.escape(name)}\b", starts_workers)
        is_number = starts_workers and takes_number and (is_said or not is_loader)
        setting = "workers" if is_number else argument.setting
        value = f"{{{setting}}}" if setting else _filled_by_launch(argument, bool(starts_workers), goes_on)
        is_open = argument.is_needed and not value
        if is_open:  # a name in capitals says that it is
            stand_in = argument.choice or STAND_INS.get(argument.kind, argument.name.upper())
            value = FOLDER if argument.name in FOLDERS else stand_in
        if argument.is_switch or not value or setting in done:
            continue
        done |= {setting} - {""}
        open_ones += [f"{argument.name}={value}"] * is_open
        if argument.is_positional:
            words.append(value)
        else:
            words += [f"{argument.flag}={value}"] if argument.is_joined else [argument.flag, value]
    return words, open_ones


def _filled_by_launch(argument: Argument, starts_workers: bool, goes_on: bool) -> str:
    """Return what a launch knows of an argument without a setting: an address, a rank, a folder for each attempt."""
    if argument.name in ADDRESSES and argument.default != BY_ENVIRONMENT and not starts_workers:
        return BY_ENVIRONMENT
    if argument.name == "local_rank" and not starts_workers:
        return LOCAL_RANK
    if argument.flag == LAUNCHER and argument.choice == BY_TORCH and not starts_workers:
        return BY_TORCH
    return f"{FOLDER}/{{{ATTEMPT}}}" if argument.name in FOLDERS and goes_on else ""


def _declared(call: ast.Call, aliases: Container[str]) -> Iterator[Argument]:
    """Yield the argument that a call declares."""
    name = callee(call)
    texts = [it.value for it in call.args if isinstance(it, ast.Constant) and isinstance(it.value, str)]
    keywords = {it.arg: it.value for it in call.keywords if it.arg}
    if name.startswith("DEFINE_") and texts:
        kind, is_needed = name.removeprefix("DEFINE_"), _constant(keywords.get("required")) is True
        default = _constant(keywords.get("default", (*call.args, None)[1]))
        is_switch = kind in ("bool", "boolean")
        yield Argument(
            f"--{texts[0]}", is_needed, is_switch, is_joined=True, default=default, kind=kind, help=texts[-1]
        )
        return
    if not texts or not (name in ADDERS or ast.unparse(call.func) in aliases):
        return
    # click's last words may name the variable: `@click.option("--lr", "rate")`.
    flags = [text for text in texts if text.startswith("-")]
    flag = max(flags, key=len) if flags else texts[0]
    action, count = _constant(keywords.get("action")), _constant(keywords.get("nargs"))
    is_switch = isinstance(action, str) and action.startswith(("store_", "count", "help", "version"))
    is_switch = is_switch or _constant(keywords.get("is_flag")) is True or "/" in flag
    is_rest = "nargs" in keywords and re.search(r"REMAINDER|\.\.\.", ast.unparse(keywords["nargs"])) is not None
    is_needed = not flags and "default" not in keywords and count not in ("?", "*") and not is_rest
    if flags:
        is_needed = _constant(keywords.get("required")) is True
    elif name == "argument":
        is_needed = _constant(keywords.get("required")) is not False and "default" not in keywords
    if not flags and name == "option":
        return
    typed = keywords.get("type")  # of click such as `click.Choice(["sgd", "adam"])`
    choices = keywords.get("choices") or (next(iter(typed.args), None) if isinstance(typed, ast.Call) else None)
    words = [str(_constant(it) or "") for it in getattr(choices, "elts", ())]
    choice = BY_TORCH if flag == LAUNCHER and BY_TORCH in words else next(iter(words), "")
    default = _constant(keywords.get("default"))
    kind, described = getattr(typed, "id", ""), str(_constant(keywords.get("help")) or "")
    lists = count not in (None, "?", 1)
    yield Argument(
        flag, is_needed, is_switch, False, default, kind, lists, choice, help=described, flags=tuple(flags)
    )  # fmt: skip


def _commands(definitions: Iterable[Definition]) -> dict[ast.FunctionDef, str]:
    """Return the functions that click and typer call, with their words in the command; a single one has none."""
    functions = [it for it in definitions if isinstance(it, ast.FunctionDef)]
    decorators = [(callee(node), node, function) for function in functions for node in function.decorator_list]
    commands = {
        function: _word(node) or function.name.replace("_", "-")
        for name, node, function in decorators
        if name == "command"
    }
    is_single = len(commands) == 1 and not any(name in ("group", "callback") for name, _, _ in decorators)
    return dict.fromkeys(commands, "") if is_single else commands


def _owners(nodes: Iterable[ast.AST], calls: Iterable[ast.Call]) -> dict[ast.expr, list[str]]:
    """Return the subcommands of argparse that calls are for, "" for all of them; nothing where there are none."""
    heirs: dict[str, list[str]] = {}
    passed_to = {callee(call) for call in calls if call.args or call.keywords}
    functions = [it.args for it in nodes if isinstance(it, ast.FunctionDef) and it.name not in passed_to]
    # A script that is executed passes none for them.
    optional = {f"{it.arg}.add_parser" for each in functions for it in each.args[::-1][: len(each.defaults)]}
    added = [call for call in calls if callee(call) == "add_parser" and ast.unparse(call.func) not in optional]
    for call in added:
        for parents in (it.value for it in call.keywords if it.arg == "parents"):
            for parent in getattr(parents, "elts", ()):
                heirs.setdefault(ast.unparse(parent), []).append(_word(call))
    variables = {node.value: ast.unparse(node.targets[0]) for node in nodes if isinstance(node, ast.Assign)}
    owners, bound = dict[ast.expr, list[str]](), dict[str, list[str]]()
    for call in calls if added else ():
        receiver = call.func.value if isinstance(call.func, ast.Attribute) else call
        inherited = owners.get(receiver) or bound.get(ast.unparse(receiver), [])
        owners[call] = {"ArgumentParser": [""], "add_parser": [_word(call)]}.get(callee(call), inherited)
        if variable := variables.get(call):
            owners[call] = bound[variable] = heirs.get(variable, owners[call])
    return owners


def _of_one(subcommands: Iterable[str], arguments: list[Argument]) -> list[Argument]:
    """Return the arguments for all subcommands and for the only one that trains; else it is left to the user."""
    trains = {it.subcommand for it in arguments if it.setting not in ("", "seed")} - {""}
    if subcommands and len(trains) != 1:
        return [*(it for it in arguments if not it.subcommand), Argument("subcommand", is_needed=True)]
    return [it for it in arguments if it.subcommand in {"", *trains}]


def _of_fire(call: ast.Call, definitions: Mapping[str, Definition], text: str) -> list[tuple[str, Definition | None]]:
    """Return what fire calls, with its word in the command; of a dictionary, a class or the whole module several."""
    part = next(iter((*call.args, *(it.value for it in call.keywords))), None)
    if isinstance(part, ast.Dict):
        values = zip(part.keys, part.values, strict=True)
        return [(str(_constant(key)), definitions.get(callee(value))) for key, value in values]
    read = definitions.get(callee(part))
    if part and not isinstance(read, ast.ClassDef):
        return [("", read)]
    functions = [it for it in (read or parsed(text)).body if isinstance(it, ast.FunctionDef)]
    # An object that is there already takes no arguments.
    first = next((it for it in functions if it.name == "__init__"), read) if isinstance(part, ast.Name) else None
    return [("", first), *((it.name, it) for it in functions if not it.name.startswith("_"))]


def _read_by(call: ast.Call, definitions: Mapping[str, Definition]) -> list[tuple[str, Definition | None]]:
    """Return the functions and classes that a call names, which have no word in the command."""
    values = (*call.args, *(it.value for it in call.keywords))
    names = [ast.unparse(it) for node in values for it in getattr(node, "elts", [node])]
    return [("", definitions.get(name)) for name in names]


def _fields(read: Definition, dash: str, is_typer: bool = False) -> Iterator[Argument]:
    """Yield the parameters of a function, or the fields of a class, as arguments; typer's need no flag."""
    fields: list[tuple[str, ast.expr | None, ast.expr | None]]
    if isinstance(read, ast.ClassDef):
        typed = [node for node in read.body if isinstance(node, ast.AnnAssign)]
        fields = [(ast.unparse(node.target), node.annotation, node.value) for node in typed]
    else:
        named = [it for it in (*read.args.posonlyargs, *read.args.args) if it.arg != "self"]
        defaults = [*[None] * (len(named) - len(read.args.defaults)), *read.args.defaults, *read.args.kw_defaults]
        pairs = zip([*named, *read.args.kwonlyargs], defaults, strict=True)
        fields = [(parameter.arg, parameter.annotation, default) for parameter, default in pairs]
    followed = ((it, after.value) for it, after in pairwise(read.body) if isinstance(after, ast.Expr))
    docs = {ast.unparse(it.target): text for it, text in followed if isinstance(it, ast.AnnAssign)}
    for name, annotation, default in fields:
        # `Annotated[int, typer.Option("--bs")]`, `typer.Option(64, "--bs")`, `field(default=64)`
        kind, *described = getattr(getattr(annotation, "slice", None), "elts", [annotation])
        call = next((it for it in (default, *described) if isinstance(it, ast.Call)), None)
        keywords: dict[object, ast.expr] = {it.arg: it.value for it in getattr(call, "keywords", ())}
        # `field(metadata={"help": "..."})`
        held = keywords.get("metadata")
        keywords |= zip(map(_constant, getattr(held, "keys", ())), getattr(held, "values", ()), strict=False)
        if call and call is default and callee(call) in ("Option", "Argument", "field"):
            default = keywords.get("default") or keywords.get("default_factory") or (*call.args, None)[0]
        texts = [str(_constant(it)) for it in getattr(call, "args", ())]
        flag = max((it for it in texts if it.startswith("--")), key=len, default=f"--{name.replace('_', dash)}")
        is_needed = default is None or ast.unparse(default).endswith(("...", "MISSING"))
        if is_typer and (callee(call) == "Argument" or (is_needed and callee(call) != "Option")):
            flag = name
        is_switch = callee(kind) in ("bool", "Context") or "/" in flag
        about = str(_constant(keywords.get("help") or docs.get(name)) or "")
        yield Argument(flag, is_needed, is_switch, default=_constant(default), kind=callee(kind), help=about)


def _of_hydra(call: ast.Call, folder: Path) -> Iterator[Argument]:
    """Yield what overrides the file that `hydra.main` names."""
    keywords = {it.arg: it.value for it in call.keywords}
    path, name = (str(_constant(keywords.get(key)) or "") for key in ("config_path", "config_name"))
    with suppress(yaml.YAMLError, ValueError, RecursionError):  # of no date such as 2024-13-45
        file = folder / path / f"{name.removesuffix('.yaml')}.yaml"
        for key, value in _leaves(yaml.safe_load(text_of(file) or "")):
            yield Argument(key, is_needed=value == "???", is_joined=True, default=value)


def _leaves(part: object, before: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the values of a configuration about training, by dotted name."""
    for key, value in part.items() if isinstance(part, dict) else ():
        if isinstance(value, dict) and key not in OTHER_PARTS:
            yield from _leaves(value, f"{before}{key}.")
        elif not isinstance(value, dict):
            yield f"{before}{key}", value


def _word(node: ast.expr) -> str:
    """Return the subcommand that a call adds; empty where it is called as its function is."""
    named = (it.value for it in getattr(node, "keywords", ()) if it.arg == "name")
    return next((str(_constant(it) or "SUBCOMMAND") for it in (*getattr(node, "args", ()), *named)), "")


def _constant(node: ast.expr | None) -> object:
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult):  # `5 * 8`
        factors = _constant(node.left), _constant(node.right)
        numbers = [it for it in factors if isinstance(it, int | float)]
        return math.prod(numbers) if len(numbers) == len(factors) else None
    return node.value if isinstance(node, ast.Constant) else None
