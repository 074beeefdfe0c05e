"""The NumPy trainer keeps every trainer's contract, and starts quickly."""

import functools
import subprocess
import sys

import numpy as np
import pytest

from dlbench.trainers import Problem
from tests.unit.trainers import contract
from tests.unit.trainers.contract import Batch, create

CASES = {
    "softmax": ("softmax", {}),
    "mlp": ("mlp", {"hidden": (16,)}),
    "mlp-deep": ("mlp", {"hidden": (12, 9, 7)}),
}
WHAT = contract.problem(4, 5, 1)


@pytest.fixture
def given() -> Batch:
    return contract.batch(WHAT)


@pytest.mark.parametrize("what", [WHAT, contract.regression(4, 5, 1)], ids=["classes", "numbers"])
@pytest.mark.parametrize("case", CASES)
def test_contract(case: str, what: Problem) -> None:
    model, options = CASES[case]
    given, trainer = contract.batch(what), create("numpy", model, what, options)
    first = trainer.parameters()
    for check in (*contract.CHECKS, *([] if what.num_classes else [contract.check_a_regression_sums_squared_errors])):
        trainer.set_parameters(first)
        check(trainer, given)
    make = functools.partial(create, "numpy", model, what, options)
    contract.check_parts_sum_to_the_whole(make, given)
    # Parts of a given size are those of as many as that takes.
    num_samples = len(given[1])
    of_size, of_number = make(microbatch_size=4), make(gradient_accumulation_steps=-(-num_samples // 4))
    assert np.array_equal(of_size.gradient(*given, 0.1)[0], of_number.gradient(*given, 0.1)[0])
    contract.check_step_is_gradient_and_apply(make, given)


OPTIMIZERS = [
    {"optimizer": "sgd"},
    {"optimizer": "sgd", "momentum": 0.9},
    {"optimizer": "sgd", "momentum": 0.9, "nesterov": True, "weight_decay": 0.1},
    {"optimizer": "adam"},
    {"optimizer": "adamw", "weight_decay": 0.1},
]


@pytest.mark.parametrize("optimizer", OPTIMIZERS, ids=lambda settings: "-".join(map(str, settings.values())))
def test_an_optimizer_steps_and_resumes_to_the_bit(optimizer: dict[str, object], given: Batch) -> None:
    contract.check_step_is_gradient_and_apply(lambda: create("numpy", "mlp", WHAT, **optimizer), given)
    for precision in ("float32", "float64"):
        make = functools.partial(create, "numpy", "mlp", WHAT, precision=precision, **optimizer)
        contract.check_resumes_to_the_bit(make, given)


def test_tokens_and_positions_are_refused() -> None:
    for what in (contract.Problem((6,), 10, vocabulary=9), contract.Problem((6,), 10, target_shape=(6,))):
        assert "no tokens, no sequences" in contract.refused("numpy", "mlp", what)


def test_seed_decides_the_weights() -> None:
    contract.check_seed_decides_the_weights("numpy", "mlp", WHAT)


def test_first_loss_of_even_weights_is_that_of_guessing(given: Batch) -> None:
    trainer = create("numpy", "softmax", WHAT)
    trainer.set_parameters(np.zeros(trainer.num_parameters))
    assert trainer.evaluate(*given)["loss"] == pytest.approx(len(given[1]) * np.log(10), rel=1e-12)


def test_number_of_parameters_and_cost() -> None:
    trainer = create("numpy", "mlp", contract.problem(8, 8, 1), {"hidden": (128,)})
    assert trainer.num_parameters == 64 * 128 + 128 + 128 * 10 + 10 == 9610
    assert trainer.flops_per_sample == 3 * 2 * (64 * 128 + 128 * 10)


def test_pixels_become_numbers_as_the_problem_says(given: Batch) -> None:
    x, y = given
    stored, plain = create("numpy", "mlp", WHAT), create("numpy", "mlp", contract.Problem((4, 5, 1), 10))
    np.testing.assert_allclose(
        contract.gradient(stored, x, y, 1.0), contract.gradient(plain, x * (2 / 255) - 1.0, y, 1.0), rtol=1e-12
    )


def test_large_logits_do_not_overflow(given: Batch) -> None:
    trainer = create("numpy", "softmax", WHAT, precision="float32")
    trainer.set_parameters(trainer.parameters() * 1e4)
    flat, sums = trainer.gradient(*given, 1.0)
    assert np.isfinite(sums["loss"])
    assert np.isfinite(flat).all()


def test_a_diverged_network_says_so_without_warnings(given: Batch) -> None:
    trainer = create("numpy", "mlp", WHAT, precision="float32")
    trainer.set_parameters(np.full(trainer.num_parameters, np.float32(3e38)))
    flat, sums = trainer.gradient(*given, 1.0)
    trainer.apply(flat, 1e9)
    assert not np.isfinite(sums["loss"])


def test_float32_stays_float32(given: Batch) -> None:
    trainer = create("numpy", "mlp", WHAT, precision="float32", optimizer="adam")
    flat, _ = trainer.gradient(*given, 0.1)
    trainer.apply(flat, 0.1)
    assert flat.dtype == trainer.parameters().dtype == np.float32


def test_no_memory_is_made_once_it_runs(given: Batch) -> None:
    trainer = create("numpy", "mlp", WHAT)
    first = trainer.gradient(*given, 1.0)[0]
    assert trainer.gradient(given[0][:5], given[1][:5], 1.0)[0].ctypes.data == first.ctypes.data


def test_what_it_hands_out_and_takes(given: Batch) -> None:
    trainer = create("numpy", "mlp", WHAT)
    x, y = (array.copy() for array in given)
    x.flags.writeable = y.flags.writeable = False
    assert np.isfinite(trainer.gradient(x, y, 1.0)[1]["loss"])
    (replica,) = trainer.replicas()
    assert np.array_equal(replica, trainer.parameters())
    replica[:] = 0.0
    assert trainer.parameters().any()
    facts = trainer.facts()
    assert (facts["numpy_version"], facts["intra_op_threads"]) == (np.__version__, 1)
    assert facts["device_name"]
    assert trainer.state("statistics")["statistics"].size == 0
    trainer.set_state({"statistics": np.empty(0)})
    with pytest.raises(ValueError, match="no moving statistics"):
        trainer.set_state({"statistics": np.zeros(1)})


def test_what_it_cannot_do_is_refused() -> None:
    assert "cannot train model 'cnn'" in contract.refused("numpy", "cnn", WHAT)
    assert "did you mean 'adam'?" in contract.refused("numpy", "mlp", WHAT, optimizer="adan")
    assert "float32 or float64" in contract.refused("numpy", "mlp", WHAT, precision="mixed_bfloat16")


def test_starts_without_a_framework() -> None:
    code = (
        "import sys\n"
        "from tests.unit.trainers.contract import create, problem\n"
        "create('numpy', 'mlp', problem(8, 8, 1))\n"
        "assert not {'tensorflow', 'keras', 'scipy', 'pandas', 'mpi4py'} & set(sys.modules)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
