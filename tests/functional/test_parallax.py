"""Embeddings on servers beside the workers, over MPI with Keras: the weights of `mpi`, from a checkpoint on as well."""

from pathlib import Path

import pytest

from dlbench.strategies.parallax import Route
from tests.functional.mpi_programs.launch import QUICK_XLA, mpirun
from tests.functional.studies import Bench

SCENARIO = """
base: {strategy: parallax, workers: 2, cores_per_worker: 1, backend: jax, epochs: 2, batch_size: 16, learning_rate: 0.5,
       model: feed_forward_lm, dataset: synthetic, dataset.vocabulary: 50, dataset.shape: [6], dataset.num_classes: 3,
       dataset.num_samples: 256, dataset.num_validation: 32}
baseline: none
"""
pytestmark = [pytest.mark.mpi, pytest.mark.slow, pytest.mark.timeout(300)]


@pytest.mark.parametrize(
    ("trainer", "workers"),
    [
        ("keras_tensorflow", 3),
        ("keras_tensorflow", 2),
        ("keras_torch", 3),
        ("keras_jax", 3),
    ],
)
@pytest.mark.soak  # unit tests hold every route to the weights of an all-reduce, from a checkpoint on as well
@pytest.mark.tensorflow
def test_every_route_trains_as_mpi_does_and_resumes_to_the_bit(tmp_path: Path, trainer: str, workers: int) -> None:
    ended = mpirun(tmp_path, workers, "parallax", trainer, workers, timeout_s=240)
    assert ended.code == 0, ended.output
    assert all(of_rank["mpi"]["moved"] > 0.1 for of_rank in ended.results)
    for route in Route:
        seen = [of_rank[route.value] for of_rank in ended.results]
        assert len({one["hash"] for one in seen}) == 1, route
        assert all(one["resumed"] == one["hash"] for one in seen), route
        assert max(one["difference"] for one in seen) < 1e-6, route
    facts = {route: ended.results[0][route.value]["routes"] for route in Route}
    sparse = Route.SERVER if workers > 2 else Route.GATHER
    assert facts[Route.AUTO] == facts[sparse]
    assert facts[Route.AUTO].startswith(f"embedding: {sparse} (touched 0.")
    sent = {route: sum(of_rank[route.value]["bytes_sent"] for of_rank in ended.results) for route in Route}
    assert sent[Route.DENSE] == sum(of_rank["mpi"]["bytes_sent"] for of_rank in ended.results)
    assert sent[Route.AUTO] == sent[sparse] < sent[Route.DENSE]


def test_a_run_has_the_routes_in_its_row(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in QUICK_XLA.items():
        monkeypatch.setenv(name, value)
    with Bench(tmp_path) as work:
        (tmp_path / "s.yaml").write_text(SCENARIO)
        work.call("s.yaml")
        (row,) = work.rows()
    assert (row["status"], row["workers_agree"], row["collectives"]) == ("completed", "exact", "mpi"), row["reason"]
    assert row["routes"].startswith("embedding: gather (touched 0.")
