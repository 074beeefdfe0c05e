"""Whole simulated runs on a small problem: equal to one worker where they must be, and what science says where not."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from dlbench.scenario.run_spec import Target
from dlbench.worker.simulate.world import StuckError
from dlbench.worker.train.agreement import Diverged
from dlbench.worker.train.schedule import Ticket
from tests.simulations import NUM_TRAIN, simulation, trained

SERVERS = (
    "parameter_server", "backup_workers", "asynchronous", "softsync", "stale_synchronous", "downpour", "sandblaster",
)  # fmt: skip
SHARDED = (*sorted({*SERVERS} - {"backup_workers"}), "elastic_averaging")
ALL = (*SERVERS, "elastic_averaging", "local_sgd", "gossip", "ring")


def close(first: np.ndarray, second: np.ndarray) -> None:
    np.testing.assert_allclose(first, second, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("optimizer", [{"optimizer": "sgd", "momentum": 0.9}, {"optimizer": "adam"}])
@pytest.mark.parametrize("strategy", ["parameter_server", "ring", "tests.coordinated:Coordinated"])
def test_workers_equal_one_on_the_joined_batch(strategy: str, optimizer: dict[str, Any]) -> None:
    """Also where the batch does not divide, and an epoch ends with a remainder."""
    one = trained("single", 1, batch_size=14, **optimizer)[1]
    for workers in (2, 3, 5):
        result, parameters, _ = trained(strategy, workers, batch_size=14, batch_scope="global", **optimizer)
        close(parameters, one)
        assert result.agreement == "exact"
        assert result.samples_seen == 3 * NUM_TRAIN


def test_without_the_reduction_they_do_not() -> None:
    one = trained("single", 1, batch_size=14)[1]
    broken = simulation("ring", 2, batch_size=14, batch_scope="global")
    for worker in broken.simulated.workers:
        worker._ring.start = lambda values, worker=worker: worker._ring._done(2 * values)  # type: ignore[attr-defined]
    with pytest.raises(Diverged, match="disagree"):
        broken.train()
    assert not np.allclose(broken.parameters(), one, atol=1e-6)


def test_simulated_workers_that_differ_by_rounding_disagree() -> None:
    made = simulation("ring", 2, batch_size=14, batch_scope="global")
    first, begin = made.simulated.workers[0], made.simulated.workers[0].begin
    first.begin = lambda: begin() * (1 + 1e-15)  # type: ignore[method-assign]
    with pytest.raises(Diverged, match="disagree"):
        made.train()


# The centre of elastic averaging follows the worker, and is what is evaluated.
@pytest.mark.parametrize("strategy", sorted({"single", *ALL} - {"elastic_averaging", "sandblaster"}))
def test_one_worker_is_plain_sgd_under_every_strategy(strategy: str) -> None:
    options = {"strategy__adagrad": False} if strategy == "downpour" else {}
    options |= {"strategy__backups": 0} if strategy == "backup_workers" else {}
    close(trained(strategy, 1, **options)[1], trained("single", 1)[1])


@pytest.mark.parametrize("strategy", ALL)
def test_a_run_is_the_same_each_time_and_another_with_another_seed(strategy: str) -> None:
    first, second, other = (trained(strategy, 4, seed=seed) for seed in (0, 0, 1))
    assert first[0].model_copy(update={"ready_at": None}) == second[0].model_copy(update={"ready_at": None})
    assert np.array_equal(first[1], second[1])
    assert first[0].train_time_s != other[0].train_time_s


@pytest.mark.parametrize("strategy", ALL)
def test_every_sample_is_trained_on_once_an_epoch_and_every_epoch_has_its_row(strategy: str) -> None:
    result, parameters, found = trained(strategy, 3, **({"servers": 2} if strategy in SHARDED else {}))
    # The last gradients that are dropped are nobody's any more.
    assert 0 <= 3 * NUM_TRAIN - result.samples_seen <= (12 if strategy == "backup_workers" else 0)
    rows = found.reporter.rows  # type: ignore[attr-defined]
    assert [row["epoch"] for row in rows] == [1, 2, 3] == list(range(1, result.epochs_completed + 1))
    # A gradient that is dropped was computed, too; a second copy may have come after its epoch's row.
    dropped = 6 * (result.gradients_dropped or 0)
    missing = result.samples_seen + dropped - sum(row["samples"] for row in rows)
    assert 0 <= missing <= (dropped if strategy == "sandblaster" else 0)
    assert rows[-1]["validation_accuracy"] == result.scores["validation_accuracy"] > 0.7
    times = [row["train_time_s"] for row in rows]
    assert times == sorted(times)
    assert found._evaluate(parameters).means["loss"] == result.scores["validation_loss"]
    assert times[-1] <= (result.train_time_s or 0)


@pytest.mark.parametrize("strategy", ["asynchronous", "downpour", "softsync", "stale_synchronous"])
def test_a_row_has_the_training_scores_of_its_own_epochs_samples(strategy: str) -> None:
    """Also of gradients that were under way when servers had had as many samples."""
    found, losses = simulation(strategy, 5, batch_size=7, communicator__slow_workers=1), dict[int, list[Any]]()
    gradient = found.gradient

    def spied(ticket: Ticket, parameters: np.ndarray) -> tuple[np.ndarray, float | None]:
        values, loss = gradient(ticket, parameters)
        losses.setdefault(min(3, ticket.epoch), []).append((loss or 0.0, len(ticket.share.indices)))
        return values, loss

    found.gradient = spied  # type: ignore[method-assign]
    found.train()
    for row in found.reporter.rows:  # type: ignore[attr-defined]
        of_epoch, samples = zip(*losses[row["epoch"]], strict=True)
        assert row["samples"] == sum(samples)
        assert row["train_loss"] == pytest.approx(np.average(of_epoch, weights=samples))


@pytest.mark.parametrize("workers", [4, 9])
def test_samples_that_are_handed_out_again_count_in_the_epoch_that_they_complete(workers: int) -> None:
    found = simulation("backup_workers", workers, epochs=10)
    found.train()
    samples = [row["samples"] for row in found.reporter.rows]  # type: ignore[attr-defined]
    # One of so many gradients was dropped; of the run's last steps hardly more.
    assert max(samples) <= 1.6 * NUM_TRAIN
    assert samples == pytest.approx([np.mean(samples)] * 10, rel=0.15)


def test_rows_of_epochs_that_were_over_stay_where_others_wait_for_ever() -> None:
    options = {"strategy__bound": 30, "communicator__failed_worker": 2, "communicator__failed_at_s": 0.1}
    found = simulation("stale_synchronous", 4, epochs=12, **options)
    with pytest.raises(StuckError):
        found.train()
    assert len(found.reporter.rows) == 2  # type: ignore[attr-defined]


@pytest.mark.parametrize("strategy", SHARDED)
def test_an_epoch_is_over_when_each_server_has_had_its_samples(strategy: str) -> None:
    """And not when workers that train on their own have made their steps."""
    found, had = simulation(strategy, 3, servers=2), list[int]()
    ends = found._end_epoch

    def spied(held: dict[int, np.ndarray]) -> None:
        had.append(min(server.samples for server in found.simulated.servers))
        ends(held)

    found._end_epoch = spied  # type: ignore[assignment, method-assign]
    found.train()
    assert [samples // NUM_TRAIN for samples in had] == [1, 2, 3]


CONSTANT = {"communicator__compute_times": "constant", "communicator__compute_time_s": 1.0}


def test_a_synchronous_step_takes_what_the_links_and_the_slowest_worker_say() -> None:
    """One worker and one server: compute, push, apply, parameters back; by hand."""
    options = CONSTANT | {
        "communicator__latency_s": 0.25,
        "communicator__bandwidth_bytes_per_s": 1000.0,
        "communicator__server_bytes_per_s": 2000.0,
    }
    result, parameters, _ = trained("parameter_server", 1, epochs=1, **options)
    num_bytes = parameters.nbytes
    step = 1.0 + 2 * (0.25 + (num_bytes + 40) / 1000) + num_bytes / 2000
    answer = 0.25 + (num_bytes + 40) / 1000
    # Training ends with the last update.
    assert result.train_time_s == pytest.approx(40 * step - answer)
    assert result.messages == 2 * 40 + 1
    assert result.bytes_sent == 2 * 40 * (num_bytes + 40) + 40


def test_a_ring_step_takes_two_p_minus_one_turns() -> None:
    options = CONSTANT | {"communicator__latency_s": 0.25, "communicator__bandwidth_bytes_per_s": 1e15}
    result, _, _ = trained("ring", 4, epochs=1, **options)
    assert result.train_time_s == pytest.approx(10 * (1.0 + 6 * 0.25), rel=1e-6)


def test_without_servers_an_epoch_is_over_when_all_workers_have_gone_on() -> None:
    """With their averages, which take time; who is slow, or dead, changes no score of the others."""
    ring, averaged = (
        trained(strategy, 4, communicator__latency_s=1.0, **CONSTANT, **period)[2].reporter.rows  # type: ignore[attr-defined]
        for strategy, period in (("ring", {}), ("local_sgd", {"strategy__period": 1}))
    )
    assert [row["train_time_s"] for row in averaged] == pytest.approx([row["train_time_s"] for row in ring])
    decay = {"learning_rate_decay": "step", "learning_rate_decay_epochs": 1, "learning_rate_decay_factor": 0.1}
    for period in (1, 7):
        alike = [
            trained("local_sgd", 3, communicator__slow_workers=slow, strategy__period=period, **decay)[2].reporter.rows  # type: ignore[attr-defined]
            for slow in (0, 1)
        ]
        for name in ("train_loss", "validation_loss", "learning_rate", "samples", "steps"):
            assert [row[name] for row in alike[0]] == pytest.approx([row[name] for row in alike[1]]), name
        assert [row["learning_rate"] for row in alike[0]] == pytest.approx([0.1, 0.01, 0.001])
        assert [row["samples"] for row in alike[0]] == [NUM_TRAIN] * 3
    gone = {"communicator__failed_worker": 2, "communicator__failed_at_s": 0.0}
    result, _, found = trained("gossip", 4, epochs=6, **gone)
    alive = [worker.parameters for rank, worker in enumerate(found.simulated.workers) if rank != 2]
    assert found._evaluate(np.mean(alive, 0)).means["loss"] == pytest.approx(result.scores["validation_loss"])


def test_samples_per_s_are_those_of_the_window() -> None:
    """Four workers of six samples a second each, and free links."""
    free = {"communicator__latency_s": 0.0, "communicator__bandwidth_bytes_per_s": 1e15}
    for strategy in ("asynchronous", "parameter_server", "ring", "gossip"):
        segment = trained(strategy, 4, epochs=10, **CONSTANT, **free)[0].segments[0]
        rate = segment.samples / (segment.closed_at_s - segment.opened_at_s)
        assert segment.simulated
        assert rate == pytest.approx(24.0, rel=0.01), strategy


@pytest.mark.parametrize("chance", [{}, CONSTANT])
def test_the_window_of_workers_that_each_apply_a_step_has_whole_steps(chance: dict[str, Any]) -> None:
    """They do so at moments that differ, of constant times by rounding alone."""
    options = chance | {"communicator__latency_s": 0.001, "communicator__bandwidth_bytes_per_s": 1e6}
    (segment,) = trained("ring", 5, batch_size=2, **options)[0].segments
    # All but the first step and the last.
    assert segment.samples == 3 * NUM_TRAIN - 2 * 10


@pytest.mark.parametrize("workers", [2, 4, 8])
def test_the_mean_staleness_of_asynchronous_gradients_is_p_minus_one(workers: int) -> None:
    result = trained("asynchronous", workers, epochs=20)[0]
    gradients = sum(number for _, number in result.staleness)
    mean = sum(stale * number for stale, number in result.staleness) / gradients
    assert gradients == 20 * NUM_TRAIN / 6 == result.updates
    # The first P gradients are fresher: they find 0, 1, ..., P - 1 updates.
    assert mean == pytest.approx(workers - 1 - workers * (workers - 1) / 2 / gradients, rel=0.01)


def rate_of(strategy: str, workers: int = 8, **chosen: Any) -> float:
    """Return updates' samples per simulated second."""
    result = trained(strategy, workers, **chosen)[0]
    return result.samples_seen / (result.train_time_s or 1)


