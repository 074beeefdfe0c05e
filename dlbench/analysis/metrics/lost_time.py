"""Where the time of several workers goes that one worker alone does not need, in parts that sum to the whole.

From its start-up to the end of training a run has workers x time for its samples: so much is spent on one sample. What
one worker alone spends on it is needed. The rest is missing efficiency, and falls into parts: start-up, first step
(compilation), evaluations and checkpoints by the clocks of the run; input, computing, messages, waiting for the
slowest, update and bookkeeping are training time, shared out as the timed window is.

Parts are means over repeats, so that they sum to the whole exactly. What takes less than the base line's is negative.
"""

from collections.abc import Iterable, Mapping
from statistics import fmean

from dlbench.analysis.arms import Arm, Row
from dlbench.analysis.formatting import percent
from dlbench.scenario.settings import BatchScope

START, COMPUTING, UPDATE, WAITING = "start-up", "computing", "update", "waiting for the slowest"
OTHER, ONE_CALL = "other", "computing and messages in one call"
# What training time is shared out among, by what `window_shares` returns.
_WINDOW = {
    "data_wait_s": "input",
    "compute_time_s": COMPUTING,
    "communication_time_s": "messages",
    "wire_time_s": "messages",
    "encoding_time_s": "encoding",
    "decoding_time_s": "decoding",
    "update_time_s": UPDATE,
    "bookkeeping_time_s": "bookkeeping",
    "peer_wait_s": WAITING,
    "closing_wait_s": WAITING,
    OTHER: OTHER,
}
_CLOCKS = {
    START: "startup_time_s",
    "first step": "first_step_s",
    "evaluation": "evaluation_time_s",
    "checkpoints": "checkpoint_time_s",
}
# Less of the time is not worth a change.
LEAST = 0.02
# So much of a run is worth saying.
MUCH_START = 0.2
# What takes less of it away.
_REMEDIES = {
    "first step": "train longer: it is paid once",
    "evaluation": "evaluate less often (`evaluate_every`)",
    "checkpoints": "make fewer of them (`checkpoint_every`)",
    "input": "`input: memory`, or a data set that reads faster",
    "messages": "a faster link, larger batches, or a strategy that sends less or less often",
    "encoding": "a compression that computes less, or none: the link may be fast enough for whole gradients",
    "decoding": "a compression that sends less, or none: each worker adds up what all have sent",
    WAITING: "free the slowest worker's cores and host, or take a strategy that does not wait",
    UPDATE: "larger batches, or `horovod`, which updates inside the compiled step",
    "bookkeeping": "larger batches: it is the same for each step",
    ONE_CALL: "compare `mpi`, whose messages are timed apart",
    OTHER: "larger batches: it lies within steps",
}


def lost_time(arm: Arm) -> dict[str, float] | None:
    """Return the share of an arm's worker-time that each part takes beyond what the base line spends; largest first.

    They sum to 1 - efficiency: the time that one worker alone needs for a sample / the arm's worker-time for one, of
    whole runs. None without a base line, or where runs lack the times or are too short for a rate.
    """
    together, alone = _spent(arm.completed), _spent(arm.base_line)
    if arm.is_alone or not together or not alone:
        return None
    if UPDATE in together and UPDATE not in alone and COMPUTING in together:
        # One worker alone updates inside its compiled step.
        together[COMPUTING] += together.pop(UPDATE)
    if ONE_CALL in together:
        alone[ONE_CALL] = alone.pop(COMPUTING, 0.0)
    # However long one worker takes to start, no sample needs that.
    alone[START] = 0.0
    whole = sum(together.values())
    names = dict.fromkeys((*together, *alone))
    missing = {name: (together.get(name, 0.0) - alone.get(name, 0.0)) / whole for name in names}
    # Where one worker is slow all others wait for it: what it computes longer itself is a part of that.
    if arm.workers > 1 and {WAITING, COMPUTING} <= missing.keys():
        longer = max(0.0, min(missing[COMPUTING], missing[WAITING] / (arm.workers - 1)))
        missing[WAITING], missing[COMPUTING] = missing[WAITING] + longer, missing[COMPUTING] - longer
    return dict(sorted(missing.items(), key=lambda part: -part[1]))


def _spent(rows: Iterable[Row]) -> dict[str, float]:
    """Return the worker-time that runs spend on a sample by part, means over runs; empty where one is not known."""
    parts_of_runs = [_parts(row) for row in rows]
    if not parts_of_runs or not all(parts_of_runs):
        return {}
    names = dict.fromkeys(name for parts in parts_of_runs for name in parts)
    return {name: fmean(parts.get(name, 0.0) for parts in parts_of_runs) for name in names}


