"""The command that `dlbench init` writes for a script, and the scripts that it refuses."""

from pathlib import Path

import pytest
import yaml

from dlbench.errors import UserError
from dlbench.scenario.check.scripts import has_hook
from dlbench.study.starter import Wish, command_of, starter, texts_of

HOOKED = "import dlbench.worker\n"
# Scripts by name, their text, and their command; else a part of the message.
COMMANDS = [
    ("train.py", HOOKED, "python train.py"),
    ("my train.py", "", "python 'my train.py'"),
    ("train.sh", "python train.py\n", "bash train.sh"),
    ("train", "#!/usr/bin/env python3\nx = 1\n", "python train"),
    ("train", "#!/bin/zsh\nx=1\n", "zsh train"),
    ("-x.py", "", "python ./-x.py"),
    ("train.sh", "# PBS jobs call this\n#SBATCHES\n#$x\npython train.py\n", "bash train.sh"),
]
REFUSED = [
    ("nb.ipynb", "{}", "jupyter nbconvert --to script nb.ipynb"),
    ("job.sbatch", "#!/bin/bash\nsrun python ddp.py 1\n", "--script ddp.py"),
    ("job.sh", "#!/bin/bash\n#SBATCH -N 2\nmpirun -np 2 \\\n python ddp.py\n", "--script ddp.py"),
    ("job.pbs", "python x.py", "--script x.py"),
    ("job", "#!/bin/bash\n#PBS -l nodes=2\n", "--script train.py"),
    ("job.slurm", '#!/bin/bash\nexport SCRIPT=/x/ddp.py\nCMD="python $SCRIPT"\nsrun $CMD\n', "--script /x/ddp.py"),
    ("flux.sh", "#!/bin/sh\n# flux: -N 2\npython train.py\n", "flux.sh is a job script"),
    ("sge.sh", "#!/bin/sh\n#$-cwd\npython train.py\n", "sge.sh is a job script"),
    ("bad.py", "x = 1\ndef f(:\n", "bad.py does not compile: line 2: "),
    ("part.py", "from .data import load\n", "`command: python -m package.part`"),
    ("train", "x = 1\n", "first line"),
]


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_each_script_gets_its_interpreter_or_is_refused_with_a_way(subtests) -> None:
    for name, text, command in COMMANDS:
        with subtests.test(name=name, text=text):
            Path(name).write_text(text)
            assert command_of(Path(name)) == command
    for name, text, said in REFUSED:
        with subtests.test(name=name, text=text):
            Path(name).write_text(text)
            with pytest.raises(UserError) as caught:
                starter(Wish(script=name), "s.yaml")
            assert said in str(caught.value)


def lacks_hook(script: Path) -> bool:
    return not any(map(has_hook, texts_of(script)))


def base_of(script: str, **wish: object) -> dict[str, object]:
    return dict(yaml.safe_load(starter(Wish(script=script, **wish), "s.yaml"))["base"])


def test_the_strategy_and_the_hook_are_looked_for_in_the_scripts_that_a_shell_script_starts() -> None:
    Path("train.sh").write_text("exec python train.py\n")
    Path("train.py").write_text(f"from mpi4py import MPI\n{HOOKED}")
    assert base_of("train.sh")["strategy"] == "mpi"
    assert not lacks_hook(Path("train.sh"))
    Path("train.py").write_text("import keras\n")
    assert base_of("train.sh")["strategy"] == "single"
    assert lacks_hook(Path("train.sh"))


def test_what_a_script_imports_has_its_strategy_where_it_connects_workers_and_its_hook() -> None:
    Path("pk").mkdir()
    module, script = Path("pk/train.py"), Path("run.py")
    module.write_text("import torch.distributed as d, dlbench.torch\nd.init_process_group()\np.add_argument('--lr')\n")
    script.write_text("from pk import train\n")
    # Arguments of a module that the script does not name may be those of the module as a script.
    assert (base_of("run.py")["command"], base_of("run.py")["strategy"]) == ("python run.py", "mpi")
    assert not lacks_hook(script)
    module.write_text("import deepspeed\ndeepspeed.init_distributed()\n")
    assert base_of("run.py")["strategy"] == "mpi"
    module.write_text("import torch.distributed as d\nis_main = not d.is_initialized()\n")
    assert base_of("run.py")["strategy"] == "single"
    assert lacks_hook(script)


