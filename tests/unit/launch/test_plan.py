"""What is executed: the environment that leaks is taken out, the secret is in no file and on no command line."""

import json
import shlex
import sys

import pytest

from dlbench.launch.plan import plan, render
from dlbench.records.assignment import Assignment
from dlbench.scenario.cluster import Cluster, Host
from tests.unit.launch.fakes import FAR, TOKEN, assignment, layout

PYTHON = "/opt/env/bin/python"
LEAKING = [
    "OMPI_COMM_WORLD_RANK", "OMPI_MCA_btl", "PMIX_RANK", "PMI_SIZE", "PRTE_MCA_plm", "SLURM_PROCID", "TF_CONFIG",
    "HOROVOD_RANK", "OMP_PROC_BIND", "MKL_DYNAMIC", "OPENBLAS_MAIN_FREE", "KMP_AFFINITY", "TF_XLA_FLAGS",
    "PYTHONSTARTUP", "PYTHONINSPECT", "DLBENCH_RANK",
]  # fmt: skip
KEPT = ["HOME", "LANG", "CUDA_VISIBLE_DEVICES", "DLBENCH_CACHE", "TMPDIR", "COVERAGE_PROCESS_START"]


@pytest.mark.parametrize("launcher", ["local", "mpirun"])
def test_what_leaks_is_removed_and_the_rest_is_kept(launcher: str) -> None:
    base = dict.fromkeys([*LEAKING, *KEPT], "leaked")
    made = plan(assignment(workers=2, launcher=launcher), base, PYTHON)
    assert {name for name in base if made.env.get(name) == "leaked"} == set(KEPT)
    ours = set(made.env) & set(LEAKING)
    assert ours <= {"OMPI_MCA_btl"}
    assert set(made.removed) == set(LEAKING) - ours
    assert "leaked" not in [made.env[name] for name in made.added]


def test_pools_match_the_layout_and_the_assignment_travels_whole_to_this_interpreter_by_default() -> None:
    pools = assignment().layout.model_copy(update={"intra_op_threads": 3, "inter_op_threads": 2})
    sent = assignment().model_copy(update={"layout": pools})
    made = plan(sent, {"OMP_NUM_THREADS": "64"})
    names = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "TF_NUM_INTRAOP_THREADS")
    assert [made.env[name] for name in (*names, "TF_NUM_INTEROP_THREADS")] == ["3"] * 4 + ["2"]
    assert Assignment.model_validate_json(made.env["DLBENCH_ASSIGNMENT"]) == sent
    assert made.env["DLBENCH_ATTEMPT"] == "a1"
    assert made.argv[-4:] == (sys.executable, "-P", "-m", "dlbench.worker")


def test_the_environment_of_this_python_comes_first() -> None:
    base = {"PATH": "/usr/bin:/opt/env/bin:/bin", "LD_LIBRARY_PATH": "/usr/lib/x86_64-linux-gnu"}
    env = plan(assignment(), base, PYTHON).env
    assert env["PATH"] == "/opt/env/bin:/usr/bin:/bin"
    assert env["LD_LIBRARY_PATH"] == "/opt/env/lib:/opt/env/lib/openmpi:/usr/lib/x86_64-linux-gnu"
    assert "LD_LIBRARY_PATH" not in plan(assignment(), {"PATH": "/bin"}, PYTHON).env


@pytest.mark.parametrize("launcher", ["local", "mpirun"])
def test_the_token_is_only_in_the_environment_and_no_record_has_a_variable_or_path_of_the_user(launcher: str) -> None:
    base = {"PATH": "/home/someone/bin", "SECRET": "hunter2", "LD_LIBRARY_PATH": "/home/someone/lib"}
    made = plan(assignment(workers=2, launcher=launcher), base, PYTHON)
    assert TOKEN in made.env["DLBENCH_ASSIGNMENT"]
    assert TOKEN not in " ".join([*made.argv, *made.files.values(), *made.added.values(), render(made)])
    assert "<token>" in made.added["DLBENCH_ASSIGNMENT"]
    assert not [word for word in ("hunter2", "someone") if word in made.files["plan.json"]]
    assert json.loads(made.files["plan.json"])["added"]["OMP_NUM_THREADS"] == "1"


