"""Scripts of a user's own: what dlbench cannot set in them is warned of before they run for hours."""

from pathlib import Path

import pytest
import yaml

from dlbench.errors import UserError
from dlbench.scenario.check.commands import interpreter_of
from dlbench.scenario.check.script_warnings import script_warnings
from dlbench.scenario.check.scripts import code_of, modules_of, python_fault
from dlbench.scenario.cluster import this_machine
from dlbench.scenario.expand.runs import expand
from dlbench.scenario.read.scenario_file import parse, read
from tests.unit.scenario.conftest import HOUSE, module

HOOKED = "import dlbench.worker\n"


def found(text: str) -> str:
    return "\n".join(script_warnings(expand(parse(text, "s.yaml"), this_machine())))


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_a_setting_that_varies_is_mentioned(here: Path) -> None:
    (here / "helper.py").write_text("fit = lambda run: run.batch_size")
    (here / "train.sh").write_text("python train.py $(jq .batch_size <<< $DLBENCH_SETTINGS)")
    (here / "fixed.sh").write_text("batch_size=8\npython train.py --batch-size $batch_size")
    for script, command, key, is_said in [
        (HOOKED, "python train.py", "batch_size: [8, 16]", True),
        (HOOKED + "run.batch_size", "python train.py", "batch_size: [8, 16]", False),
        (HOOKED + "batch_size = args.batch_size", "python train.py", "batch_size: [8, 16]", True),
        (HOOKED + "s = hook.run.settings; s.batch_size", "python train.py", "batch_size: [8, 16]", False),
        (HOOKED + "def run(batch_size): ...\nspawn(run)", "python train.py", "batch_size: [8, 16]", True),
        (HOOKED + "import helper\nhelper.fit(rows.run)", "python train.py", "batch_size: [8, 16]", False),
        (HOOKED + "import helper", "python train.py", "batch_size: [8, 16]", False),
        (HOOKED + "helper.fit(model)", "python train.py", "batch_size: [8, 16]", True),
        (HOOKED + "os.environ['DLBENCH_SETTINGS']; batch_size", "python train.py", "batch_size: [8, 16]", False),
        (HOOKED + "batch_size = 8", "bash train.sh", "batch_size: [8, 16]", False),
        (HOOKED + "batch_size = args.batch_size", "bash fixed.sh", "batch_size: [8, 16]", True),
        (HOOKED + "run.batch_size", "bash fixed.sh", "batch_size: [8, 16]", False),
        ("batch_size = 8", "bash -c 'B=8; python train.py --batch_size $B'", "batch_size: [8, 16]", True),
        (HOOKED, "python train.py --batch {batch_size}", "batch_size: [8, 16]", False),
        (HOOKED, "python train.py", "batch_size: [8]", False),
        (HOOKED, "python train.py", "cores_per_worker: [0.5, 1]", False),
        (HOOKED, "python {model}.py", "batch_size: [8, 16]", False),
    ]:
        (here / "train.py").write_text(script)
        text = found(f'base: {{command: "{command}"}}\nmatrix: {{{key}}}\nbaseline: none\n')
        assert ("`batch_size` varies" in text) == is_said, (script, command, key)
        assert bool(text) == is_said or "never mentions dlbench.worker" in text


def test_what_a_script_is_trained_with_is_unknown_unless_it_reads_it_or_the_scenario_says_it(here: Path) -> None:
    settings = {"batch_size", "batch_scope", "learning_rate", "epochs", "divide", "momentum"}
    for name in ("train.sh", "run"):
        (here / name).write_text("#!/bin/bash\npython train.py $(jq .epochs <<< $DLBENCH_SETTINGS)")
    for script, command, base, known in [
        ("", "python train.py", "", set()),
        ("batch_size = 8", "python train.py", "batch_size: 8, momentum: 0.9",
         {"batch_size", "batch_scope", "momentum"}),
        ("", "python train.py --epochs {epochs}", "", {"epochs", "divide"}),
        (HOOKED + "run.batch_size", "python train.py", "", {"batch_size", "batch_scope"}),
        (HOOKED + "fit(run)", "python train.py", "", settings),
        ("", "bash train.sh", "", {"epochs", "divide"}),
        ("", "timeout 60 bash train.sh", "", {"epochs", "divide"}),
        ("", "./run", "", {"epochs", "divide"}),
        ("batch_size = 8", "bash -c 'python train.py --batch_size 8'", "", set()),
        ("", "python -m training", "learning_rate: 0.5", {"learning_rate"}),
        ("", "./simulation", "", set()),
    ]:  # fmt: skip
        (here / "train.py").write_text(script)
        text = f'base: {{command: "{command}", {base}}}\nmatrix: {{cores_per_worker: [0.5, 1]}}\n'
        for run in expand(parse(text, "s.yaml"), this_machine()):
            assert settings - {*run.unknown} == known, (script, command, base)
            assert "cores_per_worker" not in run.unknown
            assert ("-b" in run.run_id) == ("batch_size" in known)


