"""What every trainer must do with every model: each check takes a trainer in float64 without dropout."""

from typing import Any

import numpy as np
import pytest

from dlbench import plugins
from dlbench.errors import UserError
from dlbench.scenario.settings import Settings
from dlbench.trainers import Array, Problem, Threads, Trainer, added
from dlbench.worker.train.augmentation import CropFlip, draw

# TensorFlow's threads can be chosen once in a process.
THREADS = Threads(1, 1)
CLASSES = 10
# Keras traces anew for each size of a batch and each scale: where neither matters, all checks have this one.
SCALE = 0.1
Batch = tuple[Array, Array]


def problem(*shape: int) -> Problem:
    """Return images stored as 0 to 255 that enter the network as -1 to 1."""
    return Problem(shape, CLASSES, 2 / 255, -1.0)


def regression(*shape: int) -> Problem:
    """Return the same images, of each of which a number is to be predicted."""
    return Problem(shape, 0, 2 / 255, -1.0)


def check_a_regression_sums_squared_errors(trainer: Trainer, given: Batch) -> None:
    """With weights of zero every prediction is zero: the sum of the squares is left, and the last bias's gradient."""
    x, y = given
    trainer.set_parameters(np.zeros(trainer.num_parameters))
    expected = {"loss": (y**2).sum(), "mean_squared_error": (y**2).sum()}
    assert trainer.evaluate(x, y) == pytest.approx(expected, rel=1e-12)
    flat, sums = trainer.gradient(x, y, 0.5)
    assert sums == pytest.approx(expected, rel=1e-12)
    assert flat[-1] == pytest.approx(-0.5 * 2 * y.sum(), rel=1e-12)


def create(trainer: str, model: str, what: Problem, options: dict[str, object] | None = None, **settings: object):
    """Return a trainer as a worker creates it; `precision` is float64 and `seed` 7 unless given."""
    plugin, engine = plugins.load("models", model), plugins.load("trainers", trainer)
    given = {"model": model, "trainer": trainer, "precision": "float64", "seed": 7} | settings
    made = Settings.model_validate(given)
    return engine.get("create")(
        made, plugin, plugin.options(**(options or {})), engine.options(), what, made.seed, THREADS
    )


def batch(what: Problem, num_samples: int = 12, seed: int = 3) -> Batch:
    """Return a batch of images or tokens and classes that a network can tell apart only by learning."""
    random = np.random.default_rng(seed)
    x = random.integers(0, what.vocabulary or 256, (num_samples, *what.input_shape)).astype(np.uint8)
    if not what.num_classes:
        return x, random.normal(size=num_samples)
    return x, random.integers(0, what.num_classes, (num_samples, *what.target_shape)).astype(np.int32)


def gradient(trainer: Trainer, x: Array, y: Array, scale: float) -> Array:
    """Return a copy of the gradient."""
    return trainer.gradient(x, y, scale)[0].copy()


def check_gradient_is_a_fair_buffer(trainer: Trainer, given: Batch) -> None:
    flat, sums = trainer.gradient(*given, SCALE)
    assert flat.shape == (trainer.num_parameters,)
    assert flat.dtype == trainer.parameters().dtype == np.float64
    assert flat.flags.c_contiguous
    assert flat.flags.writeable
    assert np.isfinite(flat).all()
    assert np.abs(flat).max() > 0
    assert tuple(sums) == trainer.scores
    assert isinstance(sums["loss"], float)
    correct = sums.get("accuracy", 0)
    assert isinstance(correct, int) or given[1].ndim > 1  # of positions, a share may be correct
    assert 0 <= correct <= len(given[1])


def check_gradient_is_that_of_the_loss(trainer: Trainer, given: Batch, num_coordinates: int = 8) -> None:
    """Compare with central differences where the gradient is large, and at a few places drawn at random."""
    scale, step = 0.3, 1e-6
    weights, flat = trainer.parameters(), gradient(trainer, *given, scale)
    random = np.random.default_rng(0).choice(flat.size, num_coordinates, replace=False)
    for place in (*np.argsort(-np.abs(flat))[:num_coordinates], *random):
        losses = []
        for sign in (1, -1):
            moved = weights.copy()
            moved[place] += sign * step
            trainer.set_parameters(moved)
            losses.append(trainer.gradient(*given, scale)[1]["loss"])
        slope = scale * (losses[0] - losses[1]) / (2 * step)
        assert abs(slope - flat[place]) <= 1e-6 * max(1.0, abs(flat[place])), place
    trainer.set_parameters(weights)


