"""The settings of one run: every axis a scenario can hold, with what each means and which values it takes.

The field descriptions are the documentation: `dlbench schema` and `dlbench list settings` print them. Options of
plugins are not here: they are dotted keys (`model.batch_norm`, `strategy.chunk_bytes`) checked against the plugin's
own `OPTIONS`.
"""

from enum import StrEnum
from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator, ConfigDict, Field

from dlbench import plugins
from dlbench.scenario.frozen import Frozen


class BatchScope(StrEnum):
    """What `batch_size` counts: the samples of one worker, or of all workers together."""

    PER_WORKER = "per-worker"
    GLOBAL = "global"


class Divide(StrEnum):
    """What is divided over the workers: each epoch's data, or the number of epochs."""

    DATA = "data"
    EPOCHS = "epochs"


class Remainder(StrEnum):
    """How samples of an epoch that fill no global batch are handled."""

    TRAIN = "train"
    DROP = "drop"


class BatchPolicy(StrEnum):
    """How the batch changes while a run trains."""

    FIXED = "fixed"
    STEP_DOUBLING = "step-doubling"
    GOODPUT = "goodput"


class LearningRateScale(StrEnum):
    """How the learning rate grows with the global batch relative to `learning_rate_base_batch`."""

    NONE = "none"
    LINEAR = "linear"
    SQRT = "sqrt"


class LearningRateDecay(StrEnum):
    """How the learning rate falls after warm-up."""

    NONE = "none"
    STEP = "step"
    COSINE = "cosine"


class Precision(StrEnum):
    """The numbers a run computes in; the mixed ones keep float32 parameters (Keras's policies)."""

    FLOAT32 = "float32"
    FLOAT64 = "float64"
    MIXED_BFLOAT16 = "mixed_bfloat16"
    MIXED_FLOAT16 = "mixed_float16"


class Backend(StrEnum):
    """What computes a model: the engine beneath Keras, or NumPy alone."""

    TENSORFLOW = "tensorflow"
    TORCH = "torch"
    JAX = "jax"
    NUMPY = "numpy"


class Input(StrEnum):
    """Where a step's samples come from."""

    MAPPED = "mapped"
    MEMORY = "memory"
    DEVICE = "device"
    SYNTHETIC = "synthetic"


class Augmentation(StrEnum):
    """What is done to training pictures before each step."""

    NONE = "none"
    CROP_FLIP = "crop-flip"


class Mode(StrEnum):
    """Where the workers sit: all on one host, or one on each host."""

    SCALE_UP = "scale-up"
    SCALE_OUT = "scale-out"


class Placement(StrEnum):
    """Where processes beside workers are: with slots and cores of their own, or on those of workers."""

    OWN = "own"
    BESIDE = "beside"


class Affects(StrEnum):
    """What a setting changes in a run; each setting says it once, and what must be equal where is derived from it.

    Attributes:
        STEP: What one step computes: its samples, its model, its update.
        ARITHMETIC: With which engine, numbers, compiler, cores and memory a step is computed.
        TRAINING: How many steps, on which samples, at which rate: cost and result of the training, not a step's time.
        DISTRIBUTION: How many workers there are, where, and how they communicate: what differs in a base line.
        OBSERVATION: How the run is started, observed and kept: nothing that is compared.
    """

    STEP = "step"
    ARITHMETIC = "arithmetic"
    TRAINING = "training"
    DISTRIBUTION = "distribution"
    OBSERVATION = "observation"


def _no_bool(value: Any) -> Any:
    """Refuse true and false where a number is asked for: Python would take them for 1 and 0."""
    if isinstance(value, bool):
        raise ValueError("needs a number, not true or false")
    return value


def _batch_size(value: Any) -> Any:
    """Refuse `max`: the largest batch that fits is found by `dlbench fit`."""
    if value == "max":
        raise ValueError("must be a number: `dlbench fit SCENARIO` finds the largest batch that fits")
    return _no_bool(value)