def test_a_permanent_straggler_holds_up_who_waits_and_nobody_else() -> None:
    slow = {"communicator__slow_workers": 1, "communicator__slow_factor": 5.0, "epochs": 6}
    ratio: Callable[..., float] = lambda strategy, **more: (  # noqa: E731
        rate_of(strategy, **slow, **more) / rate_of(strategy, epochs=6, **more)
    )
    assert ratio("asynchronous") > 0.8
    assert ratio("backup_workers", strategy__backups=1) > 0.8
    assert ratio("parameter_server") < 0.3
    assert ratio("stale_synchronous", strategy__bound=3) < 0.3


def test_a_stale_bound_absorbs_hiccups_that_a_synchronous_server_waits_for() -> None:
    options = {"communicator__hiccup_probability": 0.05, "communicator__hiccup_factor": 6.0, "epochs": 20}
    waits, absorbs = (rate_of("stale_synchronous", strategy__bound=bound, **options) for bound in (0, 4))
    assert absorbs > 1.25 * waits


def test_one_shard_saturates_and_several_do_not() -> None:
    narrow = {"communicator__bandwidth_bytes_per_s": 2e4, "epochs": 6}
    one, four = (rate_of("asynchronous", servers=servers, **narrow) for servers in (1, 4))
    assert four > 2 * one