def check_shards_sum_to_the_whole(trainer: Trainer, given: Batch) -> None:
    """Two shards of unequal sizes, each scaled as the whole."""
    x, y = given
    whole = gradient(trainer, x, y, SCALE)
    parts = [gradient(trainer, x[i], y[i], SCALE) for i in np.split(np.arange(len(y)), [5])]
    largest = np.abs(whole).max()
    assert np.abs(sum(parts) - whole).max() <= 1e-12 * largest
    unweighted = [part * len(y) / n / 2 for part, n in zip(parts, (5, len(y) - 5), strict=True)]
    assert np.abs(sum(unweighted) - whole).max() > 1e-6 * largest  # a mean of means would have been seen


def check_apply_learns(trainer: Trainer, given: Batch) -> None:
    losses = []
    for _ in range(4):
        flat, sums = trainer.gradient(*given, SCALE)
        trainer.apply(flat, 0.01)
        losses.append(sums["loss"])
    assert losses == sorted(losses, reverse=True)
    assert losses[-1] < losses[0]


def check_parameters_come_back(trainer: Trainer, given: Batch) -> None:
    first = trainer.parameters()
    flat = gradient(trainer, *given, SCALE)
    other = np.random.default_rng(1).normal(size=first.size)
    trainer.set_parameters(other)
    other_copy = other.copy()
    other[:] = 0.0
    assert np.array_equal(trainer.parameters(), other_copy)
    assert not np.array_equal(gradient(trainer, *given, SCALE), flat)
    kept = trainer.parameters()
    kept[:] = 1.0
    assert np.array_equal(trainer.parameters(), other_copy)
    trainer.set_parameters(first)
    assert np.array_equal(gradient(trainer, *given, SCALE), flat)


def check_evaluation_is_exact(trainer: Trainer, given: Batch) -> None:
    """Sums over batches of odd sizes are those of one batch."""
    x, y = given
    whole = trainer.evaluate(x, y)
    assert tuple(whole) == trainer.scores
    cuts = np.split(np.arange(len(y)), [1, 8])
    parts = [trainer.evaluate(x[i], y[i]) for i in cuts]
    for name, value in whole.items():
        np.testing.assert_allclose(sum(part[name] for part in parts), value, rtol=1e-12, err_msg=name)


def check_memory_is_not_shared(trainer: Trainer, given: Batch) -> None:
    """Writing over what was handed in or out changes nothing in the trainer."""
    flat, _ = trainer.gradient(*given, SCALE)
    weights = trainer.parameters()
    flat[:] = 1e6
    assert np.array_equal(trainer.parameters(), weights)
    update = np.full(trainer.num_parameters, 1e-3)
    for _ in range(2):
        trainer.apply(update, 0.01)
        weights = trainer.parameters()
        update[:] = 1e-3
    update[:] = 1e6
    assert np.array_equal(trainer.parameters(), weights)
    odd = np.zeros(trainer.num_parameters + 1)[1:]  # memory that is aligned to one number only
    trainer.apply(odd, 0.01)
    assert np.isfinite(trainer.parameters()).all()


def check_every_update_is_applied(trainer: Trainer, given: Batch) -> None:
    """The gradient itself, changed in place as a strategy does, its copy, and one of an earlier call move alike."""
    start = trainer.state()
    ends = []
    for is_copy, comes_late in ((False, False), (True, False), (True, True)):
        trainer.set_state(start)
        update, _ = trainer.gradient(*given, SCALE)
        update *= 3
        update = update.copy() if is_copy else update
        if comes_late:
            trainer.gradient(given[0][:5], given[1][:5], SCALE)
        trainer.apply(update, 0.01)
        ends.append(trainer.parameters())
    assert np.abs(ends[0] - start["parameters"]).max() > 0
    for end in ends[1:]:
        assert np.array_equal(end, ends[0])
    trainer.set_state(start)
    trainer.apply(gradient(trainer, *given, SCALE), 0.01)
    assert not np.array_equal(trainer.parameters(), ends[0])


def check_step_is_gradient_and_apply(make, given: Batch) -> None:
    apart, at_once = make(), make()
    at_once.compile(None)
    for rate in (0.1, 0.05):
        flat, sums = apart.gradient(*given, 0.05)
        apart.apply(flat, rate)
        assert at_once.step(*given, 0.05, rate) == sums
    np.testing.assert_allclose(at_once.parameters(), apart.parameters(), rtol=0, atol=1e-14)
    halved = make()
    halved.compile(lambda parts: [part * 0.5 for part in parts])
    halved.step(*given, 0.1, 0.1)
    reference = make()
    reference.step(*given, 0.05, 0.1)
    np.testing.assert_allclose(halved.parameters(), reference.parameters(), rtol=0, atol=1e-14)
    assert not np.allclose(halved.parameters(), make().parameters(), rtol=0, atol=1e-9)


