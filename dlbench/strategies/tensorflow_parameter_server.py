"""TensorFlow's own ParameterServerStrategy: refused, because it does not train what Keras 3 says it trains.

Keras 3's `fit` fails under it, having no dataset for each worker. A custom loop on a `ClusterCoordinator` runs,
but Keras's optimizers write their counter of steps and their momenta by `assign` of what was read before
(`Variable.assign_add` in keras/src/backend/common/variables.py), which workers do at the same time: steps are lost
without an error.
"""

from typing import NoReturn

from dlbench.errors import UserError
from dlbench.plugins import Options
from dlbench.scenario.needs import Needs
from dlbench.scenario.settings import Settings
from dlbench.strategies import Communicator

OPTIONS = Options
NEEDS = Needs(collectives=("grpc",), trainers=("keras_tensorflow",), agrees=False)
_WHY = (
    "TensorFlow's ParameterServerStrategy does not work with Keras 3: `fit` fails, and in a custom loop workers "
    "overwrite each other's optimizer state (of 20 steps 18 were counted); use `strategy: asynchronous`"
)


def refuse(options: Options, settings: Settings) -> str:
    """Return why nothing can be measured with it."""
    return _WHY


def create(options: Options, communicator: Communicator, algorithm: str | None) -> NoReturn:
    """Create nothing.

    Raises:
        UserError: Always, with the reason.
    """
    raise UserError(_WHY)