def test_what_is_shown_is_what_is_run() -> None:
    base = {"PATH": "/bin", "HOME": "/h", "OMP_NUM_THREADS": "8", "TF_CONFIG": "x"}
    made = plan(assignment(folder="/a b/'q'\n한글").model_copy(update={"endpoint": None}), base, PYTHON)
    env = dict(base)
    words = iter(shlex.split(render(made).replace("\\\n", "")))
    assert next(words) == "env"
    for word in words:
        if word == "-u":
            del env[next(words)]
        elif "=" in word:
            name, _, value = word.partition("=")
            env[name] = value
        else:
            break
    assert env.pop("DLBENCH_ASSIGNMENT") == "{...}"
    assert env | {"DLBENCH_ASSIGNMENT": made.added["DLBENCH_ASSIGNMENT"]} == made.env
    assert (word, *words) == made.argv


def test_relative_entries_of_pythonpath_reach_no_worker() -> None:
    given = assignment(workers=2, launcher="mpirun")
    spread = given.model_copy(update={"layout": layout("a", "b")})
    for base, said, here, there in [
        ({"PYTHONPATH": ":/x:lib"}, {}, "/x", "/x"),
        ({"PYTHONPATH": "/x"}, {"PYTHONPATH": ".:/y"}, "/y", "/y"),
        ({}, {}, None, ""),
    ]:
        cluster = FAR.model_copy(update={"environment": said})
        made = plan(given, base, PYTHON, cluster), plan(spread, base, PYTHON, cluster)
        assert [one.env.get("PYTHONPATH") for one in made] == [here, there]
        # A host's own shell may set another.
        assert made[1].argv[made[1].argv.index("PYTHONPATH") - 1] == "-x"
        assert "PYTHONPATH" not in json.loads(made[1].files["plan.json"])["added"]


def test_other_hosts_are_reached_as_the_cluster_or_the_user_says() -> None:
    names = ("PRTE_MCA_plm_ssh_agent", "OMPI_MCA_plm_rsh_agent")

    def agents(cluster: Cluster, **base: str) -> list[str | None]:
        made = plan(assignment(workers=2, launcher="mpirun"), base, PYTHON, cluster)
        assert not any(name in made.files["plan.json"] for name in names), "a path of this machine"
        return [made.env.get(name) for name in names]

    assert agents(FAR) == [None, None]
    assert agents(FAR, OMPI_MCA_plm_rsh_agent="mine") == ["mine", "mine"]
    said = FAR.model_copy(update={"ssh": "ssh -F x"})
    assert agents(said, OMPI_MCA_plm_rsh_agent="mine") == ["ssh -F x", "ssh -F x"]
    assert agents(Cluster(hosts=(Host(address="localhost", slots=1),), ssh="ssh -F x")) == [None, None]


def test_variables_of_the_cluster_win_and_reach_every_process() -> None:
    said = Cluster(hosts=(Host(address="a", slots=2),), environment={"OMPI_MCA_btl": "self,tcp", "NCCL_DEBUG": "INFO"})
    made = plan(assignment(workers=2, launcher="mpirun"), {"NCCL_DEBUG": "WARN"}, PYTHON, said)
    assert (made.env["OMPI_MCA_btl"], made.env["NCCL_DEBUG"]) == ("self,tcp", "INFO")
    passed = [made.argv[i + 1] for i, word in enumerate(made.argv) if word == "-x"]
    assert {"OMPI_MCA_btl", "NCCL_DEBUG"} <= set(passed)
    assert json.loads(made.files["plan.json"])["added"]["NCCL_DEBUG"] == "INFO"
