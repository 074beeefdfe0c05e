from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from dlbench.analysis.metrics.rates import FIELD, PHASE
from dlbench.analysis.metrics.row import AttemptRecords, run_row, startup_time, workers_agree
from dlbench.analysis.metrics.sensors import training_end
from dlbench.records.columns import names
from dlbench.records.outcome import Outcome, Status
from dlbench.records.result import NodeAccount, Result, Segment
from dlbench.scenario.layout import Layout, Place
from dlbench.scenario.metrics import MetricDeclaration
from dlbench.scenario.run_spec import RunSpec, Target
from dlbench.scenario.settings import Augmentation, BatchPolicy, Precision, Settings
from dlbench.telemetry.journal import Journal, SensorReading
from dlbench.telemetry.messages import STEP_FIELDS

SETTINGS = Settings(workers=2, strategy="mpi", trainer="numpy", batch_size=32, cores_per_worker=1.0, seed=7)
RUN = RunSpec(
    scenario="s", label="workers=2", repeat=3, settings=SETTINGS, options={"model.hidden": [128]},
    target=Target(value=0.9),
)  # fmt: skip
LAYOUT = Layout(
    places=(
        Place(rank=0, workers=(0,), host="a", cores=(0,)),
        Place(rank=1, workers=(1,), host="b", cores=(1,)),
        Place(rank=2, role="server", workers=(), host="b"),
    ),
    intra_op_threads=1,
    inter_op_threads=1,
    emulated=("oversubscribed",),
)
OUTCOME = Outcome(status=Status.COMPLETED, exit_code=0, started_at="2026-01-01T00:00:00+00:00", wall_time_s=20.0)
START = 1767225600.0


def result(**values) -> Result:
    segment = Segment(opened_at_s=0.0, closing_at_s=9.95, closed_at_s=10.0, steps=100, samples=3200, cpu_time_s=5.0,
                      observer_cpu_s=0.01)  # fmt: skip
    defaults = {"steps": 120, "samples_seen": 3840, "segments": (segment,), "bytes_sent": 600, "ready_at": START + 2,
                "first_step_s": 0.1, "train_time_s": 12.0, "evaluation_time_s": 1.0, "agreement": "exact",
                "samples_dropped": 5}  # fmt: skip
    return Result(**(defaults | values))


def steps(data_wait_s: float) -> np.ndarray:
    table = np.zeros((100, len(STEP_FIELDS)))
    values = {"num_steps": 1, "num_samples": 32, "epoch": 1, "phase": PHASE["timed"], "step_time_s": 0.09,
              "data_wait_s": data_wait_s, "started_at_s": np.arange(100) / 10}  # fmt: skip
    for name, value in values.items():
        table[:, FIELD[name]] = value
    return table


def of_script(*results: dict[str, Any], **changes: Any) -> dict[str, Any]:
    """Return the row of a script of the user's own whose workers hand in these results."""
    run = RUN.model_copy(update={"settings": SETTINGS.model_copy(update={"command": "python t.py"}), **changes})
    return row(Journal(results={rank: result(**values) for rank, values in enumerate(results)}), run=run)


def test_scores_that_workers_of_a_script_disagree_about_are_not_the_models() -> None:
    target = Target(metric="validation_accuracy", value=0.6)
    half = {"time_to_target_s": 1.0, "epochs_to_target": 1}
    scores = [{"validation_accuracy": 0.68, "train_loss": 1.0}, {"validation_accuracy": 0.73, "train_loss": 1.001}]
    made = of_script(*({"scores": each} | half for each in scores), target=target)
    assert made["script_note"] == (
        "workers reported different validation_accuracy (0.68 to 0.73): each is to report that of all"
    )
    assert [made[name] for name in ("validation_accuracy", "time_to_target_s", "train_loss")] == [None, None, 1.0]
    one = of_script({"scores": scores[0]} | half, {"scores": {"validation_accuracy": None}}, target=target)
    assert (one["validation_accuracy"], one["time_to_target_s"], one["script_note"]) == (0.68, 1.0, None)
    # Where workers do not wait for each other each has weights of its own.
    assert row(Journal(results={rank: result(scores=each) for rank, each in enumerate(scores)}))["script_note"] is None