def test_a_failed_worker_ends_what_waits_for_it_and_says_so() -> None:
    gone = {"communicator__failed_worker": 1, "communicator__failed_at_s": 0.3}
    for strategy in ("parameter_server", "ring", "stale_synchronous", "local_sgd"):
        with pytest.raises(StuckError, match=r"worker 1 ended at 0.3 s, and workers? .* wait for messages"):
            trained(strategy, 3, **gone)
    for strategy in ("local_sgd", "asynchronous"):
        with pytest.raises(StuckError, match="every worker has failed"):
            trained(strategy, 1, communicator__failed_worker=0, communicator__failed_at_s=0.3)
    with pytest.raises(StuckError, match="worker 1 ended"):  # before the others end
        trained("gossip", 4, communicator__failed_worker=1, communicator__failed_at_s=0.2, epochs=6)
    for strategy in ("asynchronous", "softsync", "backup_workers", "downpour", "elastic_averaging", "sandblaster"):
        result = trained(strategy, 3, **gone)[0]
        assert result.samples_seen <= 3 * NUM_TRAIN
        assert result.epochs_completed == 3


def test_a_failed_server_ends_every_strategy_that_has_one() -> None:
    for strategy in (*SERVERS, "elastic_averaging"):
        with pytest.raises(StuckError, match=r"server 0 ended at 0.3 s, and workers 0, 1, 2 wait"):
            trained(strategy, 3, communicator__failed_server=0, communicator__failed_at_s=0.3)


