"""Turn SIGINT and SIGTERM into a flag that a loop looks at when it is safe to stop."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


class Interruption:
    """Which signal asked to stop, if any."""

    def __init__(self) -> None:
        self.signal: int | None = None

    def raise_if_asked(self) -> None:
        """Raise KeyboardInterrupt after SIGINT, SystemExit (status 143) after SIGTERM, else nothing."""
        if self.signal == signal.SIGINT:
            raise KeyboardInterrupt
        if self.signal is not None:
            raise SystemExit(128 + self.signal)


@contextmanager
def deferred() -> Iterator[Interruption]:
    """Hold back the first SIGINT or SIGTERM while the block runs; a second one acts at once.

    Outside the main thread, where Python delivers no signals, the flag just stays unset.
    """
    asked = Interruption()
    if threading.current_thread() is not threading.main_thread():
        yield asked
        return
    kept = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}

    def note(number: int, _: FrameType | None) -> None:
        asked.signal = number
        restore()

    def restore() -> None:
        for number, handler in kept.items():
            # None: the handler was not installed from Python, and only its owner can put it back.
            signal.signal(number, signal.SIG_DFL if handler is None else handler)

    for number in kept:
        signal.signal(number, note)
    try:
        yield asked
    finally:
        restore()
