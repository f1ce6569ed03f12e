"""One thread that hangs up on connections whose time is over."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections.abc import Iterator


class Deadlines:
    """Limits on whole exchanges over sockets, of any number of threads; one thread watches over all of them."""

    def __init__(self) -> None:
        self._running: dict[object, tuple[float, socket.socket]] = {}
        self._changed = threading.Condition()
        self._watched = False
        self._wakes = float("inf")

    @contextlib.contextmanager
    def limit(self, connected: socket.socket, until: float) -> Iterator[None]:
        """Shut a socket down if the block is not over by `until` (of `time.monotonic`).

        Raises:
            TimeoutError: when the block ends too late, whatever it raised itself.
        """
        ticket = object()
        with self._changed:
            self._running[ticket] = until, connected
            if not self._watched:
                self._watched = True
                threading.Thread(target=self._watch, name="chat-deadlines", daemon=True).start()
            elif until < self._wakes:
                self._changed.notify()
        try:
            yield
        except Exception as error:
            if time.monotonic() >= until:
                raise TimeoutError from error
            raise
        finally:
            with self._changed:
                del self._running[ticket]
        if time.monotonic() >= until:  # a socket that is shut down looks like an answer that ends
            raise TimeoutError

    def _watch(self) -> None:
        with self._changed:
            while self._running:
                now = time.monotonic()
                for until, connected in self._running.values():
                    if until <= now:
                        with contextlib.suppress(OSError):
                            connected.shutdown(socket.SHUT_RDWR)
                self._wakes = min((until for until, _ in self._running.values() if until > now), default=now + 0.1)
                self._changed.wait(self._wakes - now)
            self._watched = False
