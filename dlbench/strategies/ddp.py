"""PyTorch's DistributedDataParallel: gradients are all-reduced in buckets while the backward pass goes on."""

import functools
import os
from collections.abc import Callable
from enum import StrEnum
from typing import Any

from pydantic import Field

from dlbench.plugins import Options
from dlbench.records.assignment import Assignment
from dlbench.scenario.needs import Exchange, Needs
from dlbench.scenario.settings import Precision, Settings
from dlbench.strategies import Communicator
from dlbench.strategies._step import Inside
from dlbench.telemetry.reporter import Reporter
from dlbench.trainers import Trainer

NEEDS = Needs(
    exchange=Exchange.WRAPPED,
    collectives=("gloo", "nccl"),
    communicators=("torch",),
    rendezvous=True,
    trainers=("keras_torch",),
    as_one_worker={},
)

# Which collectives the run asks for.
COLLECTIVES_VARIABLE = "DLBENCH_TORCH_COLLECTIVES"


class CommunicationHook(StrEnum):
    """What is sent of a bucket (`torch.distributed.algorithms.ddp_comm_hooks`)."""

    NONE = "none"
    FP16 = "fp16"
    BF16 = "bf16"
    POWER_SGD = "power-sgd"


class DdpOptions(Options):
    """Options of the strategy `ddp`."""

    bucket_cap_mb: float = Field(25.0, gt=0, description="Size of a bucket in MiB; the first one has 1 MiB.")
    gradient_as_bucket_view: bool = Field(
        True, description="Gradients are parts of the buckets: one copy and the memory of one gradient less."
    )
    static_graph: bool = Field(False, description="Promise that the same parameters are used in every step.")
    communication_hook: CommunicationHook = Field(
        CommunicationHook.NONE,
        description="`fp16`, `bf16`: buckets are sent in half precision (`bf16` needs PyTorch with NCCL); `power-sgd`: "
        "as products of matrices of low rank with error feedback (Vogels et al. 2019). N workers equal one only "
        "without a hook.",
    )
    power_sgd_rank: int = Field(1, ge=1, description="Rank of these matrices.")
    power_sgd_start_step: int = Field(
        1000, ge=2, description="Steps before `power-sgd` begins; until then whole gradients are sent."
    )


OPTIONS = DdpOptions


def environment(options: DdpOptions, assignment: Assignment) -> dict[str, str]:
    """Return the variable that names the library that moves gradients; pure."""
    return {COLLECTIVES_VARIABLE: assignment.run.settings.collectives or NEEDS.collectives[0]}


def refuse(options: DdpOptions, settings: Settings) -> str:
    """Return why these options and settings exclude each other, or ""."""
    hook = options.communication_hook
    if settings.checkpoint_every is not None and hook is CommunicationHook.POWER_SGD:
        return "what strategy.communication_hook: power-sgd has left out is in no checkpoint: remove checkpoint_every"
    if settings.precision is Precision.MIXED_FLOAT16 and hook is CommunicationHook.POWER_SGD:
        return (
            "strategy.communication_hook: power-sgd keeps what gradients leave out, which mixed_float16 may have to "
            "skip: use mixed_bfloat16"
        )
    if options.static_graph and settings.gradient_accumulation_steps > 1:
        return "strategy.static_graph needs every backward pass to be reduced: remove gradient_accumulation_steps"
    return ""


def in_turn(hook: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    """Return a hook that begins with a bucket once the one before is over.

    PowerSGD's sums of a bucket are begun by the threads that end those before, over gloo in another order on each
    worker: sums of different buckets would meet, and the process abort.
    """
    before: Any = None

    @functools.wraps(hook)  # whose annotations DDP looks at
    def begin(state: Any, bucket: Any) -> Any:
        nonlocal before
        if before is not None:
            before.wait()
        before = hook(state, bucket)
        return before

    return begin


class Ddp:
    """One worker's side."""

    # PyTorch does not count them.
    bytes_sent: int | None = None

    def __init__(self, options: DdpOptions, communicator: Any, collectives: str) -> None:
        self._options, self._communicator, self._collectives = options, communicator, collectives
        self._distributed = communicator.torch.distributed
        # NCCL's are for the gradients on GPUs: counts and barriers stay on the processor.
        self._group = self._distributed.new_group(backend="nccl") if collectives == "nccl" else None

    def distribution(self, engine: Any) -> Any:
        """Return what wraps a model so that its gradients are reduced, given the module torch."""
        return self._wrap

    def bind(self, trainer: Trainer, reporter: Reporter) -> Inside:
        """Return the step: the backward pass reduces."""
        step = Inside(trainer, reporter, in_graph=lambda gradients: gradients, in_forward=self._summed)
        step.num_averaged = self._communicator.size
        return step

    def facts(self) -> dict[str, Any]:
        """Return what moves the gradients."""
        return {"collectives": self._distributed.get_backend(self._group)}

    def _wrap(self, module: Any) -> Any:
        options = self._options
        wrapped = self._communicator.torch.nn.parallel.DistributedDataParallel(
            module,
            process_group=self._group,
            # Moving statistics are each worker's own, as under all strategies, until they are evaluated.
            broadcast_buffers=False,
            bucket_cap_mb=options.bucket_cap_mb,
            gradient_as_bucket_view=options.gradient_as_bucket_view,
            static_graph=options.static_graph,
        )
        if options.communication_hook is not CommunicationHook.NONE:
            wrapped.register_comm_hook(*self._hook())
        return wrapped

    def _hook(self) -> tuple[Any, Any]:
        """Return the hook and its state."""
        from torch.distributed.algorithms.ddp_comm_hooks import default_hooks
        from torch.distributed.algorithms.ddp_comm_hooks import powerSGD_hook as power_sgd

        if self._options.communication_hook is CommunicationHook.POWER_SGD:
            rank, start = self._options.power_sgd_rank, self._options.power_sgd_start_step
            state = power_sgd.PowerSGDState(self._group, matrix_approximation_rank=rank, start_powerSGD_iter=start)
            hook = power_sgd.powerSGD_hook
            return state, hook if self._collectives == "nccl" else in_turn(hook)
        half = self._options.communication_hook is CommunicationHook.FP16
        return self._group, default_hooks.fp16_compress_hook if half else default_hooks.bf16_compress_hook

    def _summed(self, tensor: Any) -> Any:
        """Return the sum of all workers' tensors; its gradient is the sum of all workers' gradients."""
        from torch.distributed.nn.functional import all_reduce

        return all_reduce(tensor, group=self._group if self._group is not None else self._distributed.group.WORLD)


def create(options: DdpOptions, communicator: Communicator, algorithm: str | None) -> Ddp:
    """Return one worker's side of the all-reduce."""
    return Ddp(options, communicator, os.environ.get(COLLECTIVES_VARIABLE, NEEDS.collectives[0]))