@pytest.mark.parametrize(
    ("words", "option"),
    [
        ("--gradient_accumulation_steps 4", "--gradient_accumulation_steps 4"),
        ("--lr 1 --grad-accum-steps=16'", "--grad-accum-steps=16"),
        ("trainer.accumulate_grad_batches=2", "trainer.accumulate_grad_batches=2"),
        ("--update_freq 8", "--update_freq 8"),
        ("optimization.update-freq=8", "optimization.update-freq=8"),
        ("--num_accumulation_steps 4", "--num_accumulation_steps 4"),
        ("-accum_count 12", "-accum_count 12"),
        ("--accumulate 4", "--accumulate 4"),
        ("TRAIN.ACCUMULATION_STEPS 4", "TRAIN.ACCUMULATION_STEPS 4"),
        ("--gradient_accumulation_steps 1", ""),
        ("--grad-accum-dtype float32", ""),
        ("--initial_accumulator_value 2 --accumulate 0 --to runs/accum 4", ""),
        ("--kfac-update-freq 10 --target_update_freq 1000", ""),
        ("--progress-bar-update-freq=50 --accum_freq 0", ""),
    ],
)
def test_batch_sizes_of_a_command_that_accumulates_gradients_are_those_of_one_pass(words: str, option: str) -> None:
    settings = SETTINGS.model_copy(update={"command": f"bash -c 'python t.py {words}'"})
    made = row(Journal(results={}), run=RUN.model_copy(update={"settings": settings}))
    assert (made["script_note"] or "").startswith(f"`{option}`: an update has several passes") == bool(option)


def test_times_that_hold_a_standstill_are_doubted() -> None:
    made = row(Journal(results={rank: result(stood_still_s=seconds) for rank, seconds in enumerate((3.0, 75.0))}))
    assert made["script_note"] == "a worker stood still for 1 min 15 s: stopped or suspended"


def test_a_worker_of_a_script_may_make_no_step() -> None:
    idle = {"steps": 0, "samples_seen": 0, "segments": (), "ready_at": None, "first_step_s": None, "train_time_s": None}
    trained = {"steps": 93, "epochs_completed": 3, "scores": {"train_loss": 1.0}, "weights_hash": "a"}
    places = LAYOUT.places[:2]
    run = RUN.model_copy(update={"settings": SETTINGS.model_copy(update={"command": "python t.py"})})
    results = {0: result(**idle, scores={"validation_accuracy": 0.5}), 1: result(**trained)}
    journal = Journal(steps={1: steps(0.01)}, results=results)
    found = row(journal, layout=LAYOUT.model_copy(update={"places": places}), run=run)
    expected = {
        "steps": 93, "epochs_completed": 3, "batch_size_global": 32, "batch_size_per_worker": 32.0, "timed_steps": 100,
        "samples_per_s": 320.0, "samples_per_s_per_worker": 160.0, "device_utilization": 0.5, "startup_time_s": 2.0,
        "step_time_p50_s": pytest.approx(0.09), "train_loss": 1.0, "validation_accuracy": 0.5,
    }  # fmt: skip
    assert {name: found[name] for name in expected} == expected
    # It may be the one that says when an epoch has ended.
    assert of_script({"steps": 0, "epochs_completed": 3}, {"steps": 93})["epochs_completed"] == 3


def test_scores_are_those_of_the_first_worker_that_knows_them() -> None:
    run = RUN.model_copy(update={"metrics": {"bleu": MetricDeclaration(better="higher", matters=1)}})
    scores = {"validation_accuracy": None, "bleu": 3.0}, {"validation_accuracy": 0.5, "bleu": 4.0, "cost": 7.0}
    journal = Journal(results={rank: result(scores=own) for rank, own in enumerate(scores)})
    made = row(journal, run=run)
    assert (made["validation_accuracy"], made["bleu"], made["train_loss"], made["cost"]) == (0.5, 3.0, None, None)
    assert "bleu" not in row(journal), "it is not declared"


def row(journal: Journal, outcome: Outcome = OUTCOME, layout: Layout | None = LAYOUT, run: RunSpec = RUN) -> dict:
    attempt = AttemptRecords("study", 2, outcome, {"software": {"python": "3.11.7"}}, "sum", None, "doubt")
    return run_row(run, layout, attempt, journal)


