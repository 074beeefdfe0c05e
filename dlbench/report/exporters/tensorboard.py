"""TensorBoard event files: curves of each run by epoch, and settings with results in its table of hyper-parameters."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dlbench.records.files import make_folder, replacing
from dlbench.report.data import ReportData
from dlbench.report.exporters._runs import ExportedRun, distinct_name, runs_of

if TYPE_CHECKING:
    from tensorboard.compat.proto.event_pb2 import Event

PACKAGE = "tensorboard"


def export(data: ReportData, output: Path) -> list[Path]:
    """Write a folder for each completed run; `tensorboard --logdir OUTPUT` shows them side by side."""
    from tensorboard.summary.writer.record_writer import RecordWriter

    written = []
    for run in runs_of(data, data.completed):
        folder = make_folder(output, distinct_name(str(run.row["study"])), distinct_name(run.row["run_id"]))
        # An event must have a time.
        began_s = run.began_s or 0.0
        with replacing(folder / f"events.out.tfevents.{int(began_s)}.dlbench", "wb") as file:
            # TensorBoard's own protocol, without TensorFlow, which its other writers would import.
            events = RecordWriter(file)
            for event in _events(run, began_s, run.ended_s or began_s):
                events.write(event.SerializeToString())
            events.flush()
        written.append(folder)
    return written


def _events(run: ExportedRun, began_s: float, ended_s: float) -> "Iterator[Event]":
    """Yield what the table of hyper-parameters is made of, settings and that the run completed; then the values."""
    from google.protobuf.struct_pb2 import Struct
    from tensorboard.plugins.hparams import api_pb2, metadata
    from tensorboard.plugins.hparams.plugin_data_pb2 import HParamsPluginData, SessionEndInfo, SessionStartInfo

    settings = Struct()
    settings.update(run.settings)
    start = HParamsPluginData(session_start_info=SessionStartInfo(hparams=settings.fields, start_time_secs=began_s))
    end = HParamsPluginData(session_end_info=SessionEndInfo(status=api_pb2.STATUS_SUCCESS, end_time_secs=ended_s))
    yield _event(began_s, 0, metadata.SESSION_START_INFO_TAG, metadata=metadata.create_summary_metadata(start))
    yield _event(ended_s, 0, metadata.SESSION_END_INFO_TAG, metadata=metadata.create_summary_metadata(end))
    for epoch in run.epochs:
        for name, value in epoch.values.items():
            yield _event(epoch.ended_s or began_s, epoch.number, name, simple_value=value)
    for name, value in run.results.items():
        yield _event(ended_s, 0, f"result/{name}", simple_value=value)


def _event(at_s: float, step: int, tag: str, **content: Any) -> "Event":
    from tensorboard.compat.proto.event_pb2 import Event
    from tensorboard.compat.proto.summary_pb2 import Summary

    return Event(wall_time=at_s, step=step, summary=Summary(value=[Summary.Value(tag=tag, **content)]))
