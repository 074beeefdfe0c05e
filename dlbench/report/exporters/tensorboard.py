"""TensorBoard event files: curves of each run by epoch, and settings with results in its table of hyper-parameters."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dlbench.plugins import Options
from dlbench.records.files import make_folder, replacing
from dlbench.report.data import ReportData
from dlbench.report.exporters._runs import ExportedRun, distinct_name, runs_of

if TYPE_CHECKING:
    from tensorboard.compat.proto.event_pb2 import Event

OPTIONS = Options
PACKAGE = "tensorboard"
# Ends the name of each file.
NAME = "dlbench"


def export(data: ReportData, output: Path) -> list[Path]:
    """Write a folder for each completed run; `tensorboard --logdir OUTPUT` shows them side by side."""
    from tensorboard.summary.writer.record_writer import RecordWriter

    written = []
    for run in runs_of(data, data.completed):
        folder = make_folder(output, distinct_name(str(run.row["study"])), distinct_name(run.row["run_id"]))
        # An event must have a time.
        began = run.began_s or 0.0
        ended = run.ended_s or began
        with replacing(folder / f"events.out.tfevents.{int(began)}.{NAME}", "wb") as file:
            # TensorBoard's own protocol, without TensorFlow, which its other writers would import.
            events = RecordWriter(file)
            for event in (*_session(run, began, ended), *_scalars(run, began, ended)):
                events.write(event.SerializeToString())
            events.flush()
        written.append(folder)
    return written


def _session(run: ExportedRun, began: float, ended: float) -> "Iterator[Event]":
    """Yield what the table of hyper-parameters is made of: the settings that vary, and that the run completed."""
    from google.protobuf.struct_pb2 import Struct
    from tensorboard.plugins.hparams import api_pb2, metadata
    from tensorboard.plugins.hparams.plugin_data_pb2 import HParamsPluginData, SessionEndInfo, SessionStartInfo

    settings = Struct()
    settings.update(run.settings)
    start = SessionStartInfo(hparams=settings.fields, start_time_secs=began)
    end = SessionEndInfo(status=api_pb2.STATUS_SUCCESS, end_time_secs=ended)
    for tag, content, at in (
        (metadata.SESSION_START_INFO_TAG, HParamsPluginData(session_start_info=start), began),
        (metadata.SESSION_END_INFO_TAG, HParamsPluginData(session_end_info=end), ended),
    ):
        yield _event(at, 0, tag, metadata=metadata.create_summary_metadata(content))


def _scalars(run: ExportedRun, began: float, ended: float) -> "Iterator[Event]":
    for epoch in run.epochs:
        for name, value in epoch.values.items():
            yield _event(epoch.ended_s or began, epoch.number, name, simple_value=value)
    for name, value in run.results.items():
        yield _event(ended, 0, f"result/{name}", simple_value=value)


def _event(at: float, step: int, tag: str, **content: Any) -> "Event":
    from tensorboard.compat.proto.event_pb2 import Event
    from tensorboard.compat.proto.summary_pb2 import Summary

    return Event(wall_time=at, step=step, summary=Summary(value=[Summary.Value(tag=tag, **content)]))
