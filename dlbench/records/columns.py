"""Every column of every CSV file, with its type, unit and meaning: the one place; the documentation is drawn from it.

Unknown is an empty cell, never 0 or "NA". `SCHEMA_VERSION` grows when a column's meaning changes or one goes away.

History:
    1: first version; no longer read.
    2: `driver` is called `communicator`; `batch_size_origin` (`found` where dlbench searched for the batch) is gone.
        No longer read.
    3: `warmup_steps` and `warmup_detected` are those of a truncation by MSER-5 in place of a rolling median; the
        window of every strategy is cut at the same steps, which are `sampled`.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal

from dlbench.errors import UserError
from dlbench.records.gpus import THROTTLES
from dlbench.scenario.metrics import SCORES

SCHEMA_VERSION = 3

Kind = Literal["text", "int", "float", "bool", "time"]
# What pandas holds them as: types in which a cell can be unknown.
DTYPES: dict[Kind, str] = {"text": "string", "int": "Int64", "float": "float64", "bool": "boolean", "time": "string"}


# Columns of plugin options that a table may have, and letters of a name.
MOST_EXTRA = 500
MOST_NAME_LETTERS = 1_000
# A spreadsheet takes a cell that begins with one of these for a formula.
FORMULA_MARKS = ("-", "=", "+", "@", "\t")


@dataclass(frozen=True)
class Column:
    """One column: its name, the kind of its cells, its unit ("" where it has none) and what it means."""

    name: str
    kind: Kind
    unit: str
    meaning: str


def require_version(version: int, where: str) -> None:
    """Refuse a study of another schema version.

    Raises:
        UserError: It is not `SCHEMA_VERSION`.
    """
    if version != SCHEMA_VERSION:
        message = f"the study has schema version {version}; this dlbench reads {SCHEMA_VERSION}"
        older = "an older" if version < SCHEMA_VERSION else "a newer"
        raise UserError(message, where=where, hint=f"{older} dlbench wrote it; read it with that one")


# Name, kind, unit and meaning of a column.
Row = tuple[str, Kind, str, str]


def _table(*rows: Row) -> tuple[Column, ...]:
    return tuple(Column(*row) for row in rows)


# Unit of each score, and what it is the mean of.
_MEANS = {
    "loss": ("nats", "Cross-entropy, of a regression the squared error"),
    "accuracy": ("", "Correct predictions"),
    "mean_squared_error": ("", "Squared error of a regression"),
}


def _of_scores(form: str, meaning: str) -> Iterator[Row]:
    for name in SCORES:
        unit, what = _MEANS[name]
        yield form.format(name), "float", unit, f"{what}{meaning}"


# One row a line, however long: a table is read down its columns.
# fmt: off
_OF_A_RUN: tuple[Row, ...] = (
    ("run_id", "text", "", "The run."),
    ("attempt", "int", "", "The attempt."),
)
_OF_A_WORKER: tuple[Row, ...] = (*_OF_A_RUN, ("worker", "int", "", "The worker."))

RUNS = _table(
    ("study", "text", "", "Name of the study's folder."),
    ("run_id", "text", "", "Slug, hash of the resolved specification, and repeat."),
    ("attempt", "int", "", "Which launch of the run this row is: 1, 2, ... Every attempt is a row."),
    ("scenario", "text", "", "Name of the scenario."),
    ("label", "text", "", "Distinguishes this arm from the study's others."),
    ("repeat", "int", "", "0, 1, ...; repeats with the same number share a seed in all arms."),
    ("baseline", "bool", "", "Whether dlbench added this run as a base line."),
    ("phase", "text", "", "What the run was made for: measure; tune where it is one of the search that chooses what its arm is measured at; confirm where it is one on fresh seeds of the arm that won, or of a rival. The latter two are no results, and have seeds of their own. Empty in older studies: measure."),
    ("repeats_rule", "text", "", "How it was decided how often the arm was run, such as `until decided: 3 to 20`: its p-values are then compared with a smaller level than 5%. Empty for a fixed number."),
    ("tuned", "text", "", "The settings and options whose value was searched for, joined by `;`. Empty where none was."),
    ("tuned_at_edge", "text", "", "Which of these values are the least or greatest that were tried, so that others beyond may be better."),
    ("tuned_scattered", "bool", "", "Whether the search did not tell learning rates apart: those near the best one do not get worse to both sides of it. Then the scenario's own rate was taken, if it was among the better half. Empty without a search, and where less than four rates could be compared."),
    ("status", "text", "", "completed, failed, timeout, stalled, diverged, out-of-memory or interrupted."),
    ("reason", "text", "", "Why it is not completed: the first real error, with the worker it came from."),
    ("exit_code", "int", "", "Exit code of the launcher; negative: ended by that signal."),
    ("started_at", "time", "UTC", "When the launcher was started (ISO 8601)."),
    ("schema_version", "int", "", "Version of these columns."),
    ("model", "text", "", "The network."),
    ("dataset", "text", "", "The samples."),
    ("dataset_checksum", "text", "", "Checksum of the prepared arrays every worker read."),
    ("dataset_doubt", "text", "", "Why scores on its validation samples are doubtful: some are also training samples. Empty where that is up to 1% of them, or, of text and rows of whole numbers, up to 90% and at most twice the share of training samples that repeat."),
    ("trainer", "text", "", "The engine that computed gradients."),
    ("strategy", "text", "", "How gradients or parameters were combined."),
    ("communicator", "text", "", "What carried the strategy's messages."),
    ("algorithm", "text", "", "The strategy's algorithm."),
    ("compression", "text", "", "What workers sent in place of whole gradients; empty where these travelled as they are."),
    ("algorithm_proof", "text", "", "What the library itself reports that it ran, where it can."),
    ("routes", "text", "", "Which way the gradient of each lookup table went under `parallax`, with the mean share of its rows that a worker's batch touched, such as `embedding: server (touched 0.031)`; other variables were all-reduced. Empty under other strategies and without tables."),
    ("launcher", "text", "", "Who started the processes."),
    ("submitter", "text", "", "Where the launcher was started."),
    ("collectives", "text", "", "The library that moved bytes."),
    ("backend", "text", "", "What computed the model: the engine beneath Keras, or NumPy."),
    ("interface", "text", "", "Network interface that messages between hosts took on the host of worker 0; empty on one host."),
    ("transports", "text", "", "What the library was set to move bytes with, such as Open MPI's layer and transports; empty where the choice was its own."),
    ("command", "text", "", "The user's own training script, if the run was one."),
    ("code_checksum", "text", "", "Checksum of the user's own code when the run was launched: the scripts that `command` executes and `module:function`, with the modules that both import beside them. Empty without, where a script is not found where dlbench was called, and where it was changed while the run went on."),
    ("workers_inside", "bool", "", "Whether that script started its workers itself, from one process."),
    ("mode", "text", "", "scale-up, scale-out, or empty where `workers_per_host` says it."),
    ("hosts", "int", "", "Number of hosts used; of a simulated run, of the hosts that its workers would be on."),
    ("machines", "int", "", "Number of machines that the hosts are: fewer than hosts where some are containers on one kernel, whose messages cross no network. Empty where they were not asked."),
    ("workers_per_host", "int", "", "Most workers on one host."),
    ("workers", "int", "", "Number of replicas."),
    ("processes", "int", "", "Number of OS processes."),
    ("servers", "int", "", "Servers, each of which held a part of the parameters and trained nothing; 0 where the strategy has none."),
    ("evaluator", "text", "", "Where the process is that scores while workers train: on its own slot and cores, or beside workers. Empty where there is none."),
    ("server_placement", "text", "", "Where they were: beside workers, or own: on a slot and cores of their own (of a simulated run, on a host). Empty without any."),
    ("cores_per_worker", "float", "cores", "CPU cores each worker was bound to, or its share of one."),
    ("cores_enforced", "text", "", "How: affinity, quota, or none."),
    ("memory_limit_bytes", "int", "bytes", "Memory each worker was allowed to take on its host; empty where it was not limited."),
    ("intra_op_threads", "int", "", "Threads inside one operation, as counted in the worker."),
    ("inter_op_threads", "int", "", "Operations at once, as counted in the worker."),
    ("batch_scope", "text", "", "Whether batch_size counted one worker's samples or all."),
    ("batch_size", "int", "samples", "Batch size as the scenario gives it."),
    ("batch_size_per_worker", "float", "samples", "Mean local batch: global / workers."),
    ("batch_size_global", "int", "samples", "Samples of all workers in one step; where a command accumulates gradients, in one pass (script_note)."),
    ("divide", "text", "", "What was divided over the workers: data or epochs."),
    ("remainder", "text", "", "How samples of an epoch that fill no global batch are handled: train (a smaller last step) or drop. Empty where a command of the user's own trained."),
    ("epochs", "int", "", "Epochs as the scenario gives them."),
    ("epochs_per_worker", "int", "", "Epochs each worker was to train."),
    ("epochs_completed", "int", "", "Epochs each worker trained: fewer where the target ended the run."),
    ("optimizer", "text", "", "The optimizer."),
    ("momentum", "float", "", "Momentum of sgd and rmsprop."),
    ("nesterov", "bool", "", "Whether it was Nesterov's momentum."),
    ("weight_decay", "float", "", "Decoupled weight decay, per step and unit of learning rate."),
    ("gradient_accumulation_steps", "int", "", "Parts a worker's batch was computed in, one after the other."),
    ("microbatch_size", "int", "samples", "Most samples that a worker differentiated at once; empty where a batch of any size was."),
    ("steps_per_execution", "int", "steps", "Steps that one call was asked to make; those of an epoch that filled no call were made one by one."),
    ("batch_policy", "text", "", "How the batch changed while the run trained: fixed, step-doubling or goodput; batch_size is where it began."),
    ("largest_batch_size", "int", "samples", "Largest batch that the policy may choose, counted as batch_size; empty of a fixed batch."),
    ("batch_doubling_epochs", "int", "epochs", "Epochs between two doublings of step-doubling."),
    ("batch_policy_steps", "int", "steps", "Steps between two decisions of goodput; empty for other policies."),
    ("batch_changes", "int", "", "How often the batch changed; empty of a fixed batch."),
    ("batch_size_last", "int", "samples", "Samples of all workers in a step after the last change; empty of a fixed batch."),
    ("learning_rate_base", "float", "", "Learning rate at the base batch."),
    ("learning_rate_base_batch", "int", "samples", "The global batch it was tuned for."),
    ("learning_rate_scale", "text", "", "none, linear or sqrt, by the global batch."),
    ("learning_rate", "float", "", "The rate in effect after warm-up, before it decays."),
    ("learning_rate_per_sample", "float", "1/samples", "What one sample changes in the shared parameters: rate of an update x share of a worker's gradient in it / samples of that gradient. Empty where a command of the user's own trained, or each gradient's staleness divides the rate."),
    ("warmup_epochs", "float", "epochs", "Epochs of linear learning-rate warm-up."),
    ("learning_rate_decay", "text", "", "How the rate fell after warm-up: none, step or cosine."),
    ("learning_rate_decay_epochs", "int", "epochs", "Epochs between two falls of step."),
    ("learning_rate_decay_factor", "float", "", "What step multiplies the rate by."),
    ("precision", "text", "", "The numbers it computed in."),
    ("input", "text", "", "Where samples came from: mapped, memory, device (the accelerator held them and gathered each batch) or synthetic (one batch of random numbers: losses and accuracies then mean nothing)."),
    ("augmentation", "text", "", "What was done to training pictures: none or crop-flip."),
    ("augmentation_padding", "int", "pixels", "Pixels added on each side before crop-flip crops; empty without augmentation."),
    ("checkpoint_every", "int", "epochs", "Epochs between checkpoints; empty where none were made."),
    ("resumed_from_epoch", "int", "epochs", "Epochs that this attempt took over from a checkpoint of earlier ones; empty where it started from the beginning. Counts, times and scores of the training are then totals over the attempts that led to the result; what was trained after that checkpoint and lost is in none of them. Start-up, first step, checkpoints, the timed window with all rates, energy, network, sensors and `steps.csv` are this attempt's alone."),
    ("checkpoint_time_s", "float", "s", "Making checkpoints in this attempt, outside training and the timed window: the slowest worker's sum."),
    ("checkpoint_bytes", "int", "bytes", "Size of the last checkpoint that this attempt wrote."),
    ("checkpoint_note", "text", "", "Checkpoints that could not be used or written, and why."),
    ("jit_compile", "bool", "", "Whether the step was compiled with XLA."),
    ("seed", "int", "", "Seed of this repeat."),
    ("evaluate_every", "int", "epochs", "Epochs between evaluations."),
    ("evaluation_batch_size", "int", "samples", "Samples per evaluation step of each worker."),
    ("extend_window", "bool", "", "Whether steps were added for the timed window."),
    ("sample_every", "int", "steps", "The timed window is cut at each such step, whatever the strategy; see sampled_steps."),
    ("sensor_interval_s", "float", "s", "Time between two readings of the sensors."),
    ("target_metric", "text", "", "Metric of the target."),
    ("target_value", "float", "", "Value of the target."),
    ("target_stop", "bool", "", "Whether reaching the target ended the run."),
    ("emulated", "text", "", "Reasons why this is not representative hardware, joined by ';'."),
    ("num_parameters", "int", "", "Trainable parameters."),
    ("flops_per_sample", "float", "FLOP", "Training cost of one sample: 3 x forward; 1 MAC = 2 FLOP."),
    ("tf32", "bool", "", "Whether products or convolutions of float32 could be computed in TF32, as the engine says. Empty where it does not."),
    ("peak_flops", "float", "FLOP/s", "What one worker's device computes at most in this precision, dense, as its data sheet says (`dlbench/analysis/metrics/peaks.py`): of mixed precisions with sums in float32; of float32 in TF32 where `tf32` says so. Empty for processors and for devices that are not in that table, and where workers have different ones or `tf32` would decide and is empty."),
    ("train_samples", "int", "samples", "Training samples used."),
    ("validation_fraction", "float", "", "Share of the data kept for validation where the data set is not split."),
    ("validation_samples", "int", "samples", "Validation samples used; each is counted exactly once per evaluation."),
    ("samples_seen", "int", "samples", "Samples all workers trained on, without those of an extended window; after `resumed_from_epoch` a total."),
    ("samples_dropped", "int", "samples", "Samples left out because they fill no global batch, over all epochs; 0 with `remainder: train`. Empty where a command of the user's own trained."),
    ("steps", "int", "steps", "Steps each worker trained, without those of an extended window; after `resumed_from_epoch` a total."),
    ("startup_time_s", "float", "s", "From the launcher's start until every worker was ready for its first step. Empty where the clocks of two hosts make it less than 0, or more than the run."),
    ("first_step_s", "float", "s", "The first step, compilation included: the slowest worker's."),
    ("train_time_s", "float", "s", "From the first step to the end of training, evaluations and checkpoints left out; after `resumed_from_epoch` a total."),
    ("evaluation_time_s", "float", "s", "All evaluations: the slowest worker's sum; after `resumed_from_epoch` a total."),
    ("timed_window_s", "float", "s", "Time inside the timed window, common to all workers."),
    ("timed_steps", "int", "steps", "Steps inside the timed window; of workers that do not wait, their mean."),
    ("timed_samples", "int", "samples", "Samples of all workers inside the timed window. Divided by timed_window_s they are a rate, which counts only where samples_per_s is given."),
    ("extended_steps", "int", "steps", "Of them, steps added after training."),
    ("warmup_steps", "int", "steps", "Steps before the window: the first, and those truncated as warm-up, whole pieces of the window with the steps between them."),
    ("warmup_detected", "bool", "", "Whether step times had settled: MSER-5 found its minimum before the end of the first half. Empty below 50 steps, and where the batch changed."),
    ("sampled_steps", "int", "steps", "Steps at which the window is cut, at 8, 16, 32, ... and every sample_every; where gradients are reduced between two calls, marked with a barrier before that."),
    ("peer_wait_s", "float", "s", "Median wait for the slowest peer in a marked step, mean over workers."),
    ("wire_time_s", "float", "s", "Median all-reduce in a marked step after all peers were ready, mean over workers."),
    ("data_wait_s", "float", "s", "Waiting for batches inside the window, mean over workers."),
    ("compute_time_s", "float", "s", "From batch to local gradient ready inside the window, without pulling of rows, mean over workers."),
    ("encoding_time_s", "float", "s", "Making what is sent in place of gradients inside the window, mean over workers. Empty where they travel as they are."),
    ("communication_time_s", "float", "s", "Inside the window, from the last local gradient ready to the reduced gradient usable, waiting for peers included, encoding and decoding left out; of `parallax` the pulling of rows before the gradient, too; mean over workers. Empty where it cannot be observed."),
    ("decoding_time_s", "float", "s", "Adding up what was received inside the window, mean over workers. Empty where gradients travel as they are."),
    ("update_time_s", "float", "s", "Applying updates inside the window, mean over workers."),
    ("bookkeeping_time_s", "float", "s", "Inside the window, between steps: from the end of one to the start of the next, and from a piece's last step to its closing barrier; mean over workers."),
    ("closing_wait_s", "float", "s", "Inside the window, at the barriers that close its pieces: waiting for the device and for every worker, mean over workers."),
    ("stated", "text", "", "Metrics that the run's script printed or wrote, or that a table from elsewhere says, joined by ';': dlbench did not measure them."),
    ("stated_note", "text", "", "Metrics that the scenario takes from what the script prints or writes, and that were not there, with the reason."),
    ("script_note", "text", "", "What makes numbers of a run doubtful. Of any: a worker stood still, stopped or suspended. Of a script: it began with a later epoch, its workers reported different scores, each printed a rate, nothing connects them, or it accumulates gradients. Of a table: its scores were left out, or its rates rest on batches that may be of each worker or of all."),
    ("wall_time_s", "float", "s", "From the launcher's start until every process had ended."),
    ("cost", "float", "", "Price of the run as the cluster file has it: wall_time_s on its hosts and its workers' slots; of a simulated run, of the process that simulates. Empty without prices."),
    ("cost_currency", "text", "", "What cost is counted in."),
    ("samples_per_s", "float", "samples/s", "Samples of all workers in the window / its time; empty below 50 steps or 5 s (of simulated runs: below 50 steps)."),
    ("samples_per_s_per_worker", "float", "samples/s", "samples_per_s / workers."),
    ("mfu", "float", "", "Model FLOP utilisation of one worker's device: flops_per_sample x samples_per_s_per_worker / peak_flops."),
    ("rate_drift", "float", "", "Rate of the second half of the window's steps / that of the first half - 1, by the samples and step times of all workers; beyond +-0.05 the run is flagged. Empty where samples_per_s is."),
    ("step_time_p50_s", "float", "s", "Median step inside the window, all workers' steps together. Empty where calls made several steps, whose times are not seen."),
    ("step_time_p95_s", "float", "s", "95th percentile of the same."),
    *_of_scores("train_{}", ": sum over count of all workers' samples in the last epoch, as they were trained on."),
    *_of_scores("validation_{}", ": sum over count at the last evaluation, each validation sample exactly once."),
    ("best_validation_accuracy", "float", "", "Highest of all evaluations."),
    *_of_scores("knows_nothing_{}", ": what a model scores that knows how the validation targets are distributed and nothing else; empty for scripts and synthetic input."),
    ("time_to_target_s", "float", "s", "Training time, evaluations and checkpoints left out, at the first evaluation that reached the target; after `resumed_from_epoch` a total."),
    ("epochs_to_target", "int", "epochs", "Epochs at that evaluation."),
    ("bytes_sent", "int", "bytes", "Bytes the strategy sent in training steps, all workers and servers; empty where it cannot count them; after `resumed_from_epoch` a total."),
    ("messages", "int", "", "Messages of all workers and servers; empty where they are not counted."),
    ("updates", "int", "", "Updates of parameters: by servers, or where these apply no gradients, those that workers make of their own parameters, summed over workers. Of `sandblaster` evaluations of the whole loss, whose trial points servers make."),
    ("updates_per_s", "float", "updates/s", "updates / train_time_s; empty where servers apply no gradients."),
    ("samples_per_update", "float", "samples", "The batch that an update was made of: samples_seen / updates; empty there, too."),
    ("gradient_noise_scale", "float", "samples", "tr(S) / |G|^2 of the gradients (McCandlish 2018), averaged over the attempt: where more samples in a batch begin to buy little. A hint that is fair to two to four times the batch. Empty below 50 steps at which norms were taken (every eighth), for one worker, where workers' gradients are not seen apart, or where noise hides the gradient."),
    ("gradients_dropped", "int", "", "Gradients that entered no update; their samples are not in samples_seen, but in the sums of train_loss. Of mixed_float16 those of updates that loss scaling skipped, which are steps and samples_seen all the same."),
    ("staleness_mean", "float", "updates", "Mean over what workers pushed of its staleness: version of the parameters at the update - version that the (last) gradient in it was computed at. Empty where servers apply no gradients."),
    ("staleness_max", "int", "updates", "The largest."),
    ("bytes_sent_per_step", "float", "bytes", "The same per step and worker."),
    ("device_name", "text", "", "Processor (with family and model) or accelerator of the first worker."),
    ("device_utilization", "float", "", "Share of the devices in use inside the window: CPU time / (time x cores), or NVML's."),
    ("device_throttled", "float", "", "Share of NVML's readings inside the window in which power, heat or the hardware held back the clocks of a worker's GPU, mean over workers; of a script whose steps are not counted, of all readings. Clocks that are set, and those of an idle GPU, are not held back."),
    *((f"device_{name}", "float", "", f"The same where the reason was {reason}; there may be several at once.") for name, reason in THROTTLES.items() if reason),
    ("device_rejected", "text", "", "Readings of GPUs that cannot be true and count nowhere, such as `power_w 3 of 60`, joined by '; ': more than all of the time or the memory, no power or more than twice the limit, energy once its counter fell or stood still. `sensors.csv` has them as `rejected_...`."),
    ("device_memory_peak_bytes", "int", "bytes", "Most memory in use on the device of one worker while the run trained, by whomever (NVML)."),
    ("host_memory_peak_bytes", "int", "bytes", "Largest resident memory of one worker since its start."),
    ("network_bytes", "int", "bytes", "Bytes sent on all interfaces of all hosts, loopback included, while the run trained."),
    ("wire_bytes", "int", "bytes", "Of them, bytes sent on the interfaces between hosts, whatever else used them; what goes past the kernel, as RDMA does, is in neither. Empty on one host, and where a host did not report."),
    ("link_latency_s", "float", "s", "Slowest link between two of the run's hosts, measured before the study: half of the median time of one byte there and back over TCP."),
    ("link_bandwidth_bytes_per_s", "float", "bytes/s", "Narrowest link between two of the run's hosts, measured before the study: one TCP stream, the slower direction."),
    ("energy_j", "float", "J", "Energy while the run trained: of the workers' GPUs (NVML), or where none computed, of the hosts' processors and memory (RAPL), whatever else ran there."),
    ("steal_fraction", "float", "", "Share of CPU time taken by the hypervisor while the run trained."),
    ("other_cpu_cores", "float", "cores", "CPU cores that processes other than the workers kept busy while the run trained, on all its hosts together. Empty for less than a second of training."),
    ("observer_cpu_s", "float", "s", "CPU time of dlbench's own observing threads inside the window, all workers."),
    ("workers_agree", "text", "", "exact, close or no: trainable weights over all workers after the first step and at the end."),
    ("workers_max_difference", "float", "", "Largest difference between any two workers' weights, where not exact."),
    ("dlbench_version", "text", "", "Version of dlbench."),
    ("python_version", "text", "", "Version of Python."),
    ("keras_version", "text", "", "Version of Keras."),
    ("tensorflow_version", "text", "", "Version of TensorFlow."),
    ("torch_version", "text", "", "Version of PyTorch."),
    ("jax_version", "text", "", "Version of JAX."),
    ("numpy_version", "text", "", "Version of NumPy."),
    ("mpi_version", "text", "", "Name and version of the MPI library that was loaded."),
    ("horovod_version", "text", "", "Version of Horovod."),
    ("autotuned_fusion_threshold_mb", "float", "MiB", "The fusion threshold that Horovod's autotuning settled on; empty where it did not run or had not ended."),
    ("autotuned_cycle_time_ms", "float", "ms", "The cycle time that it settled on."),
)

EPOCHS = _table(
    *_OF_A_WORKER,
    ("epoch", "int", "", "1, 2, ...; the row is written at the epoch's end."),
    ("steps", "int", "steps", "Steps of this worker so far."),
    ("samples", "int", "samples", "Samples this worker trained on in this epoch."),
    ("learning_rate", "float", "", "Rate of the epoch's last step."),
    ("train_time_s", "float", "s", "Training time so far, evaluations and checkpoints left out, in all attempts that led here."),
    ("ended_at_s", "float", "s", "Seconds since the worker's first step in this attempt; empty where an earlier attempt trained the epoch. Of workers that do not wait, when its last samples had entered the parameters that are scored."),
    *_of_scores("train_{}", ": sum over count of all workers in this epoch."),
    *_of_scores("validation_{}", ": over all workers; empty where this epoch was not evaluated."),
    ("evaluated_samples", "int", "samples", "Validation samples this worker evaluated."),
    ("evaluation_time_s", "float", "s", "This evaluation."),
    ("trained_in_attempt", "int", "", "The attempt that trained the epoch: an earlier one where this attempt went on from a checkpoint, so that every attempt has all epochs of its result."),
)

STEPS = _table(
    *_OF_A_WORKER,
    ("step", "int", "", "1, 2, ...: number of the (last) step; an attempt that went on from a checkpoint begins after its steps."),
    ("num_steps", "int", "steps", "Steps this row stands for: more than 1 where one call ran several."),
    ("epoch", "int", "", "1, 2, ...; 0 in an extended window."),
    ("phase", "text", "", "first, warm-up, timed, sampled (outside the window, at a cut of it), extended (timed, after training), or remainder (an epoch's smaller last step, or one after the window of workers that do not wait; outside the window)."),
    ("num_samples", "int", "samples", "Samples of this worker; of all workers of its process where one holds several."),
    ("started_at_s", "float", "s", "Seconds since the worker's first step."),
    ("step_time_s", "float", "s", "From asking for the batch to the update applied."),
    ("data_wait_s", "float", "s", "Waiting for the batch."),
    ("compute_time_s", "float", "s", "From batch to local gradient ready, without pulling of rows; the whole step where it is one call."),
    ("peer_wait_s", "float", "s", "In marked steps: waiting at the barrier before the all-reduce."),
    ("communication_time_s", "float", "s", "From local gradient ready to reduced gradient usable, without encoding and decoding; of `parallax` the pulling of rows before it, too."),
    ("update_time_s", "float", "s", "Applying the update."),
    ("loss", "float", "nats", "Mean loss of this worker's samples before the update."),
    ("encoding_time_s", "float", "s", "Making what is sent in place of the gradient, where it is compressed."),
    ("decoding_time_s", "float", "s", "Adding up what was received, where gradients are compressed."),
)

SENSORS = _table(
    *_OF_A_RUN,
    ("worker", "int", "", "The worker that read it."),
    ("at_s", "float", "s", "Seconds since the worker's first step; negative before it."),
    ("sensor", "text", "", "Which sensor."),
    ("quantity", "text", "", "What was read, with its unit in the name."),
    ("value", "float", "", "The reading."),
)

TOPOLOGY = _table(
    *_OF_A_RUN,
    ("rank", "int", "", "The process; workers first, in order."),
    ("role", "text", "", "worker; server: it held a part of the parameters and trained nothing; evaluator: it scored them; or another role of a strategy."),
    ("role_index", "int", "", "Its number among the processes of its role, from 0; a worker's is its rank."),
    ("held_workers", "text", "", "The workers it held, joined by ';': one, or all of them where one process holds them."),
    ("host", "int", "", "Number of its host, from 0 in the order of the cluster, or of a queue's hosts in that of their first use; names stay out of rows that get published."),
    ("machine", "int", "", "Number of the machine that the host is; hosts with the same number run on one kernel."),
    ("local_index", "int", "", "Index among the processes on its host: the number of its GPU, where it has one."),
    ("cores", "text", "", "CPU cores it was bound to, joined by ';'; empty where it was not bound."),
    ("device_name", "text", "", "Its processor or accelerator, as it reports."),
    ("interface", "text", "", "Network interface its messages to other hosts took; empty on one host."),
    ("wire_sent_bytes", "float", "bytes", "Bytes that its host sent on that interface while the run trained; on the host's first worker."),
    ("wire_received_bytes", "float", "bytes", "Bytes that its host received there."),
)

NODES = _table(
    *_OF_A_RUN,
    ("node", "int", "", "Workers from 0, then servers and a strategy's other roles, then the evaluator."),
    ("role", "text", "", "worker, server, evaluator, or another role of a strategy."),
    ("host", "int", "", "Number of its host, from 0 in the order of first use; of a simulated run, of the simulated host."),
    ("steps", "int", "steps", "Gradients that it computed; empty for a server."),
    ("compute_time_s", "float", "s", "Time in which it computed them."),
    ("wait_time_s", "float", "s", "Time until ended_at_s (or its failure) in which it computed none: waiting for others and for messages on their way; of real workers reading batches, too."),
    ("ended_at_s", "float", "s", "When it found no more samples, in seconds since the first step; empty where it did not."),
    ("messages_sent", "int", "", "Messages that it sent."),
    ("messages_received", "int", "", "Messages that were sent to it."),
    ("bytes_sent", "int", "bytes", "Bytes that it sent, those on its own host too."),
    ("bytes_received", "int", "bytes", "Bytes that were sent to it."),
)

LINKS = _table(
    *_OF_A_RUN,
    ("node", "int", "", "The sender: workers from 0, then servers."),
    ("to_node", "int", "", "The receiver."),
    ("messages", "int", "", "Messages that it sent there; none are listed of runs with more than 100,000 links."),
    ("bytes", "int", "bytes", "Bytes in them."),
)

BATCH_CHANGES = _table(
    *_OF_A_RUN,
    ("step", "int", "", "The last step of the old batch, of all attempts."),
    ("epoch", "int", "", "The epoch in which the batch changed."),
    ("train_time_s", "float", "s", "Training time until then, as in epochs.csv."),
    ("batch_size_before", "int", "samples", "Samples of all workers in a step until then."),
    ("batch_size", "int", "samples", "Samples of all workers in a step from then on."),
    ("parts", "int", "", "Parts in which the largest of the workers' new batches is differentiated, one after the other."),
    ("learning_rate", "float", "", "Rate of the first step of the new batch."),
    ("learning_rate_gain", "float", "", "What the rate of the first batch is multiplied by: AdaScale's gain; 1 of step-doubling."),
    ("noise_scale", "float", "samples", "Gradient noise scale as the policy had measured it (see runs.csv, gradient_noise_scale); empty of step-doubling, which measures none, and where it was infinite."),
    ("step_time_s", "float", "s", "Median step of the old batch since the decision before, of the slowest worker."),
    ("predicted_step_time_s", "float", "s", "The step of the new batch as it was predicted: as rehearsed before the clock, times how the old batch has come out since."),
    ("predicted_gain", "float", "", "Goodput of the new batch / that of the old one, as predicted."),
)

STALENESS = _table(
    *_OF_A_RUN,
    ("staleness", "int", "updates", "Version of the parameters at the update - version that the gradient was computed at."),
    ("gradients", "int", "", "Gradients that had it; of `downpour` pushes."),
)

# fmt: on

TABLES = {
    "runs": RUNS,
    "epochs": EPOCHS,
    "steps": STEPS,
    "sensors": SENSORS,
    "topology": TOPOLOGY,
    "nodes": NODES,
    "links": LINKS,
    "staleness": STALENESS,
    "batch_changes": BATCH_CHANGES,
}
# Written only where a run has such rows: those of strategies made of nodes, and of batches that change.
OCCASIONAL = ("nodes", "links", "staleness", "batch_changes")
# What says which run, worker and place in it a row is of: no version wrote a row without.
KEYS: dict[str, tuple[str, ...]] = dict.fromkeys(TABLES, ("run_id", "attempt")) | {
    "epochs": ("run_id", "attempt", "worker", "epoch"),
    "steps": ("run_id", "attempt", "worker", "step"),
    "nodes": ("run_id", "attempt", "node"),
    "links": ("run_id", "attempt", "node", "to_node"),
    "staleness": ("run_id", "attempt", "staleness"),
    "batch_changes": ("run_id", "attempt", "step"),
}

STEP_PHASES = ("first", "warm-up", "timed", "sampled", "extended", "remainder")


def require_width(columns: Iterable[str], table: str) -> None:
    """Refuse a table with too many columns that dlbench does not know, or too long names: each option is one.

    Raises:
        ValueError: It has more than `MOST_EXTRA`, or one of more than `MOST_NAME_LETTERS`.
    """
    extra = set(columns).difference(names(table))
    if len(extra) > MOST_EXTRA:
        raise ValueError(f"it has {len(extra):,} columns besides dlbench's; {MOST_EXTRA} are the most that are read")
    if max(map(len, extra), default=0) > MOST_NAME_LETTERS:
        raise ValueError(f"a column's name has more than {MOST_NAME_LETTERS} letters")


def dtypes(table: str) -> dict[str, Any]:
    """Return what pandas holds the columns of a table as, by name."""
    return {column.name: DTYPES[column.kind] for column in TABLES[table]}


@cache
def names(table: str) -> tuple[str, ...]:
    """Return the column names of a table of `TABLES` in order."""
    return tuple(column.name for column in TABLES[table])


# One step as it leaves a worker: float64 numbers in the order of `STEPS`, without what names run, attempt and worker;
# `phase` is an index into `STEP_PHASES`, NaN an empty cell. Journals hold rows without names: a new column goes last.
STEP_FIELDS = names("steps")[3:]
FIELD = {name: index for index, name in enumerate(STEP_FIELDS)}
PHASE = {name: index for index, name in enumerate(STEP_PHASES)}
