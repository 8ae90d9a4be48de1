"""What a lite daemon is told: flags and environment to one frozen value; the published daemon's names."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from mentatd import options
from mentatd.environment import Reader
from mentatd.errors import SettingsError
from mentatd.options import Option
from mentatd.settings import MENTAT_SECRET, MENTAT_SECRET_FILE
from mentatd.wire.version import PROTO, Generation

BIND = Option(
    "bind", "MENTAT_BIND", "", "the one address to listen on and to announce", shown="every address"
)
PORT = Option("port", "", "6379", "control port, where agents register; 0 lets the system choose")
HTTP_PORT = Option("http-port", "", "6380", "port of /status and /events; 0 lets the system choose")
NODE_IP = Option(
    "node-ip",
    "MENTAT_NODE_IP",
    "",
    "what this node calls itself",
    shown="--bind, else the default route's address",
)
UNIVERSE = Option("universe", "MENTAT_UNIVERSE", "default", "the cluster's name")
ANNOUNCE_PORT = Option("announce-port", "MENTAT_ANNOUNCE_PORT", "6382", "UDP port to announce to; 0: do not")
ANNOUNCE_ADDR = Option(
    "announce-addr",
    "MENTAT_ANNOUNCE_ADDR",
    "",
    "hosts to announce to beside the broadcast, host or host:port,…",
    shown="none",
)
ANNOUNCE_INTERVAL = Option(
    "announce-interval", "MENTAT_ANNOUNCE_INTERVAL_S", "5", "seconds between announcements"
)
HISTORY = Option(
    "history-keep", "MENTAT_HISTORY_KEEP_MS", "600000", "milliseconds for which a lost agent stays in /status"
)
PROTO_OPTION = Option("proto", "", "", f"{PROTO} writes the newest protocol", shown="the older one")
SECRET = Option("", MENTAT_SECRET.name, "", "key to sign announcements with", shown="unsigned")
SECRET_FILE = Option("", MENTAT_SECRET_FILE.name, "", "read the key from this file instead", shown="none")

OPTIONS = (
    BIND,
    PORT,
    HTTP_PORT,
    NODE_IP,
    UNIVERSE,
    ANNOUNCE_PORT,
    ANNOUNCE_ADDR,
    ANNOUNCE_INTERVAL,
    HISTORY,
    PROTO_OPTION,
    SECRET,
    SECRET_FILE,
)
"""The one table of what `mentatd-lite` can be told."""


@dataclass(frozen=True, slots=True)
class LiteSettings:
    """One daemon."""

    bind: str
    """The one address to listen on, numeric; empty: every address."""
    port: int
    http_port: int
    node_ip: str
    """Empty: `bind`, or else the address of the default route."""
    universe: str
    announce_port: int
    """0: no announcements."""
    announce_addrs: tuple[tuple[str, int], ...]
    """Hosts that get each announcement by name, beside the broadcast."""
    announce_interval_s: float
    history_keep_ms: int
    generation: Generation
    """Of what it writes; agents of both may register."""
    secret: bytes | None = field(repr=False)


def read_settings(values: Mapping[str, str], environ: Mapping[str, str]) -> LiteSettings:
    """The settings from the texts of `OPTIONS`, and the secret from the environment.

    Raises SettingsError, which names the option at fault, or the secret's file that cannot be read.
    """
    announce_port = options.port(ANNOUNCE_PORT.name, values[ANNOUNCE_PORT.name], lowest=0)
    if (proto := values[PROTO_OPTION.name]) not in ("", PROTO):
        raise SettingsError(f"{PROTO_OPTION.name}={proto!r} is not {PROTO}, the only one that has a number")
    return LiteSettings(
        bind=_numeric(BIND, values),
        port=options.port(PORT.name, values[PORT.name], lowest=0),
        http_port=options.port(HTTP_PORT.name, values[HTTP_PORT.name], lowest=0),
        node_ip=_numeric(NODE_IP, values),
        universe=options.word(UNIVERSE.name, values[UNIVERSE.name]),
        announce_port=announce_port,
        announce_addrs=tuple(
            options.host_port(ANNOUNCE_ADDR.name, entry, announce_port)
            for entry in filter(None, map(str.strip, values[ANNOUNCE_ADDR.name].split(",")))
        ),
        announce_interval_s=options.seconds(ANNOUNCE_INTERVAL.name, values[ANNOUNCE_INTERVAL.name]),
        history_keep_ms=options.milliseconds(HISTORY.name, values[HISTORY.name]),
        generation="B" if proto else "A",
        secret=Reader(environ).secret(MENTAT_SECRET, MENTAT_SECRET_FILE),
    )


def _numeric(option: Option, values: Mapping[str, str]) -> str:
    text = values[option.name]
    return options.address(option.name, text) if text else ""
