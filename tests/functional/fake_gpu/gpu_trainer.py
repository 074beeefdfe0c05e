"""The NumPy trainer, except that it says to have a GPU: that of the `pynvml` beside it, which it opens as CUDA does."""

import tempfile
import time
from pathlib import Path

import pynvml
from pydantic import Field

from dlbench.plugins import Options
from dlbench.scenario.layout import Place
from dlbench.trainers import numpy
from dlbench.worker.sensors import nvml


class GpuOptions(Options):
    """What the GPU does meanwhile."""

    from_s: float = Field(0.0, description="Second of the recording that is played from the start of training.")
    spoiled: str = Field("", description="The value that is wrong every other time.")
    step_s: float = Field(0.02, description="How much longer a gradient takes.")


class Trainer:
    """The NumPy trainer on a GPU."""

    OPTIONS = GpuOptions
    BUILDER = numpy.BUILDER
    OPTIMIZERS = numpy.OPTIMIZERS
    PRECISIONS = numpy.PRECISIONS
    BACKEND = numpy.BACKEND
    FLAT_OPTIMIZERS = numpy.FLAT_OPTIMIZERS
    make_flat_optimizer = staticmethod(numpy.make_flat_optimizer)

    @staticmethod
    def create(settings, plugin, model_options, options, problem, seed, threads):
        trainer = numpy.create(settings, plugin, model_options, options, problem, seed, threads)
        pynvml.play(options.from_s, options.spoiled)
        # In place of this process's open files, on a machine without the device's file.
        nvml.OPEN_FILES = Path(tempfile.mkdtemp())
        (nvml.OPEN_FILES / "7").symlink_to("/dev/nvidia-uvm")
        place = Place(rank=0, workers=(0,), local_index=threads.device_index)
        facts, gradient = trainer.facts, trainer.gradient

        def on_gpu():
            return facts() | {"device_name": nvml.device_name(place), "tf32": False}

        def slower(x, y, scale):
            time.sleep(options.step_s)
            return gradient(x, y, scale)

        trainer.facts, trainer.gradient = on_gpu, slower
        return trainer