def test_the_arguments_of_what_a_script_imports_by_name_are_its_own() -> None:
    Path("utils").mkdir()
    Path("utils/more.py").write_text("def get():\n    parser.add_argument('--lr', default=0.2)\n")
    add, rate, flag = "parser.add_argument('--lr', default=0.2)\n", " --lr {learning_rate}", " --lr={learning_rate}"
    for module, text, words in (
        (f"parser = ArgumentParser()\n{add}def get(): parser.parse_args()", "import utils.args as u\nu.get()", rate),
        (f"parser = ArgumentParser()\n{add}def same(parser): parser.x", "from utils.args import same", ""),
        (
            f"parser = ArgumentParser()\n{add}def same(a):\n    parser = a\n    parser.x",
            "import utils.args as u\nu.same",
            "",
        ),
        (f"import argparse\nparser = argparse.ArgumentParser()\n{add}", "import argparse, utils.args as u\nu.x", ""),
        (f"parser = ArgumentParser()\n{add}", "from utils.args import parser\nparser.parse_args()", rate),
        (f"parser = ArgumentParser()\n{add}args, _ = parser.parse_known_args()", "from utils.args import args", rate),
        (f"parser = ArgumentParser()\n{add}args: Any = parser.parse_args()", "import utils.args as u\nu.args.lr", rate),
        (f"x = a{'.b' * 1500}\nparser = ArgumentParser()\n{add}", "from utils.args import parser", rate),
        ("FLAGS = flags.FLAGS\nflags.DEFINE_float('lr', 0.2, '')\n", "from utils.args import FLAGS", flag),
        ("LR = flags.DEFINE_float('lr', 0.2, '')\ndef net(): ...\n", "from utils.args import net", flag),
        ("flags.DEFINE_float('lr', 0.2, '')\n", "import utils.args", flag),
        ("from .more import get", "from utils.args import get", rate),
        (f"def more(parser):\n    {add}def get():\n    more(ArgumentParser())\n", "from utils.args import get", rate),
        (
            f"class Base:\n  def __init__(self):\n    {add}class Options(Base): ...",
            "from utils.args import Options",
            rate,
        ),
        (f"def main():\n    {add}class Model: ...", "from utils.args import Model\ndef main(): ...\nmain()", ""),
        (f"class Model: ...\nif __name__ == '__main__':\n    {add}", "from utils.args import Model, parser", ""),
    ):
        Path("utils/args.py").write_text(module)
        Path("train.py").write_text(text)
        assert base_of("train.py")["command"] == f"python train.py{words}", module


def test_a_part_of_a_package_is_started_as_a_module(here: Path) -> None:
    Path("pk/sub").mkdir(parents=True)
    for name, text, command in (
        ("pk/train.py", "from .data import load\n", "python -m pk.train"),
        ("pk/sub/train.py", "from ..data import load\n", "python -m pk.sub.train"),
        (str(here / "pk/train.py"), "from . import data\n", "python -m pk.train"),
        ("pk/train.py", "from ..data import load\n", ""),
        ("my-pk/train.py", "from . import data\n", ""),
    ):
        Path(name).parent.mkdir(exist_ok=True)
        Path(name).write_text(text)
        if command:
            assert base_of(name)["command"] == command, (name, text)
        else:
            with pytest.raises(UserError, match=r"python -m package\.train"):
                command_of(Path(name))


