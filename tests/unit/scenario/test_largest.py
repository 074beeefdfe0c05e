import pytest

from dlbench.scenario.largest import open_runs, recipe, with_sizes
from dlbench.scenario.run_spec import BatchOrigin


def by_label(found):
    return {run.label: run for run in found}


def test_max_is_open_with_the_smallest_batch_until_it_is_found(runs):
    (run,) = runs("base: {batch_size: max, gradient_accumulation_steps: 4, trainer: keras_tensorflow}")
    assert run.batch_size_origin is BatchOrigin.OPEN
    assert run.settings.batch_size == 4
    (found,) = with_sizes([run], {recipe(run): 96})
    assert (found.settings.batch_size, found.batch_size_origin) == (96, BatchOrigin.FOUND)
    assert found.run_id != run.run_id


def test_an_axis_holds_numbers_and_max(runs):
    found = by_label(runs("matrix: {batch_size: [32, max]}"))
    assert list(found) != []
    assert found["batch_size=32"].batch_size_origin is BatchOrigin.GIVEN
    assert found["batch_size=max"].axes == {"batch_size": "max"}


def test_the_number_that_is_found_may_be_one_that_is_given(runs):
    given, found = with_sizes(
        runs("matrix: {batch_size: [32, max]}\norder: written"), {recipe(runs("matrix: {batch_size: [32]}")[0]): 32}
    )
    assert given.settings == found.settings
    assert given.run_id != found.run_id
    assert (given.batch_size_origin, found.batch_size_origin) == (BatchOrigin.GIVEN, BatchOrigin.FOUND)


def test_a_global_batch_is_that_of_all_workers(runs):
    found = runs("base: {batch_size: max, batch_scope: global, strategy: mpi, workers: 4}\nbaseline: none")
    assert found[0].global_batch_size == 4
    (settled,) = with_sizes(found, {recipe(found[0]): 24})
    assert (settled.settings.batch_size, settled.local_batch_size(3)) == (96, 24)


def test_arms_of_a_model_share_one_number_and_the_base_line_too(runs):
    found = runs(
        "base: {batch_size: max, strategy: mpi, cores_per_worker: 1}\nmatrix: {workers: [1, 2, 4], epochs: [1, 2]}"
    )
    assert any(run.baseline for run in found)
    assert len(open_runs(found)) == 1


@pytest.mark.parametrize(
    "axis",
    ["model.hidden: [[8], [9]]", "precision: [float32, float64]", "optimizer: [sgd, adam]", "train_samples: [50, 60]",
     "memory_limit_bytes: [2000000, 3000000]", "momentum: [0, 0.9]", "evaluation_batch_size: [8, 9]"],
)  # fmt: skip
def test_what_memory_depends_on_makes_another_number(runs, axis):
    assert len(open_runs(runs(f"base: {{batch_size: max}}\nmatrix: {{{axis}}}"))) == 2


def test_exclude_and_only_know_max(runs):
    text = "base: {strategy: mpi}\nmatrix: {batch_size: [1, max], workers: [1, 2]}\nbaseline: none\n"
    left = runs(text + "exclude: [{batch_size: max, workers: 2}]")
    assert sorted(run.label for run in left) == [
        "batch_size=1 workers=1", "batch_size=1 workers=2", "batch_size=max workers=1",
    ]  # fmt: skip
    assert [run.batch_size_origin for run in runs(text + "exclude: [{batch_size: 1}]")] == [BatchOrigin.OPEN] * 2
    only = runs(text, only={"batch_size": "max"})
    assert {run.batch_size_origin for run in only} == {BatchOrigin.OPEN}
    assert len(runs(text, only={"batch_size": "1"})) == 2


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("base: {batch_size: maximum}", "must be a whole number, or `max`"),
        ("base: {batch_size: true}", "needs a number"),
        ("base: {batch_size: 0}", "greater than or equal to 1"),
        ("base: {workers: max}", "workers must be"),
        ("base: {batch_size: max, command: python x.py}", "not with a command"),
    ],
)
def test_what_is_no_batch_is_refused(refusal, text, message):
    assert message in refusal(text)


def test_max_is_not_looked_for_on_other_hosts(refusal):
    from dlbench.scenario.cluster import Cluster, Host

    away = Cluster(hosts=(Host(address="node1", slots=4), Host(address="node2", slots=4)))
    assert "on this machine only" in refusal("base: {batch_size: max, strategy: mpi, workers: 8}", away)


def test_a_given_batch_keeps_the_name_it_had(runs):
    (run,) = runs("base: {batch_size: 32}")
    content = run.model_dump(exclude={"batch_size_origin"})
    assert type(run).model_validate(content).run_id == run.run_id
    assert run.model_copy(update={"batch_size_origin": BatchOrigin.FOUND}).fingerprint != run.fingerprint