def test_what_one_of_two_hosts_sent_is_no_total():
    readings = tuple(SensorReading(0, at_s, "network", "wire_sent_bytes", at_s) for at_s in (0.0, 10.0))
    journal = Journal(steps={0: steps(0.01), 1: steps(0.03)}, facts={0: {"wire_bytes": 10}}, sensors=readings)
    assert row(journal)["wire_bytes"] is None
    one_host = Layout(places=(LAYOUT.places[0],), intra_op_threads=1, inter_op_threads=1)
    assert row(journal, layout=one_host)["wire_bytes"] == 10


def test_hosts_that_are_one_machine_read_one_counter_of_its_cores():
    counters = {"host": ("cpu_time_s", 4.0), "cpu": ("time_s", 1.5)}
    readings = tuple(
        SensorReading(worker, at_s, sensor, quantity, value if at_s else 0.0)
        for worker in (0, 1)
        for sensor, (quantity, value) in counters.items()
        for at_s in (0.0, 10.0)
    )
    journal = Journal(steps={0: steps(0.01), 1: steps(0.03)}, sensors=readings)
    end = max(map(training_end, journal.steps.values()))
    for machines, others_s in (((0, 1), 5.0), ((0, 0), 1.0), ((None, None), 5.0)):
        workers = zip(LAYOUT.places[:2], machines, strict=True)
        places = tuple(place.model_copy(update={"machine": machine}) for place, machine in workers)
        layout = LAYOUT.model_copy(update={"places": places})
        assert row(journal, layout=layout)["other_cpu_cores"] == pytest.approx(others_s / end), machines


def test_a_completed_run_fills_its_row():
    readings = tuple(
        SensorReading(worker, at_s, "network", "sent_bytes", value)
        for worker in (0, 1)
        for at_s, value in [(-0.01, 0.0), (4.0, 250.0), (10.0, 500.0), (14.0, 750.0)]
    )
    journal = Journal(
        steps={0: steps(0.01), 1: steps(0.03)},
        results={
            0: result(),
            1: result(ready_at=START + 3.5, first_step_s=0.4, samples_dropped=5),
            2: Result(steps=0, bytes_sent=300),
        },
        facts={0: {"device_name": "CPU", "keras_version": None}, 1: {"keras_version": "3"}},
        sensors=readings,
    )
    found = row(journal)
    expected = {
        "run_id": RUN.run_id, "attempt": 2, "seed": 10, "batch_size_global": 64, "batch_size_per_worker": 32.0,
        "hosts": 2, "workers_per_host": 1, "processes": 3, "servers": 1, "emulated": "oversubscribed",
        "startup_time_s": 3.5, "first_step_s": 0.4, "samples_seen": 7680, "samples_dropped": 5, "steps": 120,
        "samples_per_s": 640.0, "samples_per_s_per_worker": 320.0, "timed_window_s": 10.0, "timed_steps": 100,
        "timed_samples": 6400,
        "bytes_sent": 1500, "bytes_sent_per_step": 6.25, "device_utilization": 0.5, "data_wait_s": pytest.approx(2.0),
        "workers_agree": "exact", "workers_max_difference": None, "device_name": "CPU", "keras_version": "3",
        "python_version": "3.11.7", "model.hidden": [128], "target_value": 0.9, "dataset_checksum": "sum",
        "dataset_doubt": "doubt",
        "observer_cpu_s": 0.02, "network_bytes": 1000, "sampled_steps": 0, "warmup_steps": 0, "warmup_detected": True,
        "rate_drift": pytest.approx(0.0), "bookkeeping_time_s": pytest.approx(0.95),
        "closing_wait_s": pytest.approx(0.05),
    }  # fmt: skip
    assert {name: found[name] for name in expected} == expected
    assert set(found) == {*names("runs"), "model.hidden"}


def test_bytes_of_a_step_are_those_of_all_gradients_whoever_made_them() -> None:
    """Three simulated workers, one slow: five gradients, which is one step of each and two more."""
    sent = {"host": 0, "messages_sent": 1, "messages_received": 1, "bytes_sent": 40, "bytes_received": 40}
    workers = [NodeAccount(role="worker", steps=number, **sent) for number in (2, 2, 1)]
    nodes = (*workers, NodeAccount(role="server", **sent))
    settings = SETTINGS.model_copy(update={"workers": 3, "communicator": "simulated"})
    run = RUN.model_copy(update={"settings": settings, "options": {"communicator.workers_per_host": 1}})
    layout = LAYOUT.model_copy(update={"places": (Place(rank=0, workers=(0, 1, 2), host="a"),)})
    found = row(Journal(results={0: result(steps=1, bytes_sent=160, nodes=nodes)}), layout=layout, run=run)
    assert (found["steps"], found["bytes_sent_per_step"]) == (1, 32.0)


