import numpy as np
import pytest

from dlbench.analysis.metrics import rates
from dlbench.records.result import Result, Segment
from dlbench.telemetry.messages import STEP_FIELDS


def result(*segments: tuple[float, float, int, int], extended: bool = False) -> Result:
    fields = ("opened_at_s", "closed_at_s", "steps", "samples")
    pieces = (Segment(**dict(zip(fields, segment, strict=True)), extended=extended) for segment in segments)
    return Result(steps=100, segments=tuple(pieces))


def rows(count: int, **values: float) -> np.ndarray:
    table = np.zeros((count, len(STEP_FIELDS)))
    for name, value in {"num_steps": 1, "phase": rates.PHASE["timed"], **values}.items():
        table[:, rates.FIELD[name]] = value
    return table


def test_throughput_is_all_samples_over_the_common_time():
    # The second worker's clock began 3 s later; its pieces are as long by its own clock, or a little longer.
    found = rates.window([result((1, 7, 30, 600), (8, 12, 30, 400)), result((4, 10.5, 30, 600), (11, 15, 30, 400))])
    assert found["timed_window_s"] == pytest.approx(6.5 + 4)
    assert (found["timed_steps"], found["timed_samples"]) == (60, 2000)
    assert found["samples_per_s"] == pytest.approx(2000 / 10.5)


@pytest.mark.parametrize(("seconds", "steps", "has_rate"), [(5.0, 50, True), (4.99, 50, False), (5.0, 49, False)])
def test_a_rate_needs_fifty_steps_and_five_seconds(seconds, steps, has_rate):
    # Extended steps count as timed ones.
    for extended in (False, True):
        found = rates.window([result((0, seconds, steps, 10), extended=extended)])
        assert (found["samples_per_s"] is not None) is has_rate
        assert (found["timed_steps"], found["extended_steps"]) == (steps, steps * extended)


def test_no_window_without_pieces_or_where_workers_saw_different_ones():
    for results in ([], [result(), result()], [result((0, 1, 1, 1)), result()]):
        assert rates.window(results) == {}


def test_percentiles_take_timed_and_extended_steps_of_all_workers_alone():
    table = [rows(10, step_time_s=1.0), rows(10, step_time_s=3.0, phase=rates.PHASE["extended"])]
    noise = rows(1000, step_time_s=100.0, phase=rates.PHASE["sampled"])
    assert rates.step_time_percentiles([*table, noise]) == (2.0, 3.0)
    assert rates.step_time_percentiles([noise]) == (None, None)
    # How the time of several steps in one call was divided was not measured.
    assert rates.step_time_percentiles([rows(9, step_time_s=1.0), rows(1, num_steps=10)]) == (None, None)


def test_parts_are_sums_in_the_window_and_means_over_workers():
    first = np.concatenate([rows(4, data_wait_s=0.5), rows(9, data_wait_s=9.0, phase=rates.PHASE["warm-up"])])
    assert rates.time_in_window([first, rows(2, data_wait_s=0.5)], "data_wait_s") == pytest.approx(1.5)
    # Unknown where it could not be observed, or a worker has no step there.
    assert rates.time_in_window([rows(2), rows(2, data_wait_s=np.nan)], "data_wait_s") is None
    assert rates.time_in_window([rows(2), rows(2, phase=rates.PHASE["first"])], "data_wait_s") is None


def test_waiting_and_wire_are_medians_of_marked_steps():
    marked = {"phase": rates.PHASE["sampled"]}
    first = np.concatenate([rows(2, peer_wait_s=1.0, communication_time_s=0.2, **marked),
                            rows(1, peer_wait_s=90.0, communication_time_s=90.0, **marked)])  # fmt: skip
    second = rows(3, peer_wait_s=3.0, communication_time_s=0.4, **marked)
    assert rates.in_marked_steps([first, second], "peer_wait_s") == pytest.approx(2.0)
    assert rates.in_marked_steps([first, second], "communication_time_s") == pytest.approx(0.3)
    assert rates.in_marked_steps([rows(3)], "peer_wait_s") is None


