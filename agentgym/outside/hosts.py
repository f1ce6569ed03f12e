"""Which hosts a server of ours answers for, and pages of which hosts may ask it."""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Iterable, Sequence

from agentgym.outside.text import clean

#: Characters of a foreign name that are shown.
_SHOWN = 100


class OwnHosts:
    """The names of a server that has no passwords, against pages in a browser on a machine that reaches it.

    Such a page has two ways to the server: its own name is bent to the server's address, and the request names a
    foreign `Host`; or it asks the address itself, and the browser names the page in `Origin`. Programs send none.

    Args:
        names: hosts that requests may be addressed to and pages may come from, beside localhost and this machine's
            name; "*" for all. Requests may be addressed to any IP address, since nobody's name was bent to it; pages
            may come from loopback addresses, and from the host and port that their request is addressed to.

    >>> own = OwnHosts(["node7"])
    >>> own.refusal(["node7:8000"], []), own.refusal(["10.0.0.7"], ["http://localhost:3000"])
    ('', '')
    >>> own.refusal(["evil.example"], [])
    "this is not 'evil.example'; --allow-host gives the server another name"
    """

    def __init__(self, names: Iterable[str] = ()) -> None:
        self._names = {name.lower() for name in ("localhost", socket.gethostname(), *names) if name}

    def refusal(self, hosts: Sequence[str], origins: Sequence[str]) -> str:
        """Return why a request is refused, "" for one that is answered.

        Args:
            hosts: all its headers `Host`.
            origins: all its headers `Origin`.
        """
        if "*" in self._names:
            return ""
        for host in hosts:
            if self._named(host) is None:
                return f"this is not {clean(host, _SHOWN)!r}; --allow-host gives the server another name"
        for origin in origins:
            place = origin.strip().lower().partition("://")[2]
            named = self._named(place)
            if not (named or place in [host.strip().lower() for host in hosts]):
                return (
                    f"pages of {clean(origin, _SHOWN)!r} may not ask this server; --allow-host permits those of a host"
                )
        return ""

    def _named(self, host: str) -> bool | None:
        """Say whether a host, with or without a port, is known by name or is this machine; None for a foreign name."""
        name = host.strip().lower()
        name = name[1:].partition("]")[0] if name.startswith("[") else name.partition(":")[0]
        if name in self._names:
            return True
        try:
            return ipaddress.ip_address(name).is_loopback
        except ValueError:
            return None