def test_a_script_without_the_hook_is_named(here: Path) -> None:
    (here / "train.py").write_text("import keras\n")
    assert found("base: {command: python train.py}\n").startswith("train.py never mentions dlbench.worker")
    target = "base: {command: python train.py}\ntarget: {metric: validation_loss, value: 1}\nmetrics: "
    assert "train.py reports no epochs" in found(f"{target}{{validation_loss: 'loss (.+)'}}\n")
    assert found(f"{target}{{time_to_target_s: 'reached after (.+) s'}}\n") == ""
    (here / "train.py").write_text(HOOKED)
    for command in ("python train.py", "python elsewhere.py", "./train"):
        assert found(f"base: {{command: {command}}}\n") == "", command


SPAWN = "def main():\n    torch.multiprocessing.spawn(train, nprocs=2)\nif __name__ == '__main__':\n    main()\n"
PROCESSES = "for rank in range(2):\n    started.append(%s))\n"
HELPERS = "[mp.Process(target=read) for %s in range(2)]\n"
MISSED = (
    "def take(self):\n    try:\n        data = torch.load(f)\n    except FileNotFoundError:\n        %s\n"
    "    self.load_state_dict(data)\n"
)
ADDRESS = "torch.distributed\np.add_argument('--dist-url', default='tcp://224.66.41.62:23456', type=str)\n"
RANK = "p.add_argument('--local-rank', default=-1, type=int)\n"
LISTED = "ckpts = [d + n for n in os.listdir(d)]\n%s:\n    model = load_model(max(ckpts))\n"
INITIALIZE = "jax.distributed.initialize()"
JAX = "import jax\njax.distributed.initialize(%s)\n"
FINDS = "if %s:\n    last = get_latest_checkpoint_folder(path)\n"
OPTION = "p.add_argument('--resume', default=%s)\n"
CHOSEN = "def load(args):\n    if %s:\n        args.resume = %s\nfiles = glob.glob(path)\n"
LATEST = "for e in range(9, 0, -1):\n    if os.path.exists(%s):\n        start = e\n        break\n"
LATEST += "if start > 0:\n    model.load_state_dict(torch.load(path))\n"
LEAVES = (
    "def restart(path):\n    if not os.path.isfile(path):\n        %s\n    model.load_state_dict(torch.load(path))\n"
)
RESUME = "if os.path.isfile(%s):\n    model.load_state_dict(torch.load(path))\n"