def _whole_above_one(value: float) -> float:
    """Refuse one and a half cores: a worker is bound to whole cores, and only below one core limited to a share."""
    if value > 1 and not value.is_integer():
        raise ValueError(f"must be a whole number or a share of one core, such as 0.5, not {value:g}")
    return value


# The name of a plugin as its file is called, or `package.module:function`.
PluginName = Annotated[str, AfterValidator(plugins.canonical)]
# The bounds stand before the validator, else they do not reach the JSON Schema.
Count = Annotated[int, Field(ge=1, le=10**9), BeforeValidator(_no_bool)]
Natural = Annotated[int, Field(ge=0, le=10**9), BeforeValidator(_no_bool)]
BatchSize = Annotated[int, Field(ge=1, le=10**9), BeforeValidator(_batch_size)]
Bytes = Annotated[int, Field(ge=2**20, le=2**50), BeforeValidator(_no_bool)]
Seconds = Annotated[float, Field(gt=0, le=10**8, allow_inf_nan=False), BeforeValidator(_no_bool)]
MAX_RATE = 10**6
Rate = Annotated[float, Field(gt=0, le=MAX_RATE, allow_inf_nan=False), BeforeValidator(_no_bool)]
Epochs = Annotated[float, Field(ge=0, le=10**6), BeforeValidator(_no_bool)]
Share = Annotated[float, Field(ge=0, lt=1), BeforeValidator(_no_bool)]
Finite = Annotated[float, Field(allow_inf_nan=False), BeforeValidator(_no_bool)]
Cores = Annotated[
    float,
    Field(gt=0, le=4096, allow_inf_nan=False),
    BeforeValidator(_no_bool),
    AfterValidator(_whole_above_one),
]


