"""deferred: the first signal waits, the second does not."""

import os
import signal
import threading

import pytest

from baselines.interrupt import deferred


@pytest.mark.parametrize(("number", "error"), [(signal.SIGINT, KeyboardInterrupt), (signal.SIGTERM, SystemExit)])
def test_the_first_signal_waits_for_the_block(number: signal.Signals, error: type[BaseException]) -> None:
    before = signal.getsignal(number)
    with deferred() as interruption:
        assert interruption.signal is None
        os.kill(os.getpid(), number)
        assert interruption.signal == number
    assert signal.getsignal(number) is before
    with pytest.raises(error):
        interruption.raise_if_asked()


def test_a_second_ctrl_c_acts_at_once() -> None:
    reached = []

    def block() -> None:
        with deferred():
            for _ in range(3):
                reached.append(True)
                os.kill(os.getpid(), signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        block()
    assert len(reached) == 2


def test_nothing_asked_nothing_raised() -> None:
    with deferred() as interruption:
        pass
    interruption.raise_if_asked()


def test_other_threads_leave_the_handlers_alone() -> None:
    seen = []

    def work() -> None:
        with deferred() as interruption:
            seen.append((interruption.signal, signal.getsignal(signal.SIGTERM)))

    before = signal.getsignal(signal.SIGTERM)
    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert seen == [(None, before)]