@pytest.mark.parametrize(
    ("script", "rest", "words"),
    [
        (SPAWN, "", "starts workers itself, by `torch.multiprocessing.spawn`"),
        ("TorchTrainer(train).fit()\n", "", "by `TorchTrainer`"),
        ("horovod.spark.run(train)\n", "", "by `horovod.spark.run`"),
        (PROCESSES % "mp.Process(target=train", "", "by `mp.Process`"),
        (PROCESSES % "psutil.Process(pid", "", ""),
        (HELPERS % "local_rank", "", "by `mp.Process`"),
        (HELPERS % "_", "", ""),
        ("watch = mp.Process(target=watch)\n", "", ""),
        (SPAWN, ", workers_inside: true", "train.py does not read run.settings.workers"),
        (SPAWN + "run.settings.workers", ", workers_inside: true", ""),
        (SPAWN, ", workers_inside: true, strategy: mpi}\nmatrix: {workers: [1, 2]", "the command has no {workers}"),
        ("if args.distributed:\n    mp.spawn(train)\n", "", ""),
        ("if num_devices > 1:\n    mp.spawn(train)\n", "", "by `mp.spawn`"),
        ("context.spawn(train)\n", "", ""),
        (RESUME % "path", "", "`bash -c 'mkdir -p output/{attempt_id} && cd output/{attempt_id} && python /"),
        (RESUME % "path" + "p.add_argument('--out-dir')\n", "", "such as `--out-dir output/{attempt_id}`"),
        (RESUME % "path" + "p.add_argument('--log-dir')\n", "", "&& cd output/{attempt_id}"),
        ("if path.exists():\n    self.load_it(path)\ndef load_it(self, path):\n    net.load_state_dict(1)\n", "",
         "goes on"),
        ("if path.exists():\n    self.load_it(path)\ndef load_it(self, path):\n    json.load(1)\n", "", ""),
        (LISTED % "if ckpts", "", "goes on"),
        (LISTED % "if not ckpts:\n    make()\nelse", "", "goes on"),
        (LISTED % "if not ckpts", "", ""),
        ((LISTED % "if ckpts").replace("load_model", "read"), "", ""),
        ("if any(folder.glob('*.keras')):\n    model.load_weights(path)\n", "", "goes on"),
        (MISSED % "return", "", "goes on"),
        (MISSED.replace("torch.load(f)", "torch.load(args.resume)") % "return", "", ""),
        (MISSED.replace("FileNotFoundError", "KeyError") % "return", "", ""),
        ("def fit():\n    import lightning\n", ", launcher: mpirun, strategy: mpi, workers: 2",
         "set `launcher: torchrun`"),
        ("def fit():\n    import lightning\n", ", launcher: torchrun, strategy: mpi, workers: 2", ""),
        (ADDRESS, ", strategy: mpi, workers: 2", "add `--dist-url env://`"),
        (ADDRESS.replace("tcp", "env"), ", strategy: mpi, workers: 2", ""),
        (ADDRESS, "", ""),
        (JAX % "", ", strategy: mpi, workers: 2", "write `jax.distributed.initialize(cluster_detection_method="),
        (JAX % "", "", ""),
        (JAX % "address, 2, rank", ", strategy: mpi, workers: 2", ""),
        (f"def f():\n    '''{INITIALIZE}'''\n    return WORLD_SIZE  # {INITIALIZE}\n", ", strategy: mpi, workers: 2",
         ""),
        (RANK, ", strategy: mpi, workers: 2", "-c 'python train.py ... --local-rank $LOCAL_RANK'"),
        (RANK, " --local-rank 0, strategy: mpi, workers: 2", "takes `--local-rank`"),
        (RANK, " '--local-rank=$LOCAL_RANK', strategy: mpi, workers: 2", ""),
        (RANK + "os.environ['LOCAL_RANK']\n", ", strategy: mpi, workers: 2", ""),
        (RANK, "", ""),
        ("import numpy.random\n", ", strategy: mpi, workers: 2", "nothing in train.py connects its workers"),
        ("import numpy.random\n", "", ""),
        ("import os\nos.execv('solver', [])\n", ", strategy: mpi, workers: 2", ""),
        ("import jax\njax.pmap(step)\n", ", strategy: mpi, workers: 2", "nothing in train.py connects its workers"),
        ("from ours import everything\n", ", strategy: mpi, workers: 2", ""),
        ("exec(text)\n", ", strategy: mpi, workers: 2", ""),
        ("import numpy\n", " other.py, strategy: mpi, workers: 2", ""),
        ("num_parallel_calls = matrix_rank(x)  # in parallel\n", ", strategy: mpi, workers: 2", "nothing in train.py"),
        ("torch.distributions.Normal(0, 1)\n", ", strategy: mpi, workers: 2", "nothing in train.py"),
        ('def f():\n    """Not distributed."""\n', ", strategy: mpi, workers: 2", "nothing in train.py"),
        ("keras.distribution.initialize()\n", ", strategy: mpi, workers: 2", ""),
        ("from keras.distribution import initialize\ninitialize()\n", ", strategy: mpi, workers: 2", ""),
        ("import keras.distribution as kd\nkd.initialize()\n", ", strategy: mpi, workers: 2", ""),
        ("def f(distribution): ...\ndef initialize(): ...\n", ", strategy: mpi, workers: 2", "nothing in train.py"),
        ("keras.distribution.DataParallel()\n", ", strategy: mpi, workers: 2", "nothing in train.py"),
        ("net = torch.nn.parallel.DataParallel(net)\n", ", strategy: mpi, workers: 2", "nothing in train.py"),
        ("nn.parallel.DistributedDataParallel(net)\n", ", strategy: mpi, workers: 2", ""),
        ("from absl import app\nimport ml_collections, clu, orbax\n", ", strategy: mpi, workers: 2",
         "nothing in train.py"),
        ("",
         "}\nmetrics: {validation_accuracy: 'acc ([0-9.]+)', top5: {output: '5: (.*)', better: higher, matters: 1%}",
         "hook, validation_accuracy of `metrics`"),
        (RESUME % "args.resume", "", ""),
        (RESUME.replace("model.load_state_dict", "data = ") % "path", "", ""),
        (LATEST % "name.format(e)", "", "goes on"),
        (LATEST % "args.resume", "", ""),
        ("found = os.path.exists(path)\nif found:\n    model.load_weights(path)\n", "", "goes on"),
        (LEAVES % "return", "", "goes on"),
        (LEAVES % "make()", "", ""),
        ((LEAVES % "return").replace("torch.load(path)", "torch.load('best.pt')"), "", ""),
        (FINDS % "last", "", "goes on"),
        (FINDS % "args.resume is None", "", "goes on"),
        (FINDS % "args.resume == 'latest'" + OPTION % "None", "", ""),
        (FINDS % "resume_latest" + OPTION % "None", "", ""),
        (FINDS % "args.resume == 'auto'" + OPTION % "'auto'", "", "goes on"),
        (FINDS % "args.resume" + OPTION % "True", "", "goes on"),
        (FINDS % "config.resume", "", "goes on"),
        (FINDS % "os.path.exists(args.checkpoint_dir)" + OPTION % "None", "", "goes on"),
        (FINDS % "args.checkpoint_dir" + OPTION % "None", "", "goes on"),
        ("if config.AUTO_RESUME:\n    file = auto_resume_helper(config.OUTPUT)\n", "", "goes on"),
        (CHOSEN % ("args.auto_resume", "max(glob.glob(path))") + OPTION % "''", "", "goes on"),
        (CHOSEN % ("glob.glob(path)", "join(path, args.resume)") + OPTION % "''", "", ""),
        (CHOSEN % ("args.resume == 'latest'", "max(glob.glob(path))") + OPTION % "''", "", ""),
        (CHOSEN % ("args.auto_resume", "max(files)"), "", ""),
        (CHOSEN % ("os.listdir(data)", "args.checkpoint"), "", ""),
    ],
)  # fmt: skip
def test_what_makes_runs_unlike_each_other_in_a_script_is_warned_of(
    here: Path, script: str, rest: str, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    torchrun = module(PROVIDES=(), CONNECTS_SCRIPTS=True, MULTIPLE_HOSTS=False)
    monkeypatch.setitem(HOUSE["launchers"], "torchrun", torchrun)
    (here / "train.py").write_text(HOOKED + script)
    text = found(f"base: {{command: python train.py{rest}}}\nbaseline: none\n")
    assert words in text
    assert bool(text) == bool(words)


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ("python train.py --lr 1", "import absent"),
        ("bash -c 'python train.py $LOCAL_RANK'", "import absent"),
        ("bash -c '. venv/bin/activate; python train.py'", ""),
    ],
)
def test_a_library_that_is_not_installed_is_named(
    here: Path, command: str, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dlbench.scenario.check.script_warnings._LIBRARIES", {"absent": "absent"})
    (here / "train.py").write_text(HOOKED + "import absent\n")
    text = found(f'base: {{command: "{command}"}}\n')
    assert ("train.py imports absent, which is not installed" in text) == bool(words)


def test_a_checkpoint_in_a_folder_of_each_start_is_no_other_runs(here: Path) -> None:
    (here / "train.py").write_text(HOOKED + RESUME % "path")
    assert found("base: {command: 'python train.py --to {attempt_id}'}\nbaseline: none\n") == ""


@pytest.mark.parametrize(
    ("script", "command", "is_said"),
    [
        ('"""Takes --devices."""\nfrom lightning.fabric import Fabric\nfabric = Fabric()  # devices=2', "", True),
        ("import lightning\nTrainer(devices=1)", "", True),
        ("import lightning\nTrainer(devices=1)", "env PL_TRAINER_DEVICES={workers} python train.py", True),
        ("import lightning\nTrainer(devices=size)", "", False),
        # What a run's own connections show is not guessed.
        ("import lightning\np.add_argument('--devices', default=1)\nTrainer(devices=p.devices)", "", False),
        ("import lightning\nTrainer(devices=config.devices)", "", False),
        ("import lightning\nTrainer(**config)", "", False),
        ("import lightning\nTrainer(callbacks=instantiate(config))", "", False),
        ("import lightning\nlightning.seed_everything(0)", "", False),
        ("import lightning\nTrainer(strategy=of(os.environ['LOCAL_WORLD_SIZE']))", "", False),
        ("import lightning\nTrainer()", "env LT_DEVICES={workers} python train.py", False),
        ("import lightning, dlbench.lightning\nTrainer()", "", False),
        ("import torch.distributed\nTrainer()", "", False),
        ("import lightning\nLightningCLI(Model)", "", True),
        ("import lightning\nclass MyCLI(LightningCLI): ...\nMyCLI(Model)",
         "env PL_TRAINER_DEVICES={workers} python train.py", True),
        ("import lightning\nLightningCLI(trainer_defaults={'max_epochs': 2})", "", True),
        ("import lightning\nclass ArgsCLI: ...\nArgsCLI()\nTrainer()",
         "env PL_TRAINER_DEVICES={workers} python train.py", False),
        ("import lightning\nLightningCLI(trainer_defaults={'devices': 2})", "", False),
        ("import lightning\nLightningCLI(trainer_defaults={'devices': 1})", "", True),
        ("import lightning\nLightningCLI(args=words)", "", False),
        ("import lightning\nLightningCLI(Model)", "python train.py -c fit.yaml", False),
    ],
)  # fmt: skip
def test_lightning_without_the_number_of_its_workers_is_warned_of(
    here: Path, script: str, command: str, is_said: bool
) -> None:
    (here / "train.py").write_text(script)
    command = command or "python train.py"
    text = found(f"base: {{command: '{command}', strategy: mpi, workers: 2}}\nbaseline: none\n")
    assert ("give Lightning no `devices`, or one" in text) == is_said


def test_a_package_beside_a_script_is_read_to_know_whether_it_connects_workers(here: Path) -> None:
    for folder in ("models", "models/inner", "models/data/more"):
        (here / folder).mkdir(parents=True)
    for package in ("models", "models/inner"):
        (here / package / "__init__.py").write_text("from .net import *\n")
    (here / "train.py").write_text("import torch\nfrom models import *\nos.popen('stty size')\n")
    for file, text, is_said in (
        ("net", "import torch\n", True),
        ("net", "import torch.distributed\n", True),
        ("net", "import torch.distributed as dist\ndist.barrier()\n", False),
        ("net", "from torch.nn.parallel import DistributedDataParallel as DDP\nDDP(net)\n", False),
        ("net", "import deepspeed\n", False),
        ("inner/net", "torch.distributed.barrier()\n", False),
        ("data/net", "torch.distributed.barrier()\n", False),
        ("data/more/net", "torch.distributed.barrier()\n", True),
    ):
        (here / "models" / f"{file}.py").write_text(text)
        warned = found("base: {command: python train.py, strategy: mpi, workers: 2}\nbaseline: none\n")
        assert ("nothing in train.py connects" in warned) == is_said, (file, text)
        (here / "models" / f"{file}.py").unlink()


@pytest.mark.parametrize(
    ("workers", "of", "is_asked"), [("1, 2", "", True), ("1, 2", ", of: worker", False), ("2", "", False)]
)
@pytest.mark.parametrize("inside", ["", ", workers_inside: true"])
def test_whose_rate_a_script_prints_is_asked_where_workers_vary(
    here: Path, workers: str, of: str, is_asked: bool, inside: str
) -> None:
    (here / "train.py").write_text("")
    base = (
        f"base: {{command: python train.py, strategy: mpi{inside}}}\nmatrix: {{workers: [{workers}]}}\nbaseline: none\n"
    )
    text = found(f"{base}metrics: {{samples_per_s: {{output: '([0-9.]+)'{of}}}}}\n")
    assert ("of all workers or of one?" in text) == is_asked


def test_of_a_long_name_its_first_parts_are_modules() -> None:
    text = f"a{'.b' * 1500}"
    assert {*modules_of(text)} == {"a", "a.b", "a.b.b", "a.b.b.b", "a.b.b.b.b"}
    assert code_of(text) == text


def test_a_rate_of_steps_is_warned_of_where_their_samples_vary() -> None:
    for base, axis, unit, rest, is_said in [
        ("", "batch_size: [32, 64]", "it/s", "times: 32, of: all", True),
        ("", "batch_size: [32, 64]", " ?steps/sec", "times: 32, of: worker", True),
        ("", "batch_size: [32, 64]", "img/s", "of: all", False),
        ("", "batch_size: [32, 64]", " +it/s", "times: 1", True),
        (", batch_size: 32", "workers: [1, 2]", "it/s", "times: 32, of: all", True),
        (", batch_size: 32", "workers: [1, 2]", "it/s", "times: 32, of: worker", False),
        (", batch_size: 32", "learning_rate: [0.1, 0.2]", "it/s", "times: 32, of: all", False),
        (", batch_size: 1", "workers: [1, 2]", "it/s", "times: 1, of: worker", False),
        ("", "workers: [1, 2]", "it/s", "times: 32, of: all", False),
    ]:
        text = f"base: {{command: ./train, strategy: mpi{base}}}\nmatrix: {{{axis}}}\nbaseline: none\nmetrics:\n"
        text = found(f"{text}  samples_per_s: {{output: '([0-9.]+){unit}', {rest}}}\n")
        assert ("makes samples of one batch alone" in text) == is_said, (base, axis, unit, rest)


def test_a_module_is_warned_of_as_its_file_is(here: Path) -> None:
    for path in ("flat.py", "pk/train.py", "pk/tool/__main__.py"):
        (here / path).parent.mkdir(parents=True, exist_ok=True)
        own = "from pk import data" if path != "flat.py" else "import other"
        (here / path).write_text(f"import numpy\n{own}\nif exists(x):\n    m.load_state_dict(x)\n")
    (here / "other.py").write_text("import numpy\n")
    (here / "pk" / "data.py").write_text("import numpy\n")
    for folder in ("pk", "pk/tool"):
        (here / folder / "__init__.py").touch()
    for command, path, workers in (
        ("python flat.py", "flat.py", 2),
        ("python -m flat", "flat.py", 2),
        ("python -um pk.train --lr 1", "pk/train.py", 2),
        ("bash -c 'python -m pk.train'", "pk/train.py", 2),
        ("python -m torch.distributed.run --nproc-per-node 1 -m pk.tool", "pk/tool/__main__.py", 1),
    ):
        base = f'base: {{command: "{command}", strategy: mpi, workers: {workers}}}\nbaseline: none\n'
        text = found(f"{base}matrix: {{batch_size: [8, 16]}}\n")
        assert (f"nothing in {path} connects" in text) is (workers > 1), command
        start = f"python {here / path}" if path in command else "python -m"
        for words in (f"{path} never mentions", f"{path} goes on from", start, f"nor {path} read run.batch_size"):
            assert words in text, (command, words)


def test_what_a_script_imports_counts_as_its_own(here: Path) -> None:
    (here / "pk").mkdir()
    (here / "pk" / "__init__.py").touch()
    assert "never mentions" in found("base: {command: python pk/__init__.py, strategy: mpi, workers: 2}\n")
    (here / "pk" / "__init__.py").unlink()
    (here / "run.py").write_text("from pk.train import main\n")
    (here / "pk" / "train.py").write_text("from . import part\nfrom .part import more\nfrom ..pk.last import x\n")
    (here / "pk" / "last.py").write_text("import dlbench.worker\nrun.batch_size\nMirroredStrategy()\n")
    assert found("base: {command: python run.py}\nmatrix: {batch_size: [8, 16]}\n") == ""
    assert refusal(here, "python run.py", 2, "replicas") == ""


def test_places_that_are_not_filled_in_are_named() -> None:
    for text, is_said in (
        ("{ batch_size }", True),
        ("{{batch_size}}", True),
        ("{batch_size:>5}", True),
        ("{batch_size!r}", True),
        ("{batch_size}", False),
        ("{{x}}", False),
        ('{\\"lr\\": {learning_rate}}', False),
    ):
        warned = found(f'base: {{command: "python elsewhere.py {text}"}}\n')
        assert (f"`{text}`, which stays" in warned) is is_said, text
        assert bool(warned) is is_said, text


def refusal(here: Path, command: str, workers: int = 2, strategy: str = "mpi") -> str:
    base = {"command": command, "workers": workers, "strategy": strategy}
    (here / "s.yaml").write_text(yaml.safe_dump({"base": base, "baseline": "none"}))
    try:
        expand(read(here / "s.yaml"), this_machine())
    except UserError as error:
        return str(error)
    return ""


# Commands and scripts that start several processes themselves, and the launcher that is named.
NESTED = {
    "mpirun -np 2 python train.py": "mpirun",
    "env X=1 Y=2 srun python train.py": "srun",
    "env -u A OMP_NUM_THREADS=1 torchrun --nproc_per_node=2 train.py": "torchrun",
    "nice -n 5 numactl --cpunodebind=0 horovodrun -np 2 python train.py": "horovodrun",
    "timeout 5m accelerate launch train.py": "accelerate launch",
    "python -mtorch.distributed.run train.py": "torch.distributed.run",
    "python /opt/env/bin/torchrun train.py": "torchrun",
    "uv run torchrun train.py": "torchrun",
    "conda run -n env mpirun python train.py": "mpirun",
    "bash -c 'cd /tmp && mpirun -np 2 python train.py'": "mpirun",
    "env -S 'mpirun -np 2 python train.py'": "mpirun",
    "/usr/bin/time -f %e mpirun -np 2 python train.py": "mpirun",
}
SHELL_TEXTS = {
    "mpirun -np 2 python train.py": "mpirun",
    "set -e\ncd /tmp; time mpirun \\\n  -np 2 \\\n  python train.py": "mpirun",
    "if [ $# -gt 0 ]; then torchrun train.py; else python train.py; fi": "torchrun",
    "for i in 1 2; do\n  srun python train.py &\ndone\nwait": "srun",
    "LAUNCH='mpirun -np 2'\n$LAUNCH python train.py": "mpirun",
    "export RUN=/usr/bin/torchrun\n${RUN} train.py": "torchrun",
    "python -u $(which torchrun) train.py": "torchrun",
    "CMD='mpirun -np 2'\neval $CMD python train.py": "mpirun",
    "main() { horovodrun -np 2 python train.py; }\nmain": "horovodrun",
    "out=$(mpirun -np 2 python train.py)": "mpirun",
    "test -f x && python -m torch.distributed.run train.py || exit 1": "torch.distributed.run",
    "bash inner.sh": "deepspeed",
    "./inner.sh 'it is": "deepspeed",
    "LAUNCHER=${LAUNCHER:-mpirun}\n$LAUNCHER -np 2 python train.py": "mpirun",
    "CMD=(mpirun\n -np 2)\n${CMD[@]} python train.py": "mpirun",
    'bash "$(dirname "${BASH_SOURCE[0]}")/scripts/run.sh"': "mpirun",
    "cd scripts\nbash run.sh": "mpirun",
    "bash -euo pipefail scripts/run.sh": "mpirun",
    "bash --rcfile x scripts/run.sh": "mpirun",
    "2>err.log mpirun -np 2 python train.py &>log": "mpirun",
    "time -p mpirun -np 2 python train.py": "mpirun",
    "case $1 in\n  a|b) echo;;\n  mpi) mpirun -np 2 python train.py ;;\nesac": "mpirun",
    "case $1 in srun) echo;; esac\nmpirun -np 2 python train.py": "mpirun",
    "cat <<EOF\nmpirun\nEOF\nmpirun -np 2 python train.py": "mpirun",
    "for ((i = 0; i < 2; i++)); do mpirun -np 2 python train.py; done": "mpirun",
    "mpirun -n 2 python train.py\r": "mpirun",
}
HARMLESS = {
    "python train.py --launcher mpirun",
    "python -m trainer mpirun",
    "bash {model}.sh",
    "accelerate config",
    "uv run --with deepspeed python train.py",
    "docker run --name mpirun image python train.py",
}
HARMLESS_TEXTS = {
    "# mpirun -np 2 python train.py\npython train.py  # not torchrun x",
    "command -v srun >/dev/null || echo no srun",
    "bash loop.sh",
    "if ! command -v mpirun >/dev/null 2>&1; then echo no; exit 1; fi",
    'V=$(mpirun --version | head -1)\nV=`srun --version`\nV="$(mpirun --version)"',
    "launchers=(\n  'mpirun -np 2'\n  srun python\n)",
    "case $1 in\n  mpirun | srun) echo ;;\n  torchrun)\n    echo\n    ;;\nesac",
    'mpirun() { "$@"; }\nfunction srun { echo x; }',
    "cat <<EOF2\nUsage:\n  mpirun -np 4 bash train.sh\nEOF2",
    'echo "Usage:\n  mpirun -np 4 bash train.sh"',
    "python -c '\nmpirun -np 2\n'",
    "LAUNCHER=mpirun\nLAUNCHER=\n$LAUNCHER python train.py",
}


def test_a_command_that_starts_processes_itself_is_refused_for_several_workers(here: Path, subtests) -> None:
    (here / "train.py").write_text(HOOKED)
    for command, launcher in NESTED.items():
        with subtests.test(command=command):
            assert f"{launcher}`, and dlbench starts" in refusal(here, command)
            assert refusal(here, command, workers=1) == ""
    for command in HARMLESS:
        with subtests.test(command=command):
            assert "starts `" not in refusal(here, command)


def test_a_shell_script_that_starts_processes_is_refused_with_its_line(here: Path, subtests) -> None:
    (here / "train.py").write_text(HOOKED)
    (here / "inner.sh").write_text("#!/bin/sh\ndeepspeed train.py\n")
    (here / "loop.sh").write_text("bash loop.sh\n")
    (here / "scripts").mkdir()
    (here / "scripts" / "run.sh").write_text("mpirun -np 2 python train.py\n")
    for text, launcher in SHELL_TEXTS.items():
        (here / "train.sh").write_text(f"#!/usr/bin/env bash\n{text}\n")
        with subtests.test(text=text):
            assert f"{launcher}` (" in refusal(here, "bash train.sh")
    for command in ("sh -x ./train.sh 1 2", "./train.sh", "env X=1 ./train.sh"):
        assert "mpirun` (" in refusal(here, command)
    for text in HARMLESS_TEXTS:
        (here / "train.sh").write_text(f"#!/bin/bash\n{text}\n")
        with subtests.test(text=text):
            assert refusal(here, "bash train.sh") == ""


def test_a_script_without_replicas_is_refused_for_several_workers_in_one_process(here: Path) -> None:
    for text, workers, is_refused in (
        ("", 2, True),
        ("", 1, False),
        ("with tf.distribute.MirroredStrategy().scope(): ...", 2, False),
        ("model = torch.nn.DataParallel(model)", 2, False),
    ):
        (here / "train.py").write_text(HOOKED + text)
        said = refusal(here, "bash -c 'python train.py'", workers, "replicas")
        assert ("train as one worker" in said) is is_refused, (text, workers)
    assert refusal(here, "python -m elsewhere", 2, "replicas") == ""


def test_the_line_to_write_instead_is_named(here: Path) -> None:
    (here / "train.sh").write_text(
        "torchrun --standalone --nproc_per_node=2 ddp.py 2 1 --lr ${LR:-0.1} --batch_size $BATCH\n"
    )
    assert "(train.sh: torchrun --standalone" in refusal(here, "bash train.sh")
    assert "`command: python ddp.py 2 1 --lr 0.1 --batch_size ...`" in refusal(here, "bash train.sh")


def test_one_worker_is_warned_of_a_launcher(here: Path) -> None:
    (here / "train.py").write_text(HOOKED)
    assert "starts `torchrun` where dlbench starts one process" in found("base: {command: torchrun train.py}\n")


def test_a_script_that_does_not_compile_is_named_with_its_line_and_never_executed(here: Path) -> None:
    for text, fault in (
        ("x = 1\ndef f(:\n", "line 2: "),
        ("print 'hello'\n", "line 1: Missing parentheses"),
        ("x = '\xff'\n", "line "),
        ("x = 1\0\n", "null bytes"),
        ("raise SystemExit('executed')\nx = '\\d'\n", ""),
    ):
        (here / "train.py").write_bytes(text.encode("latin1"))
        said = python_fault(here / "train.py")
        assert fault in said, text
        assert bool(said) is bool(fault)


def test_the_first_line_names_the_interpreter() -> None:
    for line, program in (
        ("#!/usr/bin/env python3", "python"),
        ("#!/usr/bin/env -S python3.12 -u", "python"),
        ("#!/usr/bin/env A=1 zsh", "zsh"),
        ("#!/usr/bin/perl", "perl"),
        ("#!/usr/bin/env", ""),
        ("import os", ""),
    ):
        assert interpreter_of(f"{line}\nx") == program, line