class Settings(Frozen):
    """What one run does. Every field is a key of `base`, an axis of `matrix`, and a column of `runs.csv`.

    Fields are checked one by one, where a scenario is read (`dlbench.scenario.read.values`): no validator looks at
    several.
    """

    model_config = ConfigDict(protected_namespaces=())

    model: Annotated[PluginName, Affects.STEP] = Field(
        "mlp", description="The network: a plugin, or `package.module:function`."
    )
    dataset: Annotated[PluginName, Affects.STEP] = Field(
        "digits", description="The samples: a plugin, or `package.module:function`."
    )
    trainer: Annotated[PluginName, Affects.ARITHMETIC] = Field(
        "keras_tensorflow", description="The engine that computes gradients."
    )
    backend: Annotated[Backend | None, Affects.ARITHMETIC] = Field(
        None,
        description="What computes a model: `torch` stands for `trainer: keras_torch`. The same samples, first weights "
        "and settings give the same training on each; `numpy` draws other first weights.",
    )
    strategy: Annotated[PluginName, Affects.DISTRIBUTION] = Field(
        "single", description="How the workers' gradients or parameters are combined."
    )
    algorithm: Annotated[str | None, Affects.DISTRIBUTION] = Field(
        None,
        description="The strategy's algorithm, such as the all-reduce of `mpi`; default: the strategy's own.",
    )
    communicator: Annotated[PluginName | None, Affects.DISTRIBUTION] = Field(
        None, description="What carries the strategy's messages; default: the strategy's own."
    )
    collectives: Annotated[str | None, Affects.DISTRIBUTION] = Field(
        None,
        description="The library that moves bytes: `mpi`, `gloo`, `nccl` or `grpc`; default: the strategy's own.",
    )
    compression: Annotated[PluginName | None, Affects.DISTRIBUTION] = Field(
        None,
        description="What workers send in place of whole gradients, such as `threshold` or `top-k`; default: gradients "
        "travel as they are.",
    )
    launcher: Annotated[PluginName, Affects.DISTRIBUTION] = Field(
        "auto", description="Who starts the processes; `auto` takes one that suits the strategy."
    )
    submitter: Annotated[PluginName, Affects.OBSERVATION] = Field(
        "direct", description="Where the launcher is started."
    )
    command: Annotated[str | None, Affects.STEP] = Field(
        None,
        description="A training script of your own, run in place of dlbench's worker; `{workers}`, `{batch_size}` "
        "and every other setting are filled in. It reports through `dlbench.worker`.",
    )
    workers_inside: Annotated[bool, Affects.OBSERVATION] = Field(
        False,
        description="The command starts all workers itself, as `torchrun --nproc-per-node {workers}` does: dlbench "
        "starts it once, on one host and on the cores of all workers.",
    )
    workers: Annotated[Count, Affects.DISTRIBUTION] = Field(
        1, description="Number of replicas, each with its own device or share of cores."
    )
    servers: Annotated[Count | None, Affects.DISTRIBUTION] = Field(
        None,
        description="Servers, each of which holds a part of the parameters, of equal bytes; default: one where the "
        "strategy has servers.",
    )
    server_placement: Annotated[Placement | None, Affects.DISTRIBUTION] = Field(
        None,
        description="`beside`: servers share hosts with workers, spread over them evenly, and their cores; `own`: each "
        "has its own slot and cores, after those of the workers, or where they are simulated a host. Default: "
        "beside real workers, own where they are simulated.",
    )
    mode: Annotated[Mode | None, Affects.DISTRIBUTION] = Field(
        None, description="All workers on one host, or one worker per host."
    )
    workers_per_host: Annotated[Count | None, Affects.DISTRIBUTION] = Field(
        None, description="Workers on each host, between the two modes."
    )
    cores_per_worker: Annotated[Cores | None, Affects.ARITHMETIC] = Field(
        None,
        description="CPU cores of each worker: whole ones, or a share of one (0.5); default: cores of the host / most "
        "workers on it in the study, above one rounded down.",
    )
    memory_limit_bytes: Annotated[Bytes | None, Affects.ARITHMETIC] = Field(
        None,
        description="Memory that each worker may take on its host, enforced by the kernel (RLIMIT_DATA): what needs "
        "more ends as out-of-memory. Default: no limit.",
    )
    batch_size: Annotated[BatchSize, Affects.STEP] = Field(
        32,
        description="Samples per step, of one worker or of all: see `batch_scope`. `dlbench fit` finds the largest "
        "that fits.",
    )
    batch_scope: Annotated[BatchScope, Affects.TRAINING] = Field(
        BatchScope.PER_WORKER,
        description="`per-worker`: the global batch grows with workers (weak scaling); `global`: it stays (strong).",
    )
    divide: Annotated[Divide, Affects.TRAINING] = Field(
        Divide.DATA,
        description="`data`: each epoch is sharded over the workers; `epochs`: each worker sees all samples, "
        "ceil(epochs / workers) times.",
    )
    remainder: Annotated[Remainder, Affects.TRAINING] = Field(
        Remainder.TRAIN,
        description="Samples of an epoch that fill no global batch: `train` takes them in a smaller last step, shared "
        "over the workers, so that all arms see equal samples; `drop` leaves them out. A `command` decides itself.",
    )
    epochs: Annotated[Count, Affects.TRAINING] = Field(5, description="Passes over the training data; see `divide`.")
    optimizer: Annotated[str, Affects.STEP] = Field("sgd", description="The optimizer, by the trainer's own name.")
    momentum: Annotated[Share, Affects.STEP] = Field(
        0.0, description="Momentum of `sgd` and `rmsprop`; other optimizers have their own."
    )
    nesterov: Annotated[bool, Affects.STEP] = Field(
        False, description="Nesterov's momentum instead of Polyak's (`sgd`)."
    )
    weight_decay: Annotated[Share, Affects.STEP] = Field(
        0.0,
        description="Decoupled weight decay (Loshchilov and Hutter 2019): before each step every weight, biases too, "
        "loses learning rate x this x itself. 0 is none, also for `adamw`.",
    )
    gradient_accumulation_steps: Annotated[Count, Affects.STEP] = Field(
        1,
        description="A worker's batch is computed in this many parts, whose gradients are added before the one "
        "all-reduce and update: less memory, the same mathematics (batch norm and dropout aside).",
    )
    microbatch_size: Annotated[Count | None, Affects.STEP] = Field(
        None,
        description="Most samples that a worker differentiates at once: a larger batch is computed in as many parts as "
        "that takes, as with `gradient_accumulation_steps`. Default: a batch of any size at once.",
    )
    steps_per_execution: Annotated[Count, Affects.ARITHMETIC] = Field(
        1,
        description="Steps that one call makes, as in Keras's `compile`: the engine is then asked less often, and the "
        "time of a single step is not seen. An epoch's steps that fill no call are made one by one.",
    )
    batch_policy: Annotated[BatchPolicy, Affects.TRAINING] = Field(
        BatchPolicy.FIXED,
        description="`fixed`: the batch stays; `step-doubling`: it doubles every `batch_doubling_epochs` at the same "
        "learning rate, in place of a rate that halves; `goodput`: it doubles or halves where measured speed x "
        "statistical efficiency gains more than 5%, and the rate follows by AdaScale's gain.",
    )
    largest_batch_size: Annotated[Count | None, Affects.TRAINING] = Field(
        None,
        description="Largest batch of a policy that is not `fixed`, counted as `batch_size` is: see `batch_scope`.",
    )
    batch_doubling_epochs: Annotated[Count | None, Affects.TRAINING] = Field(
        None, description="Epochs between two doublings of `step-doubling`."
    )
    batch_policy_steps: Annotated[Count, Affects.TRAINING] = Field(
        100, description="Steps between two decisions of `goodput`; it changes the batch at every second one at most."
    )
    learning_rate: Annotated[Rate, Affects.TRAINING] = Field(
        0.01, description="Learning rate at `learning_rate_base_batch`."
    )
    learning_rate_base_batch: Annotated[Count | None, Affects.TRAINING] = Field(
        None, description="The global batch that `learning_rate` was tuned for; needed when it is scaled."
    )
    learning_rate_scale: Annotated[LearningRateScale, Affects.TRAINING] = Field(
        LearningRateScale.NONE,
        description="Scaling by global batch / base batch; never by workers alone.",
    )
    warmup_epochs: Annotated[Epochs, Affects.TRAINING] = Field(
        0.0, description="Epochs over which the learning rate rises linearly to its full value."
    )
    learning_rate_decay: Annotated[LearningRateDecay, Affects.TRAINING] = Field(
        LearningRateDecay.NONE,
        description="`step`: the learning rate is multiplied by `learning_rate_decay_factor` after every "
        "`learning_rate_decay_epochs`; `cosine`: it falls step by step along half a cosine, from its full value after "
        "warm-up to 0 at the end of all epochs (Loshchilov and Hutter 2017).",
    )
    learning_rate_decay_epochs: Annotated[Count | None, Affects.TRAINING] = Field(
        None, description="Epochs of each worker between two falls of the rate, with `learning_rate_decay: step`."
    )
    learning_rate_decay_factor: Annotated[Annotated[Share, Field(gt=0)] | None, Affects.TRAINING] = Field(
        None, description="What the rate is multiplied by at each of them, such as 0.1."
    )
    precision: Annotated[Precision, Affects.ARITHMETIC] = Field(
        Precision.FLOAT32, description="The numbers the run computes in."
    )
    jit_compile: Annotated[bool, Affects.ARITHMETIC] = Field(
        False,
        description="Compile the step: with XLA on TensorFlow, with `torch.compile` on PyTorch; JAX always does.",
    )
    seed: Annotated[Natural, Affects.TRAINING] = Field(
        0, description="Run seed = seed + repeat, the same in all arms, so that repeats pair."
    )
    train_samples: Annotated[Count | None, Affects.STEP] = Field(
        None, description="Use only this many training samples: a fixed subset drawn by the seed."
    )
    validation_samples: Annotated[Count | None, Affects.TRAINING] = Field(
        None, description="Use only this many validation samples."
    )
    validation_fraction: Annotated[Share, Field(gt=0), Affects.TRAINING] = Field(
        0.2, description="Share of the data kept for validation where the data set is not split."
    )
    input: Annotated[Input, Affects.STEP] = Field(
        Input.MAPPED,
        description="`mapped`: samples are read from the prepared files that all workers of a host share; `memory`: "
        "each worker holds its own copy; `device`: its accelerator holds one, as the samples are stored, and gathers, "
        "crops and mirrors each batch itself; `synthetic`: every step reuses one batch of random numbers of the same "
        "shape, so that nothing is read and losses and accuracies mean nothing.",
    )
    augmentation: Annotated[Augmentation, Affects.STEP] = Field(
        Augmentation.NONE,
        description="`crop-flip`: each training picture is padded by `augmentation_padding` pixels, cropped back at a "
        "random place and mirrored at random, drawn by seed, epoch and sample alone.",
    )
    augmentation_padding: Annotated[Natural, Affects.STEP] = Field(
        4, description="Pixels added on each side before `crop-flip` crops."
    )
    checkpoint_every: Annotated[Count | None, Affects.OBSERVATION] = Field(
        None, description="Epochs between checkpoints, from which `--resume` goes on; default: none are made."
    )
    evaluator: Annotated[Placement | None, Affects.DISTRIBUTION] = Field(
        None,
        description="Of strategies of nodes: a process that scores the parameters of each epoch while workers train "
        "on, as `stop` of a target needs it. `own`: with its own slot and cores, after workers and servers; "
        "`beside`: on the cores of the first host's workers, which it takes time from. Default: copies are scored "
        "after training, by the workers.",
    )
    evaluate_every: Annotated[Count, Affects.OBSERVATION] = Field(
        1, description="Epochs between evaluations, outside the timed window."
    )
    evaluation_batch_size: Annotated[Count, Affects.OBSERVATION] = Field(
        256, description="Samples per evaluation step of each worker."
    )
    extend_window: Annotated[bool, Affects.OBSERVATION] = Field(
        False,
        description="If training ends before the timed window holds 50 steps and 5 s without warm-up, step on until "
        "it does; these steps count in what is measured inside the window and in no cost or result of the training.",
    )
    sample_every: Annotated[Count, Affects.OBSERVATION] = Field(
        50,
        description="The timed window of every arm is cut at each such step, which is in no rate; where gradients are "
        "reduced between two calls, it separates waiting for peers from moving bytes.",
    )
    sensor_interval_s: Annotated[Seconds, Affects.OBSERVATION] = Field(
        1.0, description="Time between two readings of the sensors."
    )

    @property
    def is_simulated(self) -> bool:
        """Whether one process simulates all workers."""
        return self.communicator == SIMULATED


