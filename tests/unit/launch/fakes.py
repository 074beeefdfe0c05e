"""Assignments and views of workers, as short as they can be."""

from typing import Any

from dlbench.records.assignment import Assignment, Endpoint
from dlbench.scenario.cluster import Cluster, Host
from dlbench.scenario.layout import Layout, Place
from dlbench.scenario.run_spec import RunSpec
from dlbench.scenario.settings import Settings
from dlbench.telemetry.attempt_session import WorkerView
from dlbench.telemetry.failure import WorkerError

TOKEN = "s3cret-token"
FAR = Cluster(hosts=(Host(address="a", slots=1), Host(address="b", slots=1)))


def assignment(
    workers: int = 1, options: dict[str, Any] | None = None, folder: str = "", **settings: Any
) -> Assignment:
    return Assignment(
        run=RunSpec(
            scenario="s",
            label="l",
            repeat=0,
            settings=Settings(workers=workers, **{"launcher": "local", **settings}),
            options=options or {},
        ),
        attempt=1,
        attempt_id="a1",
        layout=Layout(
            places=tuple(Place(rank=r, workers=(r,), local_index=r, cores=(r,)) for r in range(workers)),
            intra_op_threads=1,
            inter_op_threads=1,
        ),
        endpoint=Endpoint(address="127.0.0.1", port=4000, token=TOKEN),
        log_folder=folder,
    )


def layout(*hosts: str, **parts: Any) -> Layout:
    """Return a process on each of these hosts."""
    places = tuple(Place(rank=rank, workers=(rank,), host=host) for rank, host in enumerate(hosts))
    return Layout(places=places, intra_op_threads=1, inter_op_threads=1, **parts)


def view(rank: int, **changes: Any) -> WorkerView:
    """Return a worker that trains: connected, in `compute` at step 5."""
    usual: dict[str, Any] = {
        "pid": 100 + rank,
        "is_connected": True,
        "has_trained": True,
        "phase": "compute",
        "step": 5,
    }
    return WorkerView(rank, **{**usual, "beat_at": 0.0, "progressed_at": 0.0, **changes})


def well_ended(rank: int, **result: Any) -> WorkerView:
    return view(rank, is_connected=False, closed_at=9.0, has_left=True, result={"agreement": "exact", **result})


def error(worker: int, text: str, at: float = 1.0, **changes: Any) -> WorkerError:
    return WorkerError(worker=worker, error=text, at=at, **changes)


def views(*seen: WorkerView) -> dict[int, WorkerView]:
    return {one.rank: one for one in seen}