RATES = np.array([0.1, 0.05, 0.025])


def check_several_steps_of_a_call_are_single_ones(
    make: Any, given: Batch, tolerance: float = 1e-12
) -> dict[str, Array]:
    """A single step may follow; return the state before that."""
    size = len(given[1]) // 3
    singly, at_once = make(), make()
    for trainer in (singly, at_once):
        trainer.compile(lambda parts: [part + 0.01 for part in parts])
    expected = dict.fromkeys(singly.scores, 0.0)
    for number, rate in enumerate(RATES.tolist()):
        x, y = (part[number * size : (number + 1) * size] for part in given)
        expected = added(expected, singly.step(x, y, 1 / size, rate))
        if not number:
            before = at_once.state()
            at_once.step(x, y, 1 / size, rate)  # rehearsals come after a first step
            at_once.rehearse(*given, 1 / size, 3)
            at_once.set_state(before)
    assert at_once.start_steps(*given, 1 / size, RATES)() == pytest.approx(expected, rel=max(tolerance, 1e-7))
    after = singly.state()
    must_be_near(at_once, after, tolerance)
    for trainer in (singly, at_once):
        trainer.step(*given, 1 / size, 0.025)
    np.testing.assert_allclose(at_once.parameters(), singly.parameters(), rtol=0, atol=tolerance)
    return after


def check_each_step_of_a_call_has_its_samples_its_rate_and_the_hook(make: Any, given: Batch) -> None:
    """Also with samples that the device holds."""
    after = check_several_steps_of_a_call_are_single_ones(make, given)
    size = len(given[1]) // 3
    device, reversed_rates, unhooked = (make() for _ in range(3))
    for trainer in (device, reversed_rates):
        trainer.compile(lambda parts: [part + 0.01 for part in parts])
    unhooked.compile(list)
    on_device = device.hold(*given, None)(np.arange(3 * size, dtype=np.int32)[:, None])
    device.start_steps(*on_device, 1 / size, RATES)()
    must_be_near(device, after, 1e-12)
    unhooked.start_steps(*given, 1 / size, RATES)()
    reversed_rates.start_steps(*given, 1 / size, RATES[::-1].copy())()
    for trainer in (reversed_rates, unhooked):
        assert np.abs(trainer.parameters() - after["parameters"]).max() > 1e-9


def must_be_near(trainer: Trainer, state: dict[str, Array], tolerance: float) -> None:
    """Compare all there is."""
    for name, array in state.items():
        np.testing.assert_allclose(trainer.state(name)[name], array, rtol=0, atol=tolerance, err_msg=name)


def check_parts_sum_to_the_whole(make, given: Batch, num_parts: int = 5) -> None:
    """A batch in uneven parts has the gradient, the sums, and takes the step of one that is whole."""
    whole, parted = make(), make(gradient_accumulation_steps=num_parts)
    assert len(given[1]) % num_parts
    one, other = whole.gradient(*given, 0.1), parted.gradient(*given, 0.1)
    largest = np.abs(one[0]).max()
    assert np.abs(one[0] - other[0]).max() <= 1e-12 * largest
    assert one[1] == pytest.approx(other[1], rel=1e-12)
    for trainer in (whole, parted):
        trainer.compile(lambda parts: [part * 2.0 for part in parts])
        trainer.step(*given, 0.05, 0.1)
    np.testing.assert_allclose(parted.parameters(), whole.parameters(), rtol=0, atol=1e-12)
    assert not np.allclose(whole.parameters(), make().parameters(), rtol=0, atol=1e-6)
    # Fewer samples than parts, as in an epoch's last step.
    few = given[0][:2].copy(), given[1][:2].copy()
    one, other = gradient(whole, *few, 0.1), gradient(parted, *few, 0.1)
    assert np.abs(one - other).max() <= 1e-12 * np.abs(one).max()
    check_no_samples_are_zeros(parted, given)


def check_no_samples_are_zeros(trainer: Trainer, given: Batch) -> None:
    """A worker without samples has a gradient of zeros, and nothing in it changes; with a hook, it makes the step."""
    nothing = given[0][:0], given[1][:0]
    trainer.compile(None)
    before = trainer.state()
    flat, sums = trainer.gradient(*nothing, 0.1)
    zeros = dict.fromkeys(trainer.scores, 0)
    assert (flat == 0).all()
    assert sums == zeros
    must_be_same(trainer, before)
    trainer.compile(lambda parts: [part + 1.0 for part in parts])
    assert trainer.step(*nothing, 0.1, 0.25) == zeros
    np.testing.assert_allclose(before["parameters"] - trainer.parameters(), 0.25, rtol=1e-6)  # sgd
    must_be_same(trainer, trainer.state("parameters") | {"statistics": before["statistics"]})
    trainer.compile(None)


