"""One run to be checked, with what its plugins say of themselves; nothing is imported or read for it but that."""

import json
from collections.abc import MutableMapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from dlbench import plugins
from dlbench.errors import UserError, shorten
from dlbench.scenario.cluster import Cluster
from dlbench.scenario.needs import Needs
from dlbench.scenario.plugin_settings import needs_of
from dlbench.scenario.run_spec import RunSpec
from dlbench.scenario.settings import Divide, Settings

if TYPE_CHECKING:
    from dlbench.datasets import Description

# Descriptions of data sets by their options, so that each is asked only once.
Descriptions = MutableMapping[str, "Description | None"]


def num_training_samples(settings: Settings, description: "Description") -> int:
    """Return how many samples are trained on in an epoch."""
    available = description.num_train
    if not description.num_validation:
        available -= max(1, round(available * settings.validation_fraction))
    return min(available, settings.train_samples or available)


@dataclass(frozen=True)
class Case:
    """A run with what its plugins say of themselves; `goal_score` is the score that the scenario's goal names."""

    run: RunSpec
    cluster: Cluster
    seen: Descriptions
    goal_score: str | None = None

    @property
    def settings(self) -> Settings:
        """The settings of the run."""
        return self.run.settings

    @cached_property
    def needs(self) -> Needs:
        """What its strategy needs."""
        return needs_of(self.settings.strategy)

    @cached_property
    def trainer(self) -> plugins.Plugin:
        """Its trainer; a script of the user's own has none."""
        return plugins.load("trainers", self.settings.trainer)

    @cached_property
    def description(self) -> "Description | None":
        """What is known of its data set before it is prepared; None where nothing is.

        Raises:
            UserError: It refuses its options.
        """
        options = self.run.options_of("dataset")
        key = json.dumps([self.settings.dataset, options])
        if key not in self.seen:
            plugin = plugins.load("datasets", self.settings.dataset)
            describe = None if callable(plugin.target) else plugin.get("describe")
            try:
                self.seen[key] = describe(plugin.options(**options)) if describe else None
            except OSError as error:
                reason = shorten(error.strerror or str(error))
                raise UserError(f"the data set {plugin.name} cannot be read: {reason}") from error
        return self.seen[key]


def num_steps(case: Case) -> float:
    """Return how many full steps a worker will make; infinitely many where the data set says nothing."""
    run = case.run
    if run.settings.command is not None or case.description is None:
        return float("inf")
    samples = num_training_samples(run.settings, case.description)
    alone = run.settings.divide is Divide.EPOCHS
    batch = run.local_batch_size(0) if alone else run.global_batch_size
    return run.epochs_per_worker * (samples // batch)