def test_what_a_script_does_not_read_does_not_vary() -> None:
    Path("other.py").write_text("def fit(run):\n    return run.settings.batch_size\n")
    for text, axes in (
        ("", None),
        ("batch_size = 64\nargs.batch_size", None),
        ("r = dlbench.worker.begin()\nr.batch_size", {"batch_size": [32, 128]}),
        ("self.mine = hook.run.settings\nself.mine.batch_size", {"batch_size": [32, 128]}),
        ("from other import fit", {"batch_size": [32, 128]}),
    ):
        Path("train.py").write_text(HOOKED + text)
        scenario = starter(Wish(script="train.py"), "s.yaml")
        assert yaml.safe_load(scenario).get("matrix") == axes, text
        assert ("as the script has it: batch_size" in scenario) is (axes is None), text
        assert "learning_rate" not in yaml.safe_load(scenario)["base"], text
    Path("plain.py").write_text("run = wandb.init()\nrun.batch_size = 1\nprint(run)")
    assert "matrix" not in yaml.safe_load(starter(Wish(script="plain.py"), "s.yaml"))
    Path("train.py").write_text("from trl import SFTTrainer, TrlParser\nTrlParser((SFTConfig,))\nSFTTrainer()")
    assert {"epochs": 3}.items() <= (written := base_of("train.py")).items()
    assert "learning_rate" not in written  # each trainer has its own
    Path("train.py").write_text(HOOKED)
    assert "let the script read run.batch_size" in starter(Wish(script="train.py", compare=("batch_size",)), "s.yaml")


def test_the_strategy_is_that_of_what_a_script_imports() -> None:
    for text, strategy in (
        ('"""Compare with horovod results."""\nimport keras\n', "single"),
        ("if __package__:\n    from . import mpi4py", "single"),
        ("def main():\n    import horovod.tensorflow.keras as hvd", "horovod"),
        ("try:\n    from horovod import torch\nexcept ImportError:\n    import mpi4py", "horovod"),
        ("import mpi4py.MPI", "mpi"),
        ("import torch\ntorch.distributed.init_process_group('gloo')", "mpi"),
        ("from torch import distributed as dist\ndist.barrier()", "mpi"),
        ("from torch import nn, distributed as dist\nnn.DataParallel(net)", "single"),
        ("import jax\njax.distributed.initialize()", "mpi"),
        ("import deepspeed\ndeepspeed.initialize(model=net)", "mpi"),
        ("import mmengine\np.add_argument('--launcher', choices=['none', 'pytorch', 'slurm'])", "mpi"),
        ("import mmengine\np.add_argument('--launcher', choices=['none', 'slurm'])", "single"),
        ("from deepspeed.profiling import flops_profiler", "single"),
        ("from trl import SFTTrainer", "mpi"),
        ("from transformers import Seq2SeqTrainer", "mpi"),
        ("from transformers import TrainerCallback", "single"),
        ("import jax\njax.pmap(step)", "single"),
        ("import keras\nkeras.distribution.initialize()", "mpi"),
        ("os.environ['TF_CONFIG']\ns = tf.distribute.ParameterServerStrategy(resolver)", "single"),
        ("with tf.distribute.MirroredStrategy().scope(): ...", "mirrored"),
        ("s = tf.distribute.experimental.MultiWorkerMirroredStrategy()", "multi_worker"),
        ("json.loads(os.environ['TF_CONFIG'])", "multi_worker"),
        ('"""As MirroredStrategy with TF_CONFIG."""\nimport tensorflow', "single"),
    ):
        Path("train.py").write_text(text)
        assert base_of("train.py")["strategy"] == strategy, text
        scenario = starter(Wish(script="train.py"), "s.yaml")
        assert ("makes a logical device" in scenario) is (strategy == "mirrored"), text
        assert "launcher" not in base_of("train.py"), text
    Path("train.py").write_text("from lightning.pytorch import Trainer")
    assert base_of("train.py")["launcher"] == "torchrun"
    for text, launcher in (("Trainer()", "torchrun"), ("pytorch_lightning.seed_everything(1)", None)):
        Path("train.py").write_text(f"import horovod.torch, pytorch_lightning\n{text}\n")
        assert base_of("train.py").get("launcher") == launcher, text
    for text, variables in (
        ("Trainer()", "env PL_TRAINER_DEVICES={workers} "),
        ("Trainer()  # no LightningCLI", "env PL_TRAINER_DEVICES={workers} "),
        ("Trainer(devices=2)", ""),
        ("Trainer(devices=1)", ""),
        ("Fabric()", "env LT_CLI_USED=1 LT_DEVICES={workers} "),
        ("fabric = L.Fabric()\nfabric.launch()", "env LT_DEVICES={workers} "),
    ):
        Path("train.py").write_text(f"import lightning as L\n{text}")
        assert base_of("train.py")["command"] == f"{variables}python train.py", text
    for text, arguments in (
        ("p.add_argument('--devices', default=1)\nTrainer(devices=a.devices)", "--devices {workers}"),
        ("LightningCLI(Model)", "fit --trainer.devices {workers}"),
        ("class MyCLI(LightningCLI): ...\nMyCLI(run=False)", "--trainer.devices {workers}"),
        ("LightningCLI(Model, trainer_defaults={'devices': 1})", "fit --trainer.devices {workers}"),
        ("LightningCLI(Model, args=words)", "fit --trainer.devices {workers}"),
        ("p.add_argument('--gpus', default=1)\nTrainer(devices=a.gpus, logger=False)", "--gpus {workers}"),
        ("p.add_argument('--gpus', default=1)\nTrainer(devices=2)", ""),
        ("p.add_argument('--gpus', nargs='+', default=[0])\nTrainer(devices=a.gpus)", ""),
        ("p.add_argument('--devices', nargs='+', default=[0])\nTrainer(devices=a.devices)", ""),
        ("p.add_argument('--devices', default='0,1')\nTrainer(devices=[*map(int, a.devices.split(','))])", ""),
        ("p.add_argument('--devices', default='0,1')\nTrainer(devices=a.devices)", "--devices {workers}"),
        ("import hydra\n@hydra.main(config_path='.')\ndef main(cfg):\n    instantiate(cfg.trainer)",
         "trainer.devices={workers}"),
    ):  # fmt: skip
        Path("trainer.yaml").write_text("_target_: lightning.Trainer\ndevices: 1\n")
        Path("train.py").write_text(f"import lightning\n{text}")
        assert base_of("train.py")["command"] == f"python train.py {arguments}".strip(), text


