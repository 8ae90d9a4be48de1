"""How a value of one of the router's variables is read. Each raises ValueError for what is to be ignored. Pure."""

from __future__ import annotations

import re

from mentatd.cluster.sources import parse_address, parse_entry
from mentatd.environment import key, seconds, whole

DAEMON_PORT = 6380
"""Of a seed that names no port."""

SHORTEST_S = 0.1
"""Of what the router does again and again by itself: more often, and it would do little else."""

_NAME = r"(?=.{1,253}$)([a-z0-9_-]+\.)*(?![0-9]+\.?$)[a-z0-9_-]+\.?"
_OWN_PORTS = {"http": ":80", "https": ":443"}


def port(text: str) -> int:
    """A port; 0 stands for none, or any."""
    return whole(text, lowest=0, highest=65535)


def connections(text: str) -> int:
    """How many connections."""
    return whole(text, lowest=1, highest=1_000_000)


def mebibytes(text: str) -> int:
    """An amount of memory, in MiB."""
    return whole(text, lowest=1, highest=1_000_000_000)


def seconds_or_zero(text: str) -> float:
    """A duration; 0 stands for never."""
    return 0.0 if re.fullmatch(r"0+(\.0*)?", text.strip()) else seconds(text)


def bearable(interval_s: float) -> float:
    """An interval that keeps nobody busy; 0 stands for never and stays."""
    return max(interval_s, SHORTEST_S) if interval_s else 0.0


def bearer(text: str) -> bytes:
    """A token as a field of a request can carry it: visible ASCII."""
    if not re.fullmatch(r"\s*[!-~]+\s*", text):
        raise ValueError("not visible ASCII")
    return key(text)


def origin(entry: str) -> str:
    """As a browser writes it: in lower case, without the scheme's own port and without a path."""
    text = entry.lower().removesuffix("/")
    match = re.fullmatch(r"([a-z][a-z0-9+.-]*)://(\[[0-9a-f:.]+\]|[a-z0-9._~-]+)(:[0-9]{1,5})?", text)
    if match is None:
        if text == "*":
            return text
        raise ValueError("no origin")
    scheme, host, port = match.groups("")
    return f"{scheme}://{host}{'' if port == _OWN_PORTS.get(scheme) else port}"


def source(entry: str) -> str:
    """An entry of ALLOWED_SOURCES, as it is written."""
    parse_entry(entry)
    return entry


def seed(entry: str) -> tuple[str, int]:
    """A host and its port, or `DAEMON_PORT`. A bare IPv6 address has no port: `fd00::1:6380` is an address."""
    if entry.count(":") > 1 and not entry.startswith("["):
        return _host(entry), DAEMON_PORT
    match = re.fullmatch(r"(?:\[([^\[\]]*:[^\[\]]*)\]|([^\[\]:]+))(?::([0-9]+))?", entry)
    if match is None:
        raise ValueError("neither host nor host:port")
    v6, name, number = match.groups()
    return _host(v6 or name), DAEMON_PORT if number is None else whole(number, lowest=1, highest=65535)


def _host(text: str) -> str:
    """A literal address in its one text, or a name. A last label of digits is a mistyped address, no name."""
    address = None if "%" in text else parse_address(text)
    if address is not None:
        return str(address)
    if re.fullmatch(_NAME, text, re.IGNORECASE | re.ASCII):
        return text
    raise ValueError("neither an address nor a name")
