import signal

import pytest

from dlbench.cli.signals import stop_on_signals
from dlbench.study.follow import Stop


@pytest.mark.parametrize("number", [signal.SIGHUP, signal.SIGTERM])
def test_only_a_lost_terminal_is_a_hangup_and_an_ignored_signal_stays_ignored(number: signal.Signals) -> None:
    before = signal.getsignal(number)
    try:
        for handler, is_heeded in ((signal.SIG_DFL, True), (signal.SIG_IGN, False)):  # in a shell, and under nohup
            signal.signal(number, handler)
            stop = Stop()
            with stop_on_signals(stop):
                signal.raise_signal(number)
            assert (stop.is_set(), stop.is_hangup) == (is_heeded, is_heeded and number == signal.SIGHUP)
            assert signal.getsignal(number) is handler
    finally:
        signal.signal(number, before)