def test_a_script_that_may_connect_its_workers_gets_several_with_the_doubt() -> None:
    for text, is_refused in (
        ("import ours.distributed as dist\ndist.begin()", False),
        ("import ours\nours.train()", True),
        ("import torch.distributed as dist\ntorch.nn.DataParallel(net)", True),
        ("tf.distribute.ParameterServerStrategy(resolver)", True),
    ):
        Path("train.py").write_text(text)
        if is_refused:
            with pytest.raises(UserError, match="uses neither mpi4py"):
                starter(Wish(script="train.py", compare=("workers",)), "s.yaml")
        else:
            assert "it is not certain that the script connects" in starter(
                Wish(script="train.py", compare=("workers",)), "s.yaml"
            )
            assert base_of("train.py", compare=("workers",))["strategy"] == "mpi"
            assert base_of("train.py")["strategy"] == "single"


def test_a_script_that_starts_workers_needs_no_arm_of_one_beside_the_base_line() -> None:
    of_ray, of_loop = "TorchTrainer(train).fit()", "for rank in ranks:\n    mp.Process(target=train).start()"
    for flag, start, most, counts in (
        ("--num-workers", of_ray, 2, [2]),
        ("--num-workers", of_ray, 4, [2, 4]),
        ("--num-processes", of_loop, 2, [2]),
        ("--num-devices", of_loop, 2, [2]),
        ("--num-workers", of_loop.replace("ranks", "range(args.num_workers)"), 2, [2]),
        ("--workers", "mp.spawn(train, nprocs=args.workers)", 2, [2]),
        ("--workers", "nprocs = args.workers\nmp.spawn(train, args=(nprocs,), nprocs=nprocs)", 2, [2]),
        ("--num-workers", of_ray.replace("train)", "preprocess(train))"), 2, [2]),
    ):
        Path("train.py").write_text(f"parser.add_argument('{flag}', type=int)\n{start}\n")
        written = yaml.safe_load(starter(Wish(script="train.py", max_workers=most), "s.yaml"))
        assert (written["base"]["workers_inside"], written["matrix"]["workers"]) == (True, counts)
    Path("train.py").write_text("p.add_argument('--gpus', nargs='+')\nmp.spawn(train, nprocs=len(args.gpus))")
    assert base_of("train.py")["command"] == "python train.py"
    Path("train.py").write_text("p.add_argument('--workers')\nmp.spawn(train, args=(n, args.workers), nprocs=n)")
    assert base_of("train.py")["strategy"] == "single"
    with pytest.raises(UserError, match=r"by mp\.spawn: no argument"):
        starter(Wish(script="train.py", compare=("workers",)), "s.yaml")