def test_cores_are_those_that_were_bound():
    halves = tuple(place.model_copy(update={"cores": (0,), "quota": 0.5}) for place in LAYOUT.places[:2])
    journal = Journal(steps={0: steps(0.01), 1: steps(0.03)}, results={0: result(), 1: result()})
    found = row(journal, layout=LAYOUT.model_copy(update={"places": halves}))
    assert (found["cores_per_worker"], found["device_utilization"]) == (0.5, 1.0)
    unbound = tuple(place.model_copy(update={"cores": ()}) for place in LAYOUT.places[:2])
    assert row(journal, layout=LAYOUT.model_copy(update={"places": unbound}))["cores_per_worker"] == 1.0


def test_a_failed_run_keeps_what_is_known_and_no_more():
    outcome = Outcome(status=Status.FAILED, reason="worker 1: ValueError: x", exit_code=1, wall_time_s=3.0)
    found = row(Journal(steps={0: steps(0.01)}, results={0: result()}), outcome)
    assert (found["status"], found["reason"], found["wall_time_s"]) == ("failed", "worker 1: ValueError: x", 3.0)
    unknown = ("samples_per_s", "samples_seen", "data_wait_s", "bytes_sent", "startup_time_s", "workers_agree")
    assert {name: found[name] for name in unknown} == dict.fromkeys(unknown)


def test_a_run_that_went_on_after_its_last_step_keeps_the_changes_of_its_batch():
    run = RUN.model_copy(update={"settings": SETTINGS.model_copy(update={"batch_policy": BatchPolicy.STEP_DOUBLING})})
    two = LAYOUT.model_copy(update={"places": LAYOUT.places[:2]})
    journal = Journal(results={0: result(segments=()), 1: result(segments=())})
    for changes, last in (([], 64), ([SimpleNamespace(batch_size=96)], 96)):
        found = row(replace(journal, batch_changes=changes), layout=two, run=run)
        assert (found["batch_changes"], found["batch_size_last"]) == (len(changes), last)
    found = row(Journal(), Outcome(status=Status.FAILED), layout=two, run=run)
    assert (found["batch_changes"], found["batch_size_last"]) == (None, None)


def test_a_run_that_was_never_laid_out_is_a_row():
    found = row(Journal(), Outcome(status=Status.INTERRUPTED), layout=None)
    assert (found["hosts"], found["wall_time_s"], found["started_at"]) == (None, None, None)


def test_a_users_script_has_no_model_unless_one_is_named():
    settings = SETTINGS.model_copy(update={"command": "python t.py", "model": "", "dataset": "mine", "trainer": ""})
    found = row(Journal(), run=RUN.model_copy(update={"settings": settings}))
    assert (found["model"], found["dataset"], found["trainer"], found["backend"]) == (None, "mine", None, None)
    # A command decides itself.
    assert [found[name] for name in ("remainder", "batch_policy", "learning_rate_per_sample")] == [None] * 3
    assert [row(Journal())[name] for name in ("remainder", "batch_policy")] == ["train", "fixed"]


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({}, (None, None)),
        ({"batch_policy": BatchPolicy.GOODPUT}, (100, None)),
        ({"augmentation": Augmentation.CROP_FLIP}, (None, 4)),
        ({"command": "python t.py"}, (None, 4)),  # the script may pad
    ],
)
def test_a_setting_that_means_nothing_beside_others_is_empty(settings, expected):
    found = row(Journal(), run=RUN.model_copy(update={"settings": SETTINGS.model_copy(update=settings)}))
    assert (found["batch_policy_steps"], found["augmentation_padding"]) == expected


@pytest.mark.parametrize(("rule", "rate"), [("equal", 0.01 / 64), ("staleness", None)])
def test_a_rate_that_staleness_divides_is_not_that_of_every_sample(rule, rate):
    settings = SETTINGS.model_copy(update={"strategy": "softsync", "learning_rate": 0.01})
    run = RUN.model_copy(update={"settings": settings, "options": {"strategy.n": 1, "strategy.rate": rule}})
    assert row(Journal(), run=run).get("learning_rate_per_sample") == (rate and pytest.approx(rate))