def check_the_device_gathers_as_the_processor_does(trainer: Any, seed: int = 5) -> None:
    """Samples by number, cropped and mirrored or not, are the same bits; so are gradients of the whole and its parts.

    The pictures are wider than they are high, so that rows are not taken for columns.
    """
    random, padding = np.random.default_rng(seed), 2
    x, y = random.integers(0, 256, (40, 6, 9, 3)).astype(np.uint8), np.arange(40, dtype=np.int32)
    chosen = random.permutation(40)[:7]
    offsets = draw(seed, np.array(3), chosen, padding)
    assert 0 < np.count_nonzero(offsets.mirrored) < 7
    crops = np.stack([chosen, offsets.row, offsets.column, offsets.mirrored], axis=1).astype(np.int32)
    expected = {None: x[chosen], padding: CropFlip(padding)(x[chosen], offsets)}
    for of_crops, pictures in expected.items():
        gathered = trainer.hold(x, y, of_crops)(crops if of_crops else crops[:, :1])
        for held, array in zip(gathered, (pictures, y[chosen]), strict=True):
            assert (len(held), held.dtype) == (len(array), array.dtype)
            np.testing.assert_array_equal(np.asarray(held.tensor), array)


def check_a_batch_on_the_device_trains_as_an_array(trainer: Any, given: Batch) -> None:
    """Gradients of samples that the device gathers, in their order and in another, are those of arrays."""
    x, y = given
    gather = trainer.hold(x, y, None)
    for numbers in (np.arange(len(y)), np.arange(len(y))[::-1]):
        expected, sums = (
            gradient(trainer, x[numbers], y[numbers], 0.25),
            trainer.gradient(x[numbers], y[numbers], 0.25)[1],
        )
        flat, device_sums = trainer.gradient(*gather(numbers[:, None].astype(np.int32)), 0.25)
        assert np.array_equal(flat, expected)
        assert device_sums == sums


def check_resumes_to_the_bit(make, given: Batch, at_once: bool = False) -> None:
    """Five steps, and five more by another trainer from the state of the first, end where ten steps do."""
    first, other = make(), make()
    initial = other.state("optimizer")
    walk(first, given, range(5), at_once)
    saved = first.state()
    assert saved["optimizer"].dtype == np.float64
    walk(first, given, range(5, 10), at_once)
    walk(other, given, range(3), at_once)  # its own past does not matter
    other.set_state(saved)
    walk(other, given, range(5, 10), at_once)
    must_be_same(other, first.state())
    if np.any(saved["optimizer"] != initial["optimizer"]):  # parameters and statistics alone are not enough
        other.set_state(saved | initial)
        walk(other, given, range(5, 10), at_once)
        assert not np.array_equal(other.state("optimizer")["optimizer"], first.state("optimizer")["optimizer"])
    with pytest.raises(ValueError, match=r"cannot be made from|do not fill"):
        first.set_state({"optimizer": np.zeros(saved["optimizer"].size + 1)})


def must_be_same(trainer: Trainer, state: dict[str, Array]) -> None:
    """Compare what is named, bit for bit."""
    for name, array in trainer.state(*state).items():
        assert np.array_equal(array, state[name]), name


def walk(trainer: Trainer, given: Batch, steps: range, at_once: bool) -> None:
    """Take steps whose samples and rates depend on their number."""
    for step in steps:
        x, y = (np.roll(part, step, axis=0)[:8] for part in given)
        rate = 0.01 if step < 7 else 0.005
        if at_once:
            trainer.step(x, y, 1 / 8, rate)
        else:
            trainer.apply(trainer.gradient(x, y, 1 / 8)[0], rate)


def check_seed_decides_the_weights(trainer: str, model: str, what: Problem) -> None:
    first, again, other = (create(trainer, model, what, seed=seed).parameters() for seed in (1, 1, 2))
    assert np.array_equal(first, again)
    assert not np.array_equal(first, other)


def refused(trainer: str, model: str, what: Problem, **settings: object) -> str:
    """Return the text of the error with which a trainer refuses."""
    try:
        create(trainer, model, what, **settings)
    except UserError as error:
        return str(error)
    raise AssertionError("it was not refused")


# What every trainer passes with every model.
CHECKS = [
    check_gradient_is_a_fair_buffer,
    check_gradient_is_that_of_the_loss,
    check_shards_sum_to_the_whole,
    check_apply_learns,
    check_parameters_come_back,
    check_evaluation_is_exact,
    check_memory_is_not_shared,
    check_every_update_is_applied,
]