def test_a_batch_size_that_is_that_of_all_workers_by_its_help_has_this_scope() -> None:
    for declared, scope in (
        ("p.add_argument('--bs', default=64, help='Global batch size')", "global"),
        ("flags.DEFINE_integer('batch_size', 64, 'the total training batch size')", "global"),
        ("p.add_argument('--bs', default=64, help='total batch size, divided over each GPU')", "global"),
        ("import typer\ndef f(bs: int = typer.Option(64, help='Global batch size')): ...\ntyper.run(f)", "global"),
        ("class C:\n  bs: int = field(default=64, metadata={'help': 'Total batch size'})\ntyro.cli(C)", "global"),
        ("class C:\n  bs: int = 64\n  '''Total batch size.'''\n  lr: float = 1.0\ntyro.cli(C)", "global"),
        ("class C:\n  lr: float = 1.0\n  '''Total batch size.'''\n  bs: int = 64\ntyro.cli(C)", None),
        ("p.add_argument('--bs', default=64)\nmine = args.batch_size // args.world_size", "global"),
        ("p.add_argument('--bs', default=64)\nargs.batch_size //= dist.get_world_size()", "global"),
        ("p.add_argument('--global-batch-size', default=64)", "global"),
        ("p.add_argument('--global-batch-size')\np.add_argument('--batch-size', default=64)", None),
        ("p.add_argument('--batch-size', default=64)\nmine = global_batch_size // dist.get_world_size()", None),
        (
            "p.add_argument('--bs', default=64, help='Total batch size')\nmine = args.bs // args.accum // world_size",
            "global",
        ),
        ("p.add_argument('--micro-batch-size', default=4)\np.add_argument('--global-batch-size', default=64)", None),
        ("p.add_argument('--bs', default=64, help='Total batch size')\nargs.batch_size //= args.accum_steps", None),
        ("p.add_argument('--bs', default=64, help='Total batch size')\nn = size / args.batch_size / accum", "global"),
        ("p.add_argument('--bs', default=64)\nmine = args.batch_size // torch.cuda.device_count()", None),
        ("p.add_argument('--bs', default=64)\nmine = args.batch_size // jax.local_device_count()", None),
        ("p.add_argument('--bs', default=64)\nif gpu:\n    args.batch_size /= ngpus_per_node", None),
        ("p.add_argument('--bs', default=64)\nrate = args.batch_size / 256 * world_size", None),
        ("p.add_argument('--bs', default=64)\nlong = " + "'a' + " * 600 + "'a'", None),
        ("p.add_argument('--bs', default=64)\nspeed = args.batch_size / (now - then) * hvd.size()", None),
        ("p.add_argument('--bs', default=64)\nsteps = len(data) // args.batch_size // args.world_size", None),
        ("p.add_argument('--bs', default=64, help='total batch size of each GPU, divided into parts')", None),
        ("p.add_argument('--bs', default=64, help='total batch size of all GPUs of a node')", None),
        ("p.add_argument('--bs', default=64, help='images per gpu, the total batch size is $NGPU x batch_size')", None),
        ("p.add_argument('--bs', default=64, help='Total batch size = batch_size * world_size')", None),
    ):
        Path("train.py").write_text(f"import torch.distributed\n{declared}\n")
        assert base_of("train.py").get("batch_scope") == scope, declared


