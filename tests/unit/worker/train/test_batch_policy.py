"""The noise scale, AdaScale's gain, and the decisions of both policies."""

import math

import numpy as np
import pytest

from dlbench.worker.train.batch_policy import Goodput, NoiseScale, NormSums, StepDoubling

# A quadratic of 400 dimensions whose gradient is known, with noise of a known trace: phi = tr(S) / |G|^2.
DIMENSIONS, NOISE = 400, 3.0


def sums_of(num_steps: int, num_estimates: int, batch: int, seed: int) -> tuple[NormSums, float]:
    """Return the sums of steps on f(w) = |w - w*|^2 / 2, every sample's gradient with noise, and the true scale."""
    generator = np.random.default_rng(seed)
    gradient = generator.standard_normal(DIMENSIONS) / 4
    sums = NormSums()
    for _ in range(num_steps):
        noise = generator.standard_normal((num_estimates, DIMENSIONS)) * NOISE / math.sqrt(batch / num_estimates)
        estimates = gradient + noise
        local, mean = (estimates**2).sum(1).mean(), (estimates.mean(0) ** 2).sum()
        sums = sums.plus(NormSums(1, local, mean, (local - mean) * batch))
    return sums, DIMENSIONS * NOISE**2 / float((gradient**2).sum())


def known(noise_scale: float, **changes) -> Goodput:
    """Return a policy that knows the noise scale, in one worker's halves of batches of 32."""
    policy = Goodput(32, {1: 0.010, 2: 0.011, 4: 0.014, 8: 0.022}, 2)
    policy.noise = NoiseScale(2, weight=1.0, norm=1.0, trace=noise_scale)
    policy.__dict__.update(changes)
    return policy


@pytest.mark.parametrize(("num_estimates", "batch"), [(2, 64), (2, 512), (3, 96), (5, 320)])
def test_the_noise_scale_of_a_quadratic_is_found(num_estimates, batch):
    noise = NoiseScale(num_estimates)
    sums, truth = sums_of(2000, num_estimates, batch, seed=7)
    for period in range(12):
        noise.add(sums)
        assert noise.value == pytest.approx(truth, rel=0.05), period


def test_batches_of_several_sizes_show_one_noise_scale():
    small, truth = sums_of(4000, 2, 64, seed=7)
    large, _ = sums_of(4000, 2, 256, seed=7)
    noise = NoiseScale(2)
    noise.add(small.plus(large))
    assert noise.value == pytest.approx(truth, rel=0.05)


def test_noise_without_a_gradient_is_infinite_and_none_is_zero():
    noise = NoiseScale(2)
    assert (noise.value, noise.gain(32, 8)) == (None, 1.0)
    noise.add(NormSums(10, 40.0, 19.0, 21.0 * 32))
    assert (noise.value, noise.gain(32, 8)) == (math.inf, 8)
    still = NoiseScale(2)
    still.add(NormSums(10, 10.0, 10.0, 0.0))
    assert (still.value, still.gain(32, 8)) == (0.0, 1.0)


def test_the_gain_is_adascales():
    for noise_scale in (0.5, 32.0, 1000.0):
        noise = NoiseScale(2, weight=1.0, norm=2.0, trace=2.0 * noise_scale)
        for multiple in (1, 2, 4, 16):
            variance, norm = noise_scale / 32, 1.0
            expected = (variance + norm) / (variance / multiple + norm)
            assert noise.gain(32, multiple) == pytest.approx(expected, rel=1e-12)
            assert 1 <= noise.gain(32, multiple) <= multiple


def test_the_batch_doubles_once_in_two_decisions_up_to_the_best():
    policy, changes = known(1000.0), []
    for _ in range(12):
        prediction = policy.decide(NormSums(), 0.012)
        changes.append((policy.multiple, prediction is not None))
    assert [multiple for multiple, _ in changes] == [1, 2, 2, 4, 4, 8, 8, 8, 8, 8, 8, 8]
    assert [changed for _, changed in changes] == [False, True] * 3 + [False] * 6


def test_a_prediction_scales_the_rehearsal_by_what_the_old_batch_took():
    policy = known(1000.0)
    policy.decide(NormSums(), 0.020)
    prediction = policy.decide(NormSums(), 0.020)
    assert prediction is not None
    gain = 2 * 1032 / 1064 * 0.010 / 0.011
    assert prediction == pytest.approx((1000.0, 0.020, 0.022, gain))


def test_a_small_gain_or_one_seen_once_changes_nothing():
    for gain, multiple in ((0.049, 1), (0.051, 2)):
        policy = known(noise_of(gain), _times={1: 0.010, 2: 0.011})
        for _ in range(4):
            policy.decide(NormSums(), 0.010)
        assert policy.multiple == multiple
    policy = known(1000.0)
    assert policy.decide(NormSums(), 0.010) is None
    policy.noise.trace = 0.0
    assert policy.decide(NormSums(), 0.010) is None
    policy.noise.trace = 1000.0
    assert policy.decide(NormSums(), 0.010) is None
    assert policy.multiple == 1


def noise_of(gain: float) -> float:
    """Return the noise scale at which twice the batch of 32, in 1.1 of the time, gains so much."""
    worth = 1.1 * (1 + gain)  # = 2 (phi + 32) / (phi + 64)
    return (64 * worth - 64) / (2 - worth)


def test_the_batch_halves_where_the_noise_has_gone():
    policy = known(0.1, multiple=8)
    multiples = []
    for _ in range(8):
        policy.decide(NormSums(), 0.010)
        multiples.append(policy.multiple)
    assert multiples == [8, 4, 4, 2, 2, 1, 1, 1]


def test_a_state_goes_on_as_it_would_have():
    policy = known(1000.0)
    policy.decide(NormSums(), 0.010)
    other = known(0.0)
    other.set_state(policy.state())
    for one in (policy, other):
        one.decide(NormSums(4, 30.0, 20.0, 320.0), 0.010)
    assert policy.state() == other.state()
    assert other.multiple == 2


def test_step_doubling_doubles_every_so_many_epochs_up_to_the_largest():
    policy = StepDoubling(every=2, largest=4)
    changed = [policy.begin_epoch(epoch) is not None for epoch in range(1, 9)]
    assert changed == [False, False, True, False, True, False, False, False]
    assert (policy.multiple, policy.gain(4), policy.advance(4)) == (4, 1.0, 4.0)
    resumed = StepDoubling(every=2, largest=4)
    resumed.set_state(policy.state())
    assert resumed.begin_epoch(9) is None