def in_pieces(*pieces: tuple[float, list[tuple[float, float]], float, float]) -> tuple[Result, np.ndarray]:
    """Return one worker's result and rows: of each piece its opening, its steps (start, end), its closing and end."""
    table = rows(sum(len(steps) for _, steps, _, _ in pieces))
    spans = np.array([span for _, steps, _, _ in pieces for span in steps])
    table[:, rates.FIELD["started_at_s"]], table[:, rates.FIELD["step_time_s"]] = spans[:, 0], spans[:, 1] - spans[:, 0]
    segments = tuple(
        Segment(opened_at_s=opened, closing_at_s=closing, closed_at_s=closed, steps=len(steps), samples=1)
        for opened, steps, closing, closed in pieces
    )
    return Result(steps=9, segments=segments), table


def test_time_between_steps_and_at_closing_barriers_is_a_mean_over_workers():
    first, first_rows = in_pieces((1, [(1.5, 2), (3, 4)], 4.25, 6), (10, [(10, 20)], 20, 20.5))
    second, second_rows = in_pieces((0, [(0, 2), (2, 4)], 4, 4), (9, [(9, 19)], 19, 19))
    assert rates.between_steps([first], [first_rows]) == (0.5 + 1 + 0.25, 1.75 + 0.5)
    assert rates.between_steps([second], [second_rows]) == (0, 0)
    assert rates.between_steps([first, second], [first_rows, second_rows]) == (0.875, 1.125)


def test_time_between_calls_of_several_steps_is_that_between_their_rows():
    apart, rows_apart = in_pieces((1, [(1.5, 2), (3, 4)], 4.25, 6), (10, [(10, 20)], 20, 20.5))
    several = rows_apart.copy()
    several[:, rates.FIELD["num_steps"]] = 5, 1, 3
    first, second = apart.segments
    together = (first.model_copy(update={"steps": 6}), second.model_copy(update={"steps": 3}))
    found = rates.between_steps([apart.model_copy(update={"segments": together})], [several])
    assert found == rates.between_steps([apart], [rows_apart])


def test_a_piece_without_a_step_takes_no_time_between_steps():
    whole, rows_of_it = in_pieces((1, [(1.5, 2), (3, 4)], 4.25, 6), (10, [(10, 20)], 20, 20.5))
    for place in range(3):
        segments = list(whole.segments)
        segments.insert(place, segments[0].model_copy(update={"steps": 0, "samples": 0}))
        with_empty = whole.model_copy(update={"segments": tuple(segments)})
        assert rates.between_steps([with_empty], [rows_of_it]) == rates.between_steps([whole], [rows_of_it])
    nothing = whole.model_copy(update={"segments": (whole.segments[0].model_copy(update={"steps": 0}),)})
    assert rates.between_steps([nothing], [rows_of_it[:0]]) == (None, None)


def test_time_between_steps_is_unknown_where_a_worker_does_not_say_when_it_came_to_a_barrier():
    known, known_rows = in_pieces((0, [(0, 1)], 1, 1))
    assert rates.between_steps([known, result((0, 1, 1, 1))], [known_rows, known_rows]) == (None, None)
    assert rates.between_steps([result()], [known_rows[:0]]) == (None, None)


def test_drift_compares_the_halves_of_the_window_over_all_workers():
    def stepping(*times: float, samples: list[float] | float = 8.0) -> np.ndarray:
        table = rows(len(times))
        table[:, rates.FIELD["num_samples"]] = samples
        table[:, rates.FIELD["step_time_s"]] = times
        return table

    outside = rows(9, step_time_s=100.0, phase=rates.PHASE["warm-up"])
    assert rates.drift([stepping(2, 2, 1, 1)]) == 1.0  # twice as fast
    assert rates.drift([np.concatenate([outside, stepping(1, 1, 50, 2, 2)])]) == -0.5
    assert rates.drift([stepping(3, 3, 1, 1), stepping(3, 3, 3, 3)]) == 0.5
    # A step of four times the samples that takes twice as long is twice as fast.
    assert rates.drift([stepping(1, 1, 2, 2, samples=[8, 8, 32, 32])]) == 1.0
    assert rates.drift([stepping(1, 1), stepping(1)]) is None
    assert rates.drift([stepping(1, 1, samples=0)]) is None
    assert rates.drift([]) is None