def test_a_batch_size_that_a_script_divides_by_the_number_of_workers_is_that_of_all() -> None:
    for lines, scope in (
        ("world = dist.get_world_size()\nmine = args.batch_size // world", "global"),
        ("world = dist.get_world_size() if dist.is_initialized() else 1\nmine = args.batch_size // world", "global"),
        ("rank, n = hvd.rank(), hvd.size()\nmine = args.batch_size // n", "global"),
        ("mine = args.batch_size // int(os.environ['WORLD_SIZE'])", "global"),
        ("n = int(os.environ.get('WORLD_SIZE', 1))\nmine = args.batch_size // n", "global"),
        ("mine = args.batch_size // int(os.getenv('OMPI_COMM_WORLD_SIZE', '1'))", "global"),
        ("mine = args.batch_size // comm.size", "global"),
        ("mine = args.batch_size // MPI.COMM_WORLD.Get_size()", "global"),
        ("mine = args.batch_size // accelerator.num_processes", "global"),
        ("mine = args.batch_size // jax.process_count()", "global"),
        ("mine = args.batch_size // jax.device_count()", "global"),
        ("mine = args.batch_size // hvd.size()", "global"),
        ("mine = args.batch_size // xm.xrt_world_size()", "global"),
        ("mine = args.batch_size // mpu.get_data_parallel_world_size()", "global"),
        ("mine = args.batch_size // strategy.num_replicas_in_sync", "global"),
        ("mine = int(args.batch_size / max(1, fabric.world_size))", "global"),
        ("args.batch_size //= args.accum * args.world_size", "global"),
        ("passes = args.batch_size // (micro * dist.get_world_size())", "global"),
        ("mine = args.batch_size // int(os.environ['LOCAL_WORLD_SIZE'])", None),
        ("per_host = dist.get_world_size() // hosts\nmine = args.batch_size // per_host", None),
        ("mine = args.batch_size // (dist.get_world_size() - 1)", None),
        ("speed = args.batch_size / (seconds / dist.get_world_size())", None),
        ("speed = args.batch_size / seconds * dist.get_world_size()", None),
        ("steps = args.num_samples // (args.batch_size * dist.get_world_size())", None),
        ("world = dist.get_world_size()\nassert args.batch_size % world == 0", None),
        ("mine = args.eval_batch_size // dist.get_world_size()", None),
        ("step_time = reduce_mean(torch.tensor(step_time), world_size)\nspeed = args.batch_size / step_time", None),
    ):
        Path("train.py").write_text(f"import torch.distributed\np.add_argument('--bs', default=64)\n{lines}\n")
        assert base_of("train.py").get("batch_scope") == scope, lines


def test_a_batch_size_that_a_script_divides_by_the_devices_of_its_host_has_this_doubt() -> None:
    count = "nprocs = torch.cuda.device_count()\n"
    for text, is_doubted in (
        (count + "args.bs = int(args.batch_size / nprocs)", True),
        ("args.nprocs = torch.cuda.device_count()\ndef train(nprocs):\n    size = batch_size // nprocs", True),
        ("mine = args.batch_size // torch.cuda.device_count()", True),
        ("mine = args.batch_size // args.num_gpus", True),
        ("mine = args.batch_size // int(os.environ['LOCAL_WORLD_SIZE'])", True),
        (count + "if gpu:\n    args.bs = int(args.batch_size / nprocs)", False),
        ("mine = args.batch_size // jax.local_device_count()", False),
        ("mine = args.batch_size // args.num_views", False),
        ("speed = args.batch_size / gpu_time", False),
        ("size = args.batch_size // args.num_workers", False),
        ("size = args.batch_size // hvd.local_size()", True),
        ("speed = args.batch_size / seconds", False),
        (count + "steps = len(data) / args.batch_size / nprocs", False),
        (count + "if __name__ == '__main__':\n    mine = args.batch_size // nprocs", True),
        ("p.add_argument('--global-batch-size', default=256)", True),
    ):
        Path("train.py").write_text(
            f"import torch.distributed as dist\ndist.init_process_group()\np.add_argument('--bs', default=64)\n{text}\n"
        )
        for wish in (Wish(script="train.py"), Wish(script="train.py", compare=["workers"])):
            assert ("not certain that this is of each" in starter(wish, "s.yaml")) is is_doubted, text
        assert "batch_scope" not in base_of("train.py"), text


def test_a_script_that_starts_processes_is_for_one_worker() -> None:
    Path("train.sh").write_text("torchrun --nproc_per_node=2 ddp.py\n")
    Path("ddp.py").write_text("import torch.distributed\n")
    assert base_of("train.sh")["strategy"] == "single"
    with pytest.raises(UserError) as caught:
        starter(Wish(script="train.sh", compare=("workers",)), "s.yaml")
    assert "torchrun" in caught.value.message
    assert "--script ddp.py" in caught.value.hint
