"""The arguments of a Python script, read from its text, and which settings fill them in. The script is never run."""

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass

from dlbench.scenario.check.scripts import parsed

# What scripts call the settings, without dashes, by setting.
NAMES = {
    "batch_size": (
        "batch_size", "batchsize", "bs", "b", "train_batch_size", "per_device_train_batch_size",
        "per_device_batch_size", "local_batch_size", "batch_size_per_gpu", "micro_batch_size",
    ),
    "learning_rate": ("learning_rate", "lr", "base_lr", "init_lr", "learningrate", "init_learning_rate"),
    "epochs": ("epochs", "num_epochs", "n_epochs", "max_epochs", "total_epochs", "num_train_epochs", "epoch"),
    "seed": ("seed", "random_seed", "manual_seed"),
}  # fmt: skip
SETTINGS = {name: setting for setting, names in NAMES.items() for name in names}
FLAG = re.compile(r"--[A-Za-z][\w-]*")
# Calls that declare an argument: of argparse, and of click.
ADDERS = ("add_argument", "option", "argument")
# Where a script may write, and numbers that it cannot do without, where no others are known.
FOLDERS, FOLDER = ("output_dir", "out_dir", "save_dir", "log_dir", "logdir"), "output"
STAND_INS = {"int": "1", "float": "1.0"}
# Transformers reads the fields of a class as options.
TRANSFORMERS = ("--per_device_train_batch_size", "--learning_rate", "--num_train_epochs", "--seed")


@dataclass(frozen=True)
class Argument:
    """One argument of a script.

    Attributes:
        flag: Its longest name, such as `--batch-size`; of a positional one its name without dashes.
        is_needed: Whether the script refuses to start without it.
        is_switch: Whether it takes no value.
        is_joined: Whether flag and value are one word (`--batch_size=8`), as absl has them.
        default: What it is where it is not given; None where that is not known.
        kind: The name of its type, such as `int`; empty where it has none.
    """

    flag: str
    is_needed: bool = False
    is_switch: bool = False
    is_joined: bool = False
    default: object = None
    kind: str = ""

    @property
    def name(self) -> str:
        """Its name without dashes before and within."""
        return self.flag.lstrip("-").replace("-", "_")

    @property
    def setting(self) -> str:
        """The setting that fills it in; empty where none does."""
        return SETTINGS.get(self.name.lower(), "")

    @property
    def is_positional(self) -> bool:
        """Whether it has no flag."""
        return not self.flag.startswith("-")


def arguments_of(text: str) -> list[Argument]:
    """Return the arguments that a script declares by argparse, click, absl or Transformers, in order."""
    tree = parsed(text)
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
    calls.sort(key=lambda call: (call.end_lineno or call.lineno, call.end_col_offset or call.col_offset))
    arguments = [argument for call in calls for argument in _declared(call)]
    if any(_called(call) in ADDERS and call.args and isinstance(call.args[0], ast.Name) for call in calls):
        # Declared in a loop over their names.
        texts = [node.value for node in ast.walk(tree) if isinstance(node, ast.Constant)]
        arguments += [Argument(text) for text in texts if isinstance(text, str) and FLAG.fullmatch(text)]
    if "HfArgumentParser" in text and "TrainingArguments" in text:
        arguments += [Argument(flag) for flag in TRANSFORMERS] + [Argument("--output_dir", is_needed=True)]
    return list({argument.flag: argument for argument in arguments}.values())


def filled(arguments: list[Argument]) -> tuple[list[str], list[str]]:
    """Return the words that fill in a script's arguments, and those of them that a user has to think about.

    Of several names of one setting the first is filled in.
    """
    words, open_ones, done = list[str](), list[str](), set[str]()
    positional = [argument for argument in arguments if argument.is_positional]
    for argument in [*(it for it in arguments if not it.is_positional), *positional]:
        setting = argument.setting
        if argument.is_switch or (not setting and not argument.is_needed) or setting in done:
            continue
        # A name in capitals says that it is open.
        stand_in = FOLDER if argument.name in FOLDERS else STAND_INS.get(argument.kind, argument.name.upper())
        value = f"{{{setting}}}" if setting else stand_in
        done |= {setting} - {""}
        open_ones += [] if setting else [f"{argument.name}={value}"]
        if argument.is_positional:
            words.append(value)
        else:
            words += [f"{argument.flag}={value}"] if argument.is_joined else [argument.flag, value]
    return words, open_ones


def _declared(call: ast.Call) -> Iterator[Argument]:
    """Yield the argument that a call declares."""
    name = _called(call)
    texts = [it.value for it in call.args if isinstance(it, ast.Constant) and isinstance(it.value, str)]
    if name.startswith("DEFINE_") and texts:
        yield Argument(f"--{texts[0]}", is_joined=True, is_switch=name == "DEFINE_bool")
        return
    if name not in ADDERS or not texts:
        return
    keywords = {it.arg: it.value for it in call.keywords if it.arg}
    # click's last words may name the variable: `@click.option("--lr", "rate")`.
    flags = [text for text in texts if text.startswith("-")]
    flag = max(flags, key=len) if flags else texts[0]
    action, count = _constant(keywords.get("action")), _constant(keywords.get("nargs"))
    is_switch = isinstance(action, str) and action.startswith(("store_", "count", "help", "version"))
    is_switch = is_switch or _constant(keywords.get("is_flag")) is True or "/" in flag
    is_needed = not flags and "default" not in keywords and count not in ("?", "*")
    if flags:
        is_needed = _constant(keywords.get("required")) is True
    elif name == "argument":
        is_needed = _constant(keywords.get("required")) is not False and "default" not in keywords
    if not flags and name == "option":
        return
    kind = getattr(keywords.get("type"), "id", "")
    yield Argument(flag, is_needed, is_switch, default=_constant(keywords.get("default")), kind=kind)


def _called(call: ast.Call) -> str:
    """Return the last part of the name of what is called."""
    return call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")


def _constant(node: ast.expr | None) -> object:
    return node.value if isinstance(node, ast.Constant) else None