def test_a_target_ends_the_run_at_the_epoch_that_reaches_it() -> None:
    target = Target(metric="validation_accuracy", value=0.5, stop=True)
    for strategy in ALL:
        result = trained(strategy, 2, target=target, epochs=10)[0]
        assert result.epochs_to_target == result.epochs_completed < 10
        assert result.time_to_target_s == result.train_time_s


def test_a_loss_that_is_no_number_ends_the_run_as_diverged() -> None:
    found = simulation("asynchronous", 4)
    gradient = found.trainer.gradient
    found.trainer.gradient = lambda x, y, scale: (gradient(x, y, scale)[0], {"loss": float("nan")})  # type: ignore[method-assign]
    with pytest.raises(Diverged, match="the loss is nan in step"):
        found.train()


def test_rates_scale_with_the_samples_of_one_update() -> None:
    scaled: dict[str, Any] = {"learning_rate_scale": "linear", "learning_rate_base_batch": 6}
    expected = {"asynchronous": 0.1, "parameter_server": 0.4, "backup_workers": 0.3, "softsync": 0.4, "ring": 0.4}
    for strategy, rate in expected.items():
        assert trained(strategy, 4, **scaled)[0].learning_rate == pytest.approx(rate), strategy
    # That of the joined batch, also where it does not divide.
    scaled |= {"batch_scope": "global", "batch_size": 64, "learning_rate_base_batch": 16}
    assert trained("ring", 10, **scaled)[0].learning_rate == 0.4