# Options of these plugin kinds are dotted keys of a scenario: `model.hidden` belongs to the plugin of `model`.
OPTION_PREFIXES = {
    "model": "models",
    "dataset": "datasets",
    "trainer": "trainers",
    "strategy": "strategies",
    "launcher": "launchers",
    "communicator": "communicators",
    "compression": "compressors",
}
# Settings whose value names a plugin, with its kind.
PLUGIN_SETTINGS = OPTION_PREFIXES | {"submitter": "submitters"}
# The communicator that carries nothing: one process simulates all workers.
SIMULATED = "simulated"


def value_of(key: str, written: Any) -> Any:
    """Return the value of one setting as a run holds it.

    Raises:
        ValidationError: It is none of the setting's.
    """
    return getattr(Settings.model_validate({key: written}), key)


def affected_by(name: str) -> Affects:
    """Return what a setting says that it changes.

    Raises:
        LookupError: It says nothing.
    """
    for note in Settings.model_fields[name].metadata:
        if isinstance(note, Affects):
            return note
    raise LookupError(f"the setting {name} does not say what it affects")


def settings_of(*kinds: Affects) -> tuple[str, ...]:
    """Return the settings that change one of these, in the order of `Settings`."""
    return tuple(name for name in Settings.model_fields if affected_by(name) in kinds)


def option_prefixes_of(*kinds: Affects) -> tuple[str, ...]:
    """Return how the options begin that change one of these: an option changes what its plugin's setting does."""
    return tuple(f"{prefix}." for prefix in OPTION_PREFIXES if affected_by(prefix) in kinds)
