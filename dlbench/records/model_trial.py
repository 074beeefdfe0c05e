"""What building a user's own model once answers: both sides of `python -m dlbench.worker.try_models`.

The process reads a request from its stdin; the last line that it prints is its answer.
"""

from typing import Any

from pydantic import TypeAdapter

from dlbench.scenario.frozen import Frozen
from dlbench.scenario.run_spec import RunSpec
from dlbench.search_path import program

PROGRAM = program("dlbench.worker.try_models")
ANSWER = "dlbench-models-answer: "


class ModelTrial(Frozen):
    """A run whose model is built.

    Attributes:
        run: The run.
        shapes: What is known of its data set, as `Problem` takes it; None: the data set is prepared to know it.
    """

    run: RunSpec
    shapes: dict[str, Any] | None


class ModelFault(Frozen):
    """Why a model cannot be trained; an empty message where it can.

    Attributes:
        message: What is wrong.
        hint: What to do about it.
        where: File and line of the user's own code, where the error came from there.
    """

    message: str = ""
    hint: str = ""
    where: str = ""


# The request: runs whose models are built, one after the other; and the answer: a fault for each.
TRIALS = TypeAdapter(tuple[ModelTrial, ...])
FAULTS = TypeAdapter(tuple[ModelFault, ...])
