"""What a lite daemon is told: flags and environment to one frozen value; the published daemon's names."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from mentatd import options
from mentatd.environment import Reader
from mentatd.errors import SettingsError
from mentatd.lite.state import Address
from mentatd.options import Option
from mentatd.settings import MENTAT_SECRET, MENTAT_SECRET_FILE
from mentatd.wire.version import PROTO, Generation

BIND = Option(
    "bind",
    "MENTAT_BIND",
    "",
    "the one address to listen on and to announce",
    shown="every address",
    value="ADDRESS",
)
PORT = Option(
    "port", "", "6379", "control port, where agents register; 0 lets the system choose", value="PORT"
)
HTTP_PORT = Option(
    "http-port", "", "6380", "port of /status and /events; 0 lets the system choose", value="PORT"
)
NODE_IP = Option(
    "node-ip",
    "MENTAT_NODE_IP",
    "",
    "what this node calls itself",
    shown="--bind, else the default route's address, else the first announced",
    value="ADDRESS",
)
UNIVERSE = Option("universe", "MENTAT_UNIVERSE", "default", "the cluster's name", value="NAME")
ANNOUNCE_PORT = Option(
    "announce-port", "MENTAT_ANNOUNCE_PORT", "6382", "UDP port to announce to; 0: do not", value="PORT"
)
ANNOUNCE_ADDR = Option(
    "announce-addr",
    "MENTAT_ANNOUNCE_ADDR",
    "",
    "hosts to announce to beside the broadcast, host or host:port,…",
    shown="none",
    value="HOST:PORT,...",
)
ANNOUNCE_IFACES = Option(
    "announce-ifaces",
    "MENTAT_ANNOUNCE_IFACES",
    "",
    "interfaces to announce, best first, with tags: enp1*=connectx+rdma,eno1",
    shown="all but loopback and bridges",
    value="NAME=TAG,...",
)
ANNOUNCE_ADDRS = Option(
    "announce-addrs",
    "MENTAT_ANNOUNCE_ADDRS",
    "",
    "addresses to announce instead, best first, with tags: 10.0.0.1=rdma,192.168.1.11",
    shown="those of the interfaces",
    value="ADDRESS=TAG,...",
)
ANNOUNCE_INTERVAL = Option(
    "announce-interval",
    "MENTAT_ANNOUNCE_INTERVAL_S",
    "5",
    "seconds between announcements, 0.1 or more",
    value="SECONDS",
)
PEERS = Option(
    "peers",
    "MENTAT_PEERS",
    "",
    "daemons to join, host or host:port,…; one of a mesh is enough",
    shown="none",
    value="HOST:PORT,...",
)
HISTORY = Option(
    "history-keep",
    "MENTAT_HISTORY_KEEP_MS",
    "600000",
    "milliseconds for which a lost agent or peer stays in /status",
    value="MILLISECONDS",
)
AGENT_DEGRADED = Option(
    "",
    "MENTAT_AGENT_DEGRADED_AFTER_MS",
    "30000",
    "milliseconds after which a lost agent is said to be degraded",
)
AGENT_DEAD = Option(
    "", "MENTAT_AGENT_DEAD_AFTER_MS", "60000", "milliseconds after which a lost agent is said to be dead"
)
PEER_STATUS = Option(
    "", "MENTAT_PEER_STATUS_INTERVAL_MS", "2000", "milliseconds between two reports to each peer, 100 or more"
)
PEER_STALE = Option(
    "", "MENTAT_PEER_STALE_AFTER_MS", "30000", "milliseconds after which a silent peer is stale"
)
PEER_DEAD = Option("", "MENTAT_PEER_DEAD_AFTER_MS", "60000", "milliseconds after which a silent peer is dead")
PROTO_OPTION = Option(
    "proto", "", "", f"{PROTO} writes the newest protocol", shown="the older one", value="VERSION"
)
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
    ANNOUNCE_IFACES,
    ANNOUNCE_ADDRS,
    ANNOUNCE_INTERVAL,
    PEERS,
    HISTORY,
    PROTO_OPTION,
    SECRET,
    SECRET_FILE,
    AGENT_DEGRADED,
    AGENT_DEAD,
    PEER_STATUS,
    PEER_STALE,
    PEER_DEAD,
)
"""The one table of what `mentatd-lite` can be told."""


_LEAST_S = 0.1
"""Between two rounds of telling the others, who all have to read it."""
_LEAST_MS = {PEER_STATUS: round(_LEAST_S * 1000), PEER_DEAD: 1}
"""A peer that is dead after no time at all could not join."""

CONTROL_PORT = int(PORT.default)
"""Of a peer that is named without a port."""


@dataclass(frozen=True, slots=True)
class Pattern:
    """Interfaces by name, and what the operator says of them."""

    name: str
    """`enp1*`: `*` and `?` stand for any letters and any one letter."""
    tags: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Lifetimes:
    """How long it takes until something is said to be so, in milliseconds."""

    history_keep_ms: int = 600_000
    agent_degraded_ms: int = 30_000
    agent_dead_ms: int = 60_000
    peer_status_ms: int = 2_000
    peer_stale_ms: int = 30_000
    peer_dead_ms: int = 60_000


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
    announce_to: tuple[tuple[str, int], ...]
    """Hosts that get each announcement by name, beside the broadcast."""
    ifaces: tuple[Pattern, ...]
    """Interfaces to announce, best first; empty: all that others reach."""
    addrs: tuple[Address, ...]
    """Addresses to announce, best first; empty: those of the interfaces."""
    announce_interval_s: float
    peers: tuple[tuple[str, int], ...]
    """Control addresses of daemons to join."""
    lifetimes: Lifetimes
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
        announce_to=_hosts(ANNOUNCE_ADDR, values, announce_port),
        ifaces=tuple(Pattern(name, tags) for name, tags in _tagged(ANNOUNCE_IFACES, values)),
        addrs=tuple(
            Address(options.address(ANNOUNCE_ADDRS.name, text), tags=tags)
            for text, tags in _tagged(ANNOUNCE_ADDRS, values)
        ),
        announce_interval_s=options.seconds(
            ANNOUNCE_INTERVAL.name, values[ANNOUNCE_INTERVAL.name], lowest=_LEAST_S
        ),
        peers=_hosts(PEERS, values, CONTROL_PORT),
        lifetimes=_lifetimes(values),
        generation="B" if proto else "A",
        secret=Reader(environ).secret(MENTAT_SECRET, MENTAT_SECRET_FILE),
    )


def _numeric(option: Option, values: Mapping[str, str]) -> str:
    text = values[option.name]
    return options.address(option.name, text) if text else ""


def _entries(option: Option, values: Mapping[str, str]) -> list[str]:
    return [entry for entry in map(str.strip, values[option.name].split(",")) if entry]


def _hosts(option: Option, values: Mapping[str, str], port: int) -> tuple[tuple[str, int], ...]:
    return tuple(options.host_port(option.name, entry, port) for entry in _entries(option, values))


def _tagged(option: Option, values: Mapping[str, str]) -> list[tuple[str, tuple[str, ...]]]:
    """Entries like `enp1*=connectx+rdma`: what they are about, and the tags."""
    found = []
    for entry in _entries(option, values):
        name, _, tags = options.word(option.name, entry).partition("=")
        if not name.strip():
            raise SettingsError(f"{option.name}={entry!r} says tags of nothing")
        found.append((name.strip(), tuple(tag for tag in map(str.strip, tags.split("+")) if tag)))
    return found


def _lifetimes(values: Mapping[str, str]) -> Lifetimes:
    read = {
        option: options.milliseconds(option.name, values[option.name], lowest=_LEAST_MS.get(option, 0))
        for option in (HISTORY, AGENT_DEGRADED, AGENT_DEAD, PEER_STATUS, PEER_STALE, PEER_DEAD)
    }
    return Lifetimes(
        history_keep_ms=read[HISTORY],
        agent_degraded_ms=read[AGENT_DEGRADED],
        agent_dead_ms=read[AGENT_DEAD],
        peer_status_ms=read[PEER_STATUS],
        peer_stale_ms=read[PEER_STALE],
        peer_dead_ms=read[PEER_DEAD],
    )
