"""Plans as text: what `--dry-run` prints for one, two and four workers, and where names are odd.

A change here is a change of what runs. To accept it: UPDATE_GOLDEN=1 pytest tests/golden
"""

import os
import sys
from pathlib import Path
from typing import Any

import pytest

from dlbench.launch.launchers import mpirun
from dlbench.launch.plan import plan, render
from dlbench.records.assignment import Assignment, Endpoint
from dlbench.records.mpi import Mpi
from dlbench.scenario.layout import Layout, Place
from dlbench.scenario.run_spec import RunSpec
from dlbench.scenario.settings import Settings

FOLDER = Path(__file__).parent / "plans"
BASE = {"PATH": "/usr/bin:/bin", "HOME": "/home/u", "OMP_NUM_THREADS": "64", "SLURM_PROCID": "3", "TF_CONFIG": "{}"}
ODD = '/data/a study\'s "runs"/한글\n$HOME;x'


def assignment(
    workers: int, log_folder: str = "/study/runs/r/1", options: dict[str, Any] | None = None, **settings: str
) -> Assignment:
    return Assignment(
        run=RunSpec(
            scenario="golden",
            label=f"workers={workers}",
            repeat=0,
            options=options or {},
            settings=Settings.model_validate(
                {"workers": workers, "cores_per_worker": 1, "communicator": "mpi", **settings}
            ),
        ),
        attempt=1,
        attempt_id="0123456789abcdef",
        layout=Layout(
            places=tuple(Place(rank=r, workers=(r,), local_index=r, cores=(r,)) for r in range(workers)),
            intra_op_threads=1,
            inter_op_threads=1,
        ),
        endpoint=Endpoint(address="127.0.0.1", port=40000, token="never shown"),
        log_folder=log_folder,
    )


def on_hosts(given: Assignment, *hosts: str) -> Assignment:
    places = tuple(
        place.model_copy(update={"host": host}) for place, host in zip(given.layout.places, hosts, strict=True)
    )
    layout = given.layout.model_copy(update={"places": places, "interface": "eth0", "emulated": ("oversubscribed",)})
    return given.model_copy(update={"layout": layout})


PLANS = {
    "local-single": (assignment(1, launcher="local", strategy="single"), "/opt/env/bin/python"),
    "local-2": (assignment(2, launcher="local", strategy="single"), "/opt/env/bin/python"),
    "mpirun-2": (assignment(2, launcher="mpirun", strategy="mpi", algorithm="auto"), "/opt/env/bin/python"),
    "mpirun-4-ring": (assignment(4, launcher="mpirun", strategy="mpi", algorithm="ring"), "/opt/env/bin/python"),
    "mpirun-2-horovod": (
        assignment(2, launcher="mpirun", strategy="horovod", communicator="horovod", collectives="mpi"),
        "/opt/env/bin/python",
    ),
    "mpirun-2-horovod-autotune": (
        assignment(
            2,
            ODD,
            {"strategy.autotune": True},
            launcher="mpirun",
            strategy="horovod",
            communicator="horovod",
            collectives="mpi",
        ),
        "/opt/env/bin/python",
    ),
    "horovodrun-3-gloo": (
        assignment(3, launcher="horovodrun", strategy="horovod", communicator="horovod", collectives="gloo"),
        "/opt/my env's/bin/python",
    ),
    "horovodrun-2-mpi": (
        assignment(2, launcher="horovodrun", strategy="horovod", communicator="horovod", collectives="mpi"),
        "/opt/env/bin/python",
    ),
    "torchrun-2": (assignment(2, launcher="torchrun", strategy="mpi", command="./train"), "/opt/my env's/bin/python"),
    "ray-2": (
        assignment(
            2,
            launcher="ray",
            strategy="horovod",
            communicator="horovod",
            collectives="gloo",
            options={"launcher.address": "auto"},
        ),
        "/opt/my env's/bin/python",
    ),
    "ray-3-hosts": (
        on_hosts(assignment(3, launcher="ray", strategy="mpi", command="./train"), "a", "a", "10.1.0.2"),
        "/opt/env/bin/python",
    ),
    "mpich-2": (assignment(2, launcher="mpirun", strategy="mpi", algorithm="auto"), "/opt/env/bin/python"),
    "mpich-2-hosts": (
        on_hosts(assignment(3, launcher="mpirun", strategy="mpi", algorithm="own-ring"), "a", "a", "10.1.0.2"),
        "/opt/env/bin/python",
    ),
    "mpirun-2-odd-names": (
        assignment(2, ODD, launcher="mpirun", strategy="mpi", algorithm="auto", model="내.모듈:net"),
        "/opt/my env's/bin/python",
    ),
}


@pytest.mark.parametrize("name", PLANS)
def test_a_plan_is_as_it_was(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    given, python = PLANS[name]
    monkeypatch.setattr(mpirun, "executable", lambda: str(Path(python).with_name("mpirun")))
    monkeypatch.setattr(mpirun, "mpi_of", lambda path: Mpi("MPICH" if name.startswith("mpich") else "Open MPI", "5"))
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    monkeypatch.setattr(sys, "executable", python)
    made = plan(given, BASE, python)
    assert "never shown" not in made.added["DLBENCH_ASSIGNMENT"]
    text = render(made)
    golden = FOLDER / f"{name}.txt"
    if os.environ.get("UPDATE_GOLDEN"):
        golden.write_text(text)
    assert text == golden.read_text()