@pytest.mark.parametrize(
    ("results", "verdict"),
    [
        ([{"agreement": "exact"}, {"agreement": "close"}], "close"),
        ([{"agreement": "no"}, {"agreement": "close"}], "no"),
        ([{"agreement": "exact"}, {"agreement": "odd"}], "odd"),
        ([{"agreement": None, "weights_hash": "a"}, {"agreement": None, "weights_hash": "a"}], "exact"),
        ([{"agreement": None, "weights_hash": "a"}, {"agreement": None, "weights_hash": "b"}], "no"),
        ([{"agreement": None, "weights_hash": "a"}, {"agreement": None}], None),
        ([{"agreement": None, "steps": 0}, *({"agreement": None, "weights_hash": it} for it in "ab")], "no"),
        ([{"agreement": None, "steps": 0, "weights_hash": it} for it in "ab"], "no"),
        ([{"agreement": None, "weights_hash": "a"}], None),
    ],
)
def test_agreement_is_the_worst(results, verdict):
    assert workers_agree([result(**values) for values in results]) == verdict


def test_startup_is_unknown_where_a_worker_never_was_ready():
    assert startup_time(OUTCOME, [result(), result(ready_at=None)]) is None
    assert startup_time(OUTCOME.model_copy(update={"started_at": ""}), [result()]) is None


@pytest.mark.parametrize(("ahead_s", "startup_s"), [(4.0, 4.0), (-7200.0, None), (7200.0, None)])
def test_startup_is_unknown_where_clocks_make_it_impossible(ahead_s: float, startup_s: float | None) -> None:
    assert startup_time(OUTCOME, [result(ready_at=START + ahead_s)]) == startup_s


def extended_journal(readings: tuple[SensorReading, ...] = (), **facts: object) -> Journal:
    """Return two workers' journal whose last 60 of 100 steps, from 4 s on, only lengthen the window."""
    table = steps(0.0)
    table[40:, FIELD["epoch"]] = 0
    table[:20, FIELD["phase"]] = PHASE["sampled"]
    piece = Segment(opened_at_s=2.0, closed_at_s=10.0, steps=80, samples=2560, extended=True)
    results = {worker: result(segments=(piece,)) for worker in (0, 1)} | {2: Result(steps=0)}
    return Journal(steps={0: table, 1: table}, results=results, facts={0: facts}, sensors=readings)


def test_what_an_extended_window_costs_is_no_cost_of_the_training():
    def energy(*moments: float) -> dict:
        readings = tuple(SensorReading(0, at_s, "rapl", "energy_j", 10.0 * at_s) for at_s in moments)
        return row(extended_journal(readings))

    found = energy(-9.0, -0.1, 0.5, 3.9, 4.5, 12.0)
    assert found["extended_steps"] == 80
    # From the last reading before training to the first one after it, at 4.5 s.
    assert found["energy_j"] == pytest.approx(46.0)
    for lacking in ((0.1, 3.0, 4.5), (-0.1, 3.0, 3.9)):
        assert energy(*lacking)["energy_j"] is None, lacking
    assert row(extended_journal(energy_j=120.0, device_name="x"))["energy_j"] is None


def of_gpus(**readings: dict[float, float]) -> tuple[SensorReading, ...]:
    """Return what both workers read of their GPUs, by quantity and moment."""
    return tuple(
        SensorReading(worker, at_s, "nvml", name, value)
        for worker in (0, 1)
        for name, values in readings.items()
        for at_s, value in values.items()
    )


def test_gpus_are_used_and_held_back_in_a_share_of_the_window():
    shares = of_gpus(
        utilization={-1.0: 0.0, 1.0: 0.1, 3.0: 0.8, 8.0: 0.6, 10.5: 0.0},
        throttled={1.0: 0.0, 3.0: 1.0, 5.0: 1.0, 8.0: 0.0, 9.0: 0.0, 10.5: 1.0},
        throttled_heat={1.0: 1.0, 3.0: 1.0, 5.0: 0.0, 8.0: 0.0, 9.0: 0.0},
    )
    found = row(extended_journal(shares))
    assert (found["device_throttled"], found["device_throttled_heat"]) == (0.5, 0.25)
    assert found["device_utilization"] == pytest.approx(0.7)
    assert found["device_throttled_power_cap"] is None
    assert row(extended_journal())["device_throttled"] is None


