"""Waiting for what other processes do."""

import time
from collections.abc import Callable
from typing import Any

import pytest


def wait_until(
    condition: Callable[[], Any], otherwise: Callable[[], str] | str = "it did not happen", timeout_s: float = 100.0
) -> None:
    """Poll until a condition holds; at the time-out the test fails with a text."""
    deadline = time.monotonic() + timeout_s
    while not condition():
        if time.monotonic() > deadline:
            pytest.fail(otherwise if isinstance(otherwise, str) else otherwise())
        time.sleep(0.02)
