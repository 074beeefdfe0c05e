"""A headless Chromium that a test speaks to as its developer tools do: keys, clicks, widths, colours, what it loads.

It is spoken to over a pair of pipes (`--remote-debugging-pipe`): messages of JSON, each ended by a NUL byte, on file
descriptors 3 and 4 of the browser. No port, no driver, no library.
"""

import base64
import contextlib
import fcntl
import json
import os
import select
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

NAMES = ("chromium", "chromium-browser", "google-chrome-stable", "google-chrome")
FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--hide-scrollbars",
    "--remote-debugging-pipe",
)
# Puts the two pipes where the browser looks for them, and becomes the browser.
BECOME = """
import os, sys
for given, wanted in zip(map(int, sys.argv[1:3]), (3, 4)):
    os.dup2(given, wanted)
    os.close(given)
os.execv(sys.argv[3], sys.argv[3:])
"""
PATIENCE_S = 60.0
WORK = ("ScriptDuration", "RecalcStyleDuration", "LayoutDuration")
KEYS = {"Tab": (9, ""), "Enter": (13, "\r"), "Space": (32, " ")}


def program() -> str | None:
    """Return the path of a Chromium, or None where there is none."""
    return next(filter(None, map(shutil.which, NAMES)), None)


class Browser:
    """One page of a browser, and what happened on it."""

    def __init__(self, path: str, folder: Path) -> None:
        self.events: list[dict[str, Any]] = []
        self._session: str | None = None
        self._number = 0
        self._rest = b""
        its_input, self._write = _pipe()
        self._read, its_output = _pipe()
        argv = [path, *FLAGS, f"--user-data-dir={folder / 'profile'}", "about:blank"]
        with (folder / "browser.log").open("wb") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-c", BECOME, str(its_input), str(its_output), *argv],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, pass_fds=(its_input, its_output),
            )  # fmt: skip
        os.close(its_input)
        os.close(its_output)

    def attach(self) -> None:
        """Open a page, and subscribe to its events."""
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")
        self.call("Emulation.setFocusEmulationEnabled", enabled=True)
        self.call("Performance.enable", timeDomain="threadTicks")

    def close(self) -> None:
        """End the browser, all its processes with it."""
        with contextlib.suppress(BrokenPipeError):
            os.write(self._write, json.dumps({"id": 0, "method": "Browser.close"}).encode() + b"\0")
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        os.close(self._write)
        os.close(self._read)

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Ask for something and return the answer."""
        self._number += 1
        message = {"id": self._number, "method": method, "params": parameters}
        if self._session is not None:
            message["sessionId"] = self._session
        data = json.dumps(message).encode() + b"\0"
        while data:
            data = data[os.write(self._write, data) :]
        answer = self._next(lambda found: found.get("id") == message["id"])
        assert "error" not in answer, f"{method}: {answer['error']}"
        result: dict[str, Any] = answer["result"]
        return result

    def wait_for(self, event: str) -> None:
        """Wait for an event since the page was opened."""
        if not any(self._of(event)):
            self._next(lambda found: found.get("method") == event)

    def open(self, path: Path) -> None:
        """Show a file, and wait until it is loaded."""
        self.events.clear()
        self.call("Page.navigate", url=path.as_uri())
        self.wait_for("Page.loadEventFired")
        assert self.ask("location.href") == path.as_uri()

    def ask(self, expression: str) -> Any:
        """Return the value of an expression in the page."""
        found = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in found, found["exceptionDetails"]
        return found["result"].get("value")

    def work_s(self, expression: str) -> float:
        """Return how much CPU time an expression takes, with the styles and the layout that follow from it."""
        before = self._worked_s()
        self.ask(f"{expression}; document.body.offsetHeight")
        return self._worked_s() - before

    def _worked_s(self) -> float:
        metrics = self.call("Performance.getMetrics")["metrics"]
        return sum(float(one["value"]) for one in metrics if one["name"] in WORK)

    def press(self, key: str) -> None:
        """Press a key as a person does."""
        code, text = KEYS[key]
        common = {"key": " " if key == "Space" else key, "code": key, "windowsVirtualKeyCode": code}
        self.call("Input.dispatchKeyEvent", type="keyDown" if text else "rawKeyDown", text=text, **common)
        self.call("Input.dispatchKeyEvent", type="keyUp", **common)

    def write(self, text: str) -> None:
        """Write into what has the focus."""
        self.call("Input.insertText", text=text)

    def click(self, selector: str) -> None:
        """Click on the middle of an element, where a person sees it."""
        x, y = self.ask(
            f"(() => {{ const element = document.querySelector({json.dumps(selector)});"
            "element.scrollIntoView({block: 'center', inline: 'center', behavior: 'instant'});"
            "const place = element.getBoundingClientRect();"
            "return [place.x + place.width / 2, place.y + place.height / 2]; })()"
        )
        for kind in ("mousePressed", "mouseReleased"):
            self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)

    def look(self, width: int, *, dark: bool = False, media: str = "screen") -> None:
        """Be a window so wide, in light or dark colours, on screen or paper."""
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=900, deviceScaleFactor=1, mobile=False)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", media=media, features=[scheme])

    def paper(self) -> bytes:
        """Return the page as it is printed (PDF)."""
        return base64.b64decode(self.call("Page.printToPDF", printBackground=True)["data"])

    def requests(self) -> list[str]:
        """Return the addresses of everything that was asked for since the page was opened."""
        self.ask("1")
        return [one["params"]["request"]["url"] for one in self._of("Network.requestWillBeSent")]

    def complaints(self) -> list[Any]:
        """Return errors of scripts, what was written to the console, and what the page's policy refused."""
        self.ask("1")
        names = ("Runtime.exceptionThrown", "Runtime.consoleAPICalled", "Log.entryAdded")
        return [one["params"] for name in names for one in self._of(name)]

    def _of(self, name: str) -> Iterator[dict[str, Any]]:
        return (event for event in self.events if event.get("method") == name)

    def _next(self, is_wanted: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        """Return the first wanted message; what comes before it is kept as an event, and so is a wanted event."""
        deadline = time.monotonic() + PATIENCE_S
        while True:
            message = self._message(deadline)
            if "method" in message:
                self.events.append(message)
            if is_wanted(message):
                return message

    def _message(self, deadline: float) -> dict[str, Any]:
        while b"\0" not in self._rest:
            ready, _, _ = select.select([self._read], [], [], max(0.0, deadline - time.monotonic()))
            assert ready, "the browser does not answer"
            data = os.read(self._read, 1 << 20)
            assert data, f"the browser has ended (exit code {self._process.poll()})"
            self._rest += data
        text, _, self._rest = self._rest.partition(b"\0")
        found: dict[str, Any] = json.loads(text)
        return found


def _pipe() -> tuple[int, int]:
    """Return both ends of a pipe, with numbers that are not those the browser wants."""
    ends = []
    for end in os.pipe():
        ends.append(fcntl.fcntl(end, fcntl.F_DUPFD_CLOEXEC, 10))
        os.close(end)
    return ends[0], ends[1]


@contextlib.contextmanager
def browser(folder: Path) -> Iterator[Browser]:
    """Yield a browser that ends with the block."""
    path = program()
    assert path is not None
    found = Browser(path, folder)
    try:
        found.attach()
        yield found
    finally:
        found.close()
