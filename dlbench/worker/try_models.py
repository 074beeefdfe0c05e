"""Builds models of a user's own, as a worker does: `python -m dlbench.worker.try_models`, the request on stdin."""

import sys
import traceback
from pathlib import Path

import dlbench
from dlbench import plugins
from dlbench.datasets._format import open_arrays
from dlbench.datasets._prepare import PreparationRequest, prepare
from dlbench.errors import UserError
from dlbench.records.model_trial import ANSWER, FAULTS, TRIALS, ModelFault, ModelTrial
from dlbench.scenario.run_spec import RunSpec
from dlbench.telemetry.failure import one_line
from dlbench.trainers import Problem, Threads, _keras_model
from dlbench.worker.train.setup import problem_of

# Of a call that did not get into the function.
TAKES_PROBLEM = "a model's function takes the problem: `def build(problem):` (docs/own-code.md)"


def main() -> None:
    """Build each model that stdin asks for, and print what is wrong with it."""
    faults = tuple(map(attempt, TRIALS.validate_json(sys.stdin.buffer.read())))
    print(ANSWER + FAULTS.dump_json(faults).decode(), flush=True)  # noqa: T201


def attempt(trial: ModelTrial) -> ModelFault:
    """Build one model; return what is wrong with it, or with its data set where that has to be prepared."""
    run, problem = trial.run, None
    try:
        problem = Problem(**trial.shapes) if trial.shapes is not None else _prepared(run)
        plugins.load("trainers", run.settings.trainer).get("start")(run.settings, Threads(1, 1))
        plugin = plugins.load("models", run.settings.model)
        _keras_model.build(plugin, plugin.options(**run.options_of("model")), problem, run.settings)
    except UserError as error:
        return ModelFault(message=error.message, hint=error.hint, where=error.where)
    except (Exception, SystemExit) as error:  # noqa: BLE001 - whatever a user's code raises
        is_regression = problem is not None and not problem.num_classes
        hint = "the data set has numbers to predict, no classes: end the model with Dense(problem.num_outputs)"
        place = _place(error)
        if isinstance(error, TypeError) and not place and "positional argument" in str(error):
            return ModelFault(message=one_line(error), hint=TAKES_PROBLEM)
        return ModelFault(message=one_line(error), hint=hint * is_regression, where=place)
    return ModelFault()


def _prepared(run: RunSpec) -> Problem:
    request = PreparationRequest(dataset=run.settings.dataset, options=run.options_of("dataset"))
    entry = prepare(request, lambda line: print(line, file=sys.stderr, flush=True))  # noqa: T201
    return problem_of(open_arrays(entry.folder, entry.meta.checksum))


def _place(error: BaseException) -> str:
    """Return file and line of the innermost call in the user's own code."""
    package, here = Path(dlbench.__file__).parent, Path.cwd()
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        path = Path(frame.filename)
        if path.is_relative_to(here) and not path.is_relative_to(package) and "site-packages" not in path.parts:
            return f"{path.relative_to(here)}:{frame.lineno}"
    return ""


if __name__ == "__main__":
    main()
