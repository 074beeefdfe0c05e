"""A worker that does as FAKE_MODE says on rank FAKE_RANK; the others finish, or wait for it in `all_reduce`.

It speaks the protocol of `dlbench.telemetry.messages` with nothing but the standard library.
"""

import hmac
import json
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

ASSIGNMENT = json.loads(os.environ["DLBENCH_ASSIGNMENT"])
RANK = int(next(os.environ[name] for name in ("DLBENCH_RANK", "OMPI_COMM_WORLD_RANK", "RANK") if name in os.environ))
# Modes in which the others end well by themselves.
HARMLESS = {"finish", "print", "fork", "teardown"}


class Line:
    """The connection to dlbench."""

    def __init__(self) -> None:
        endpoint = ASSIGNMENT["endpoint"]
        self.socket = socket.create_connection((endpoint["address"], endpoint["port"]), timeout=30)
        self.answers = self.socket.makefile("rb")
        self.seq = self.sent = 0
        nonce, own = json.loads(self.answers.readline())["nonce"], "abc123"
        context = f"dlbench telemetry worker {nonce} {own}".encode()
        self.key = hmac.digest(endpoint["token"].encode(), context, "sha256")
        hello = {"kind": "hello", "nonce": own, "attempt_id": ASSIGNMENT["attempt_id"], "worker": RANK}
        self.send({**hello, "pid": os.getpid(), "host": socket.gethostname(), "version": 3, "oom_kills": 3})
        assert self.answer() == 0

    def send(self, message: dict) -> None:
        self.sent += 1
        line = json.dumps(message).encode()
        code = hmac.digest(self.key, b"%d %b" % (self.sent, line), "sha256").hex().encode()[:32]
        self.socket.sendall(code + line + b"\n")

    def answer(self) -> int:
        """Return the number that the next answer acknowledges; who answers is not asked."""
        return json.loads(self.answers.readline()[32:])["ack"]

    def keep(self, message: dict) -> None:
        """Send a journaled line and wait until it is acknowledged."""
        self.seq += 1
        self.send({**message, "seq": self.seq})
        while self.answer() < self.seq:
            pass

    def beat(self, phase: str, step: int | None = None) -> None:
        self.send({"kind": "beat", "phase": phase, "step": step, "epoch": None, "loss": 0.5})

    def beat_without_end(self, phase: str, step: int | None = None) -> None:
        while True:
            self.beat(phase, step)
            time.sleep(0.1)


def finish(line: Line, agreement: str = "exact") -> None:
    line.beat("data", 0)
    line.keep({"kind": "steps", "rows": ""})
    line.beat("compute", 9)
    line.keep({"kind": "epoch", "row": {"epoch": 1}})
    line.keep({"kind": "result", "result": {"steps": 10, "agreement": agreement}})
    line.keep({"kind": "bye"})


def act(mode: str, line: Line) -> None:
    if mode in ("finish", "disagree"):
        finish(line, agreement="no" if mode == "disagree" else "exact")
    elif mode == "print":
        for _ in range(200):
            sys.stdout.write(("x" * 99 + "\n") * 10_000)
        finish(line)
    elif mode == "fork":
        subprocess.Popen(
            [sys.executable, "-c", STUBBORN_CHILD], start_new_session=True, stdout=subprocess.PIPE
        ).stdout.read(1)
        finish(line)
    elif mode == "teardown":
        finish(line)
        time.sleep(600)
    elif mode == "hang-start":
        line.beat_without_end("build")
    else:
        line.beat("compute", 17)
        misbehave(mode, line)


STUBBORN_CHILD = (
    "import signal, sys, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); "
    "sys.stdout.write('x'); sys.stdout.close(); time.sleep(600)"
)


ERRORS = {
    "raise": {"error": "ValueError: all is lost", "traceback": "", "out_of_memory": False},
    "diverge": {"error": "the loss is not finite at step 17", "status": "diverged"},
    "memory": {"error": "MemoryError", "out_of_memory": True},
}
EXIT_CODES = {"exit-0": 0, "exit-3": 3}
SIGNALS = {"kill": signal.SIGKILL, "stop": signal.SIGSTOP}


def misbehave(mode: str, line: Line) -> None:
    if mode in ERRORS:
        line.keep({"kind": "error", **ERRORS[mode]})
        sys.exit(1)
    if mode == "raise-in-silence":
        raise ValueError("only my log knows")
    if mode in EXIT_CODES:
        os._exit(EXIT_CODES[mode])
    if mode in SIGNALS:
        os.kill(os.getpid(), SIGNALS[mode])
    if mode == "stubborn":
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    line.beat_without_end("compute", 17)


def main() -> None:
    log = os.open(Path(ASSIGNMENT["log_folder"]) / f"worker-{RANK}.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    os.dup2(log, 1)
    os.dup2(log, 2)
    mode, is_mine = os.environ["FAKE_MODE"], int(os.environ["FAKE_RANK"]) == RANK
    if mode == "import-error" and is_mine:
        raise ModuleNotFoundError("No module named 'nowhere'")
    line = Line()
    if is_mine:
        act(mode, line)
    elif mode in HARMLESS or mode == "disagree":
        act("finish", line)
    elif mode == "hang-start":
        line.beat_without_end("broadcast")
    else:
        line.beat_without_end("all_reduce", 17)


if __name__ == "__main__":
    main()