def window_shares(row: Row) -> dict[str, float]:
    """Return the share of a run's timed window by the column of each part that was timed, and `OTHER`.

    Exposed communication is split into `peer_wait_s` and `wire_time_s` as in the marked steps, where there are any.
    The parts are means over workers, and the window is as long as the slowest saw: a sum above it is rounding.
    """
    times = {column: row[column] for column in _WINDOW if row.get(column) is not None}
    waiting, moving = times.pop("peer_wait_s", None), times.pop("wire_time_s", None)
    if "communication_time_s" in times and waiting is not None and moving is not None and waiting + moving > 0:
        exposed, waited = times.pop("communication_time_s"), waiting / (waiting + moving)
        times |= {"peer_wait_s": exposed * waited, "wire_time_s": exposed * (1 - waited)}
    shares = {column: seconds / row["timed_window_s"] for column, seconds in times.items()}
    return shares | {OTHER: max(0.0, 1 - sum(shares.values()))}


def _parts(row: Row) -> dict[str, float]:
    """Return the parts of one run's worker-time for a sample, which sum to it; empty where they are not known."""
    samples, workers = row.get("samples_seen"), float(row.get("workers") or 1)
    needed = ("samples_per_s", "train_time_s", "startup_time_s", "first_step_s", "compute_time_s")
    if not samples or not row.get("timed_window_s") or None in map(row.get, needed):
        return {}
    share_of: dict[str, float] = {}
    for column, share in window_shares(row).items():
        share_of[_WINDOW[column]] = share_of.get(_WINDOW[column], 0.0) + share
    if "messages" not in share_of and workers > 1:
        share_of[ONE_CALL] = share_of.pop(COMPUTING)
    seconds = {name: float(row.get(column) or 0.0) for name, column in _CLOCKS.items()}
    # The first step is a part of training; what the window says holds for the others.
    stepping = max(row["train_time_s"] - seconds["first step"], 0.0)
    seconds |= {name: stepping * share for name, share in share_of.items()}
    return {name: time * workers / samples for name, time in seconds.items()}


def _remedy(name: str, arm: Arm) -> str:
    """Return what takes less of a part."""
    if name == "messages" and arm.get("servers"):
        return f"more servers (the time in which they apply gradients is in it), {_REMEDIES[name]}"
    if name != COMPUTING:
        return _REMEDIES[name]
    threads, cores = arm.get("intra_op_threads"), arm.get("cores_per_worker")
    if threads and cores and threads > max(1.0, cores):
        return f"{threads} threads of a worker share {cores:g} of its cores: start fewer"
    if arm.get("batch_scope") == BatchScope.GLOBAL:
        return "larger batches: a worker's part of one is small"
    return "fewer workers on a machine: they share its memory and clock"


def sentence(arm: Arm, lost: Mapping[str, float]) -> str:
    """Say what takes most of the missing time of training, what to change first, and the most that it can gain."""
    started = 1 - lost.get(START, 0.0)
    efficiency = (1 - sum(lost.values())) / started
    parts = {name: share for name, share in lost.items() if name != START}
    # What takes less than the base line's is taken off the others in proportion: printed parts sum to the whole, and
    # none can gain more than all of them.
    longer = sum(share for share in parts.values() if share > 0)
    parts = {name: share * (1 - efficiency) / longer for name, share in parts.items()} if longer else parts
    # A longer training pays no more of the first step.
    ranked = sorted(parts.items(), key=lambda part: (part[0] == "first step" and part[1] >= LEAST, -part[1]))
    name, share = next((part for part in ranked if part[1] >= LEAST), ranked[0])
    start = f"{arm.title or arm.label}: {percent(efficiency)} of the workers' time is what one worker alone needs"
    once = f"; start-up, which is not in this, is {percent(1 - started)} of the run"
    once = once if 1 - started >= MUCH_START else ""
    if efficiency > 1:
        faster = percent(1 - 1 / efficiency)
        return f"{arm.title or arm.label}: the workers take {faster} less time for a sample than one worker alone{once}"
    if share < LEAST:
        return start + once
    others = "".join(f", {other} {percent(part)}" for other, part in ranked if other != name and part >= LEAST)
    gain = percent(share / (1 - share))
    takes = "take" if name == "messages" else "takes"
    what = f"{name.capitalize()} {takes} {percent(share)} beyond that: {_remedy(name, arm)} (at most {gain} faster)"
    return f"{start}. {what}{others}{once}"