def test_readings_that_cannot_be_true_count_nowhere_and_are_named():
    gpus = of_gpus(
        utilization={3.0: 0.8, 8.0: 0.6},
        rejected_utilization={5.0: 2.55},
        energy_j={-0.1: 10.0, 2.0: 30.0},
        rejected_energy_j={3.0: 10.0, 5.0: 20.0, 12.0: 90.0},
    )
    processors = (SensorReading(0, at_s, "rapl", "energy_j", 10.0 * at_s) for at_s in (-0.1, 4.5, 12.0))
    found = row(extended_journal((*gpus, *processors)))
    assert found["device_rejected"] == "energy_j 6 of 10; utilization 2 of 6"
    assert found["device_utilization"] == pytest.approx(0.7)
    assert found["energy_j"] is None, "neither a part of what the GPUs took, nor what the processors took"
    for moved, energy in ((10.0, None), (20.0, 20.0)):
        readings = of_gpus(energy_j={-0.1: 10.0, 5.0: moved, 12.0: moved})
        assert row(extended_journal(readings))["energy_j"] == energy
    beside = SensorReading(9, 1.0, "nvml", "power_w", 300.0)
    assert row(extended_journal((*readings, beside)))["energy_j"] is None, "another one's GPU has no such counter"


def test_what_a_worker_says_of_its_own_gpu_and_memory_is_no_value_of_all() -> None:
    layout = Layout(places=tuple(Place(rank=n, workers=(n,), cores=(n,)) for n in (0, 1)), intra_op_threads=1,
                    inter_op_threads=1)  # fmt: skip
    own = {"energy_j": 20.0, "device_utilization": 0.8, "device_memory_peak_bytes": 5, "host_memory_peak_bytes": 7}
    other = {"energy_j": 30.0, "device_utilization": 0.6, "device_memory_peak_bytes": 6, "host_memory_peak_bytes": 6}

    def found(*facts: dict, readings: tuple[SensorReading, ...] = (), **changes: Any) -> list:
        """Return these columns of a run whose workers say this after it."""
        results = {worker: result(**changes) for worker in (0, 1)}
        tables = {worker: steps(0.0) for worker in results}
        journal = Journal(steps=tables, results=results, facts=dict(enumerate(facts)), sensors=readings)
        made = row(journal, layout=layout)
        return [made[name] for name in own]

    gpus = of_gpus(temperature_c={1.0: 40.0})
    assert found(own, other, readings=gpus) == [None, pytest.approx(0.7), 6, 7]
    assert found(own, other, readings=gpus, segments=()) == [None, pytest.approx(0.7), 6, 7]
    assert found(own, {}, readings=gpus) == [None] * 4
    assert found({"energy_j": 20.0}, {}) == [20.0, 0.5, None, None], "its host's processors"
    # What one worker read inside the window is no mean of both either.
    one = (*gpus, SensorReading(0, 1.0, "nvml", "utilization", 0.8), SensorReading(1, 1.0, "nvml", "energy_j", 3.0))
    assert found(own, {}, readings=one) == [None] * 4


def test_model_flop_utilisation_is_that_of_one_workers_device():
    def mfu(*names: str, facts: dict | None = None, **changes) -> tuple:
        """Return peak and utilisation of workers on these devices, each at 320 samples/s."""
        run = RUN.model_copy(update={"settings": SETTINGS.model_copy(update=changes)})
        journal = Journal(
            steps={0: steps(0.01), 1: steps(0.03)},
            results={0: result(flops_per_sample=1e9), 1: result(flops_per_sample=1e9), 2: Result(steps=0)},
            facts={rank: {"device_name": name} | (facts or {}) for rank, name in enumerate((*names, "CPU"))},
        )
        found = row(journal, run=run)
        return found["peak_flops"], found["mfu"]

    h100, a100 = "NVIDIA H100 80GB HBM3", "NVIDIA A100-SXM4-80GB"
    assert mfu(h100, h100, precision=Precision.MIXED_BFLOAT16) == (989.4e12, pytest.approx(320e9 / 989.4e12))
    assert mfu(h100, h100, facts={"tf32": True}) == (494.7e12, pytest.approx(320e9 / 494.7e12))
    assert mfu(h100, h100, facts={"tf32": False})[0] == 66.9e12
    for devices in ((h100, h100), (h100, a100), ("CPU", "CPU"), (f"{h100} and {a100}",) * 2):
        assert mfu(*devices) == (None, None), devices
