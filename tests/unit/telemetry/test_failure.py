"""An exception as a report: one line, its status, and whether memory ran out."""

from dlbench.errors import UserError
from dlbench.telemetry.failure import describe, is_out_of_memory, one_line
from dlbench.worker.train.agreement import Diverged

# As TensorFlow says where an operation fails, and Keras a layer within a function that is traced.
DETECTED = """\
Detected at node take defined at (most recent call last):
  File "train.py", line 3, in <module>

  File "numpy.py", line 3095, in take

2 root error(s) found.
indices[0,0] = 50 is not in [0, 10)
\t [[{{node take}}]] [Op:__inference_263]
"""
USER_CODE = """\
in user code:

    File "train.py", line 4, in f  *
        return g(x)

    ValueError: Exception encountered when calling Reshape.call().
\x20\x20\x20\x20
    \x1b[1mThe total size must be unchanged.\x1b[0m

    Arguments received by Reshape.call():
      * training=True
"""


def test_an_exception_is_one_line():
    rows = (
        (ValueError("\n\n one \n two"), "ValueError: one"),
        (KeyboardInterrupt(), "KeyboardInterrupt"),
        (SystemExit(0), "exited early with code 0"),
        (SystemExit(), "exited early with code 0"),
        (SystemExit("bad\nthing"), "exited early with code bad thing"),
        (UserError("wrong", hint="fix it"), "wrong; fix it"),
        (RuntimeError(f"Graph execution error:\n\n{DETECTED}"), "RuntimeError: indices[0,0] = 50 is not in [0, 10)"),
        (ValueError(USER_CODE), "ValueError: The total size must be unchanged."),
        (ValueError("Invalid [Op:Cast] name: "), "ValueError: Invalid"),
    )
    for error, line in rows:
        assert one_line(error) == line
    assert len(one_line(ValueError("x" * 10_000))) == 500
    # Where memory ran out it names the allocation.
    text = "Graph execution error:\n\nDetected at node x\nOOM when allocating tensor with shape[8,9] and type float\n"
    assert one_line(RuntimeError(text)) == "RuntimeError: OOM when allocating tensor with shape[8,9] and type float"


def test_memory_is_recognised_also_as_a_cause():
    assert is_out_of_memory(MemoryError())
    assert is_out_of_memory(RuntimeError("CUDA out of memory. Tried to allocate"))
    outer = ValueError("step failed")
    outer.__cause__ = type("ResourceExhaustedError", (Exception,), {})("OOM")
    assert is_out_of_memory(outer)
    assert not is_out_of_memory(ValueError("file not found"))
    loop = ValueError("a")
    loop.__context__ = ValueError("b")
    loop.__context__.__context__ = loop
    assert not is_out_of_memory(loop)


def test_only_a_known_status_is_reported():
    assert describe(Diverged("x"))["status"] == "diverged"
    strange = ValueError("x")
    strange.status = "404"
    assert "status" not in describe(strange)
