"""TensorBoard event files: curves of each run by epoch, and settings with results in its table of hyper-parameters."""

import math
from collections.abc import Iterator, Mapping
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dlbench.analysis.arms import METRICS, TIME_TO_TARGET, records
from dlbench.analysis.groups import varying
from dlbench.plugins import Options
from dlbench.records.files import replacing
from dlbench.report.data import ReportData
from dlbench.scenario.scenario import name_from

if TYPE_CHECKING:
    from tensorboard.compat.proto.event_pb2 import Event

OPTIONS = Options
PACKAGE = "tensorboard"
# Ends the name of each file.
NAME = "dlbench"
CURVES = ("train_loss", "train_accuracy", "validation_loss", "validation_accuracy", "learning_rate")
RESULTS = (*METRICS, TIME_TO_TARGET)


def export(data: ReportData, output: Path) -> list[Path]:
    """Write a folder for each completed run; `tensorboard --logdir OUTPUT` shows them side by side."""
    epochs = data.epochs
    settings = varying(data.completed) if len(data.completed) else ()
    written = []
    for row in records(data.completed):
        folder = output / name_from(str(row["study"])) / name_from(str(row["run_id"]))
        own = epochs[(epochs["study"] == row["study"]) & (epochs["run_id"] == row["run_id"])] if len(epochs) else epochs
        # All workers have the same scores; the first one's rows stand for them.
        curve = [one for one in records(own) if one.get("worker") in (None, 0)] if len(own) else []
        _write(folder, row, curve, settings)
        written.append(folder)
    return written


def _write(folder: Path, row: Mapping[str, Any], curve: list[dict[str, Any]], settings: tuple[str, ...]) -> None:
    """Write one run; with TensorBoard's own protocol, without TensorFlow, which its writers would import."""
    from tensorboard.summary.writer.record_writer import RecordWriter

    began = datetime.fromisoformat(str(row["started_at"])).timestamp() if row.get("started_at") else 0.0
    ended = began + float(row.get("wall_time_s") or 0)
    folder.mkdir(parents=True, exist_ok=True)
    with replacing(folder / f"events.out.tfevents.{int(began)}.{NAME}", "wb") as file:
        events = RecordWriter(file)
        for event in (*_session(row, settings, began, ended), *_curves(curve, began), *_results(row, ended)):
            events.write(event.SerializeToString())
        events.flush()


def _session(row: Mapping[str, Any], settings: tuple[str, ...], began: float, ended: float) -> "Iterator[Event]":
    """Yield what the table of hyper-parameters is made of: the settings that vary, and that the run completed."""
    from google.protobuf.struct_pb2 import Value
    from tensorboard.plugins.hparams import api_pb2, metadata
    from tensorboard.plugins.hparams.plugin_data_pb2 import HParamsPluginData, SessionEndInfo, SessionStartInfo

    chosen = {key: _value(Value(), row[key]) for key in settings if row.get(key) is not None}
    start = SessionStartInfo(hparams=chosen, start_time_secs=began)
    end = SessionEndInfo(status=api_pb2.STATUS_SUCCESS, end_time_secs=ended)
    for tag, content, at in (
        (metadata.SESSION_START_INFO_TAG, HParamsPluginData(session_start_info=start), began),
        (metadata.SESSION_END_INFO_TAG, HParamsPluginData(session_end_info=end), ended),
    ):
        yield _event(at, 0, tag, metadata=metadata.create_summary_metadata(content))


def _curves(curve: list[dict[str, Any]], began: float) -> "Iterator[Event]":
    for epoch in curve:
        at = began + float(epoch.get("ended_at_s") or epoch.get("train_time_s") or 0)
        for name, value in _known(epoch, CURVES):
            yield _event(at, int(epoch["epoch"]), name, simple_value=value)


def _results(row: Mapping[str, Any], ended: float) -> "Iterator[Event]":
    for name, value in _known(row, RESULTS):
        yield _event(ended, 0, f"result/{name}", simple_value=value)


def _event(at: float, step: int, tag: str, **content: Any) -> "Event":
    from tensorboard.compat.proto.event_pb2 import Event
    from tensorboard.compat.proto.summary_pb2 import Summary

    return Event(wall_time=at, step=step, summary=Summary(value=[Summary.Value(tag=tag, **content)]))


def _value(value: Any, written: Any) -> Any:
    """Return a protobuf value that holds a setting."""
    if isinstance(written, bool):
        value.bool_value = written
    elif isinstance(written, int | float):
        value.number_value = written
    else:
        value.string_value = str(written)
    return value


def _known(row: Mapping[str, Any], names: tuple[str, ...]) -> Iterator[tuple[str, float]]:
    for name in names:
        value = row.get(name)
        if value is not None and math.isfinite(value):
            yield name, float(value)
