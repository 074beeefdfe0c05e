"""What tables of results/ say of rates, against what the strategies' own nodes do with a gradient that is always 1."""

from typing import Any

import numpy as np
import pytest

from tests.results.cells import rate_per_sample
from tests.unit.strategies.worlds import FuzzedWorld

RATE, SAMPLES = 0.01, 4


@pytest.mark.parametrize(
    ("strategy", "options"),
    [
        ("ring", {}),
        ("parameter_server", {}),
        ("backup_workers", {"backups": 1}),
        ("backup_workers", {"backups": 2}),
        ("asynchronous", {}),
        ("softsync", {"n": 1, "rate": "equal"}),
        ("softsync", {"n": 2, "rate": "equal"}),
        ("stale_synchronous", {"bound": 1}),
        ("downpour", {"adagrad": False, "n_push": 1}),
        ("downpour", {"adagrad": False, "n_push": 3}),
        ("elastic_averaging", {"period": 2}),
        ("local_sgd", {"period": 2}),
        ("gossip", {}),
        ("hogwild", {}),
    ],
)
@pytest.mark.parametrize("workers", [4, 6])
def test_the_rate_per_sample_is_what_a_sample_changes(strategy: str, options: dict[str, Any], workers: int) -> None:
    world = FuzzedWorld(
        strategy, workers, 12, options=options, rate=RATE, samples=lambda rank, step: SAMPLES,
        gradient=lambda rank, step, parameters: np.ones_like(parameters),
    )  # fmt: skip
    first = world.world.parameters.copy()
    world.run()
    if strategy == "elastic_averaging":
        shared = np.mean([node.parameters for node in (*world.workers, *world.servers)], axis=0)
    else:
        shared = world.parameters if world.servers else np.mean([one.parameters for one in world.workers], axis=0)
    # Each worker of a ring records its own samples.
    entered = world.record.samples
    assert entered + SAMPLES * world.record.dropped == SAMPLES * workers * 12
    row = {"strategy": strategy, "workers": workers, "learning_rate": RATE, "batch_size_per_worker": SAMPLES}
    row |= {f"strategy.{name}": value for name, value in options.items()}
    # The last updates of backup workers have fewer gradients, as workers finish.
    tolerance = 0.1 if strategy == "backup_workers" else 1e-9
    assert rate_per_sample(row) * entered == pytest.approx((first - shared).mean(), rel=tolerance)


@pytest.mark.parametrize(("staleness", "divisor"), [(0.5, 1.0), (15.0, 15.0)])
def test_softsync_divides_rates_by_the_staleness_where_it_is_above_1(staleness: float, divisor: float) -> None:
    row = {"strategy": "softsync", "workers": 4, "learning_rate": 0.4, "batch_size_per_worker": 2, "strategy.n": 2}
    own = row | {"strategy.rate": "staleness", "staleness_mean": staleness}
    assert rate_per_sample(own) == pytest.approx(0.4 / 2 / 2 / divisor)
    assert rate_per_sample(own | {"strategy.rate": "equal"}) == pytest.approx(0.4 / 2 / 2)