def test_samples_of_dropped_gradients_are_handed_out_again() -> None:
    result = trained("backup_workers", 4, strategy__backups=2, epochs=6)[0]
    assert (result.gradients_dropped or 0) > 50
    assert result.samples_seen > 0.98 * 6 * NUM_TRAIN


def test_the_rate_goes_by_the_gradients_that_are_not_dropped() -> None:
    found = simulation("backup_workers", 2, epochs=6, learning_rate_decay="cosine")
    server, rate, rates = found.simulated.servers[0], found.world.rate, list[tuple[float, float]]()
    update = server.update  # type: ignore[attr-defined]

    def spied(gradient: np.ndarray, used: float, staleness: list[int], samples: int) -> None:
        update(gradient, used, staleness, samples)
        rates.append((used, rate(server.samples // 6)))

    server.update = spied  # type: ignore[attr-defined]
    assert (found.train().gradients_dropped or 0) > 200
    for used, expected in rates:  # but for the one that is under way and will be dropped
        assert used == pytest.approx(expected, abs=0.001)


def test_workers_that_failed_at_the_very_end_change_nothing_and_are_not_compared() -> None:
    sound = trained("parameter_server", 3)[0]
    for after_s in (1e-6, 1000):
        gone = {"communicator__failed_worker": 1, "communicator__failed_at_s": (sound.train_time_s or 0) + after_s}
        result = trained("parameter_server", 3, **gone)[0]
        assert (result.agreement, result.train_time_s) == ("exact", sound.train_time_s)


def test_a_target_that_an_update_of_two_epochs_reaches_ends_the_run_with_one_row() -> None:
    target = Target(metric="validation_accuracy", value=0.5, stop=True)
    result, _, found = trained("backup_workers", 4, target=target, epochs=10, batch_size=7)
    rows = found.reporter.rows  # type: ignore[attr-defined]
    assert [row["epoch"] for row in rows] == list(range(1, result.epochs_completed + 1))
    assert result.epochs_to_target == result.epochs_completed


def test_epochs_that_one_update_covers_have_a_row_each_and_the_evaluations_that_are_due() -> None:
    _, _, found = trained("softsync", 64, batch_size=8, epochs=6, evaluate_every=2)
    rows = found.reporter.rows  # type: ignore[attr-defined]
    assert [row["epoch"] for row in rows] == [1, 2, 3, 4, 5, 6]
    assert [row["epoch"] for row in rows if "validation_loss" in row] == [2, 4, 6]
    assert len({row["train_time_s"] for row in rows}) < 6


def test_a_gradient_that_is_dropped_at_the_end_adds_no_training_time() -> None:
    slow = {"communicator__slow_workers": 1, "communicator__slow_factor": 100.0}
    result, _, found = trained("backup_workers", 4, **slow)
    assert (result.train_time_s or 0) < 0.8 * found.simulated.now


def test_larger_batches_take_longer_where_samples_cost_time() -> None:
    options = {"communicator__compute_time_s": 0.01, "communicator__compute_time_per_sample_s": 0.01}
    alone, four = (trained("ring", n, batch_scope="global", batch_size=12, **options)[0].train_time_s for n in (1, 4))
    assert 2.2 < (alone or 0) / (four or 1) < 3.5


def test_steps_of_a_row_are_those_of_its_epochs_whoever_is_ahead() -> None:
    found = simulation("local_sgd", 4, communicator__slow_workers=1, strategy__period=7)
    found.train()
    assert [row["steps"] for row in found.reporter.rows] == [10, 20, 30]  # type: ignore[attr-defined]
