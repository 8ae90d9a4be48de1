"""The router's settings: environment to one frozen value (manual "Environment").

`VARIABLES` is the one table of them: it drives the parsing, `--help` and the rows of docs/configuration.md.
"""

from __future__ import annotations

import textwrap
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from mentatd import values
from mentatd.cluster.sources import AllowedSources
from mentatd.environment import Reader, Variable, key, seconds


@dataclass(frozen=True, slots=True)
class Settings:
    """Everything the router is told from outside. Durations in seconds."""

    serve_port: int
    """0: the system chooses."""
    seeds: tuple[tuple[str, int], ...]
    """MENTAT_DAEMONS as (host, port); IPv6 without brackets."""
    announce_port: int
    """0: no listener."""
    allowed_sources: AllowedSources
    """Whom to listen to, and which derived addresses to send to."""
    discover_peers: bool
    """Watch the mesh peers of watched daemons too."""
    poll_interval_s: float
    """Between two `/status` polls of one daemon; a view older than three is stale."""
    probe_interval_s: float
    """Between two probes of one endpoint."""
    probe_timeout_s: float
    """For one probe of one address."""
    probe_fresh_s: float
    """How long a probe result stays valid."""
    probe_promote_s: float
    """Between two tries of the addresses ranked above the one in use."""
    serving_timeout_s: float
    """For one upstream request."""
    mcp_timeout_s: float
    """For one forwarded MCP call and one tokenize call."""
    tools_ttl_s: float
    """How long a group's `tools/list` answer is cached."""
    secret: bytes | None = field(repr=False)
    """Key of signed announcements, never empty; None: unsigned ones are taken."""
    universe: str
    """The cluster's name."""
    drain_s: float
    """How long a stopping router lets requests in flight go on."""
    sse_keepalive_s: float
    """Silence after which a streaming client gets a comment, and between two of them; 0: never."""
    client_timeout_s: float
    """A request head must be whole within it; a body must make progress within each."""
    max_connections: int
    """Clients' connections at one time."""
    body_memory_mib: int
    """Large request bodies that are held at one time, in MiB."""
    engine_api_key: bytes | None = field(repr=False)
    """What the router's own questions to engines carry, visible ASCII; None: nothing."""
    cors_allow_origins: frozenset[str]
    """Pages that may read answers, as browsers write their origins, or `*`; none: CORS is off."""
    warnings: tuple[str, ...] = ()
    """What was not taken from the environment as it is, one sentence each, to be logged once."""


_PORT = "a port from 0 to 65535"
_SECONDS = "a number of seconds above 0"

SERVE_PORT = Variable("SERVE_PORT", _PORT, "6381", "HTTP port; 0: the system chooses", values.port)
MENTAT_DAEMONS = Variable(
    "MENTAT_DAEMONS",
    "a host or host:port",
    "127.0.0.1:6380",
    "daemons to watch from the start; set and empty: none",
    values.seed,
)
MENTAT_ANNOUNCE_PORT = Variable(
    "MENTAT_ANNOUNCE_PORT",
    _PORT,
    "6382",
    "UDP port of the daemons' announcements; 0: do not listen",
    values.port,
)
ALLOWED_SOURCES = Variable(
    "ALLOWED_SOURCES",
    "an address prefix, a CIDR block or `local`",
    "10.100.0.,192.168.1.,127.0.0.1,::1,172.",
    "addresses to listen to, and to send to",
    values.source,
)
DISCOVER_PEERS = Variable(
    "DISCOVER_PEERS",
    "1 or anything else",
    "1",
    "1: watch the mesh peers of every watched daemon",
    lambda text: text == "1",
)
POLL_INTERVAL_S = Variable(
    "POLL_INTERVAL_S",
    _SECONDS,
    "10",
    "between two polls of a daemon; stale after three",
    seconds,
    values.bearable,
)
PROBE_INTERVAL_S = Variable(
    "PROBE_INTERVAL_S", _SECONDS, "5", "between two probes of an endpoint", seconds, values.bearable
)
PROBE_TIMEOUT_S = Variable("PROBE_TIMEOUT_S", _SECONDS, "3", "for one probe of one address", seconds)
PROBE_FRESH_S = Variable(
    "PROBE_FRESH_S",
    _SECONDS,
    "three probe intervals plus one timeout",
    "how long a probe result holds",
    seconds,
)
PROBE_PROMOTE_S = Variable(
    "PROBE_PROMOTE_S",
    _SECONDS,
    "six probe intervals",
    "between two tries of better ranked addresses",
    seconds,
)
SERVING_TIMEOUT_S = Variable(
    "SERVING_TIMEOUT_S", _SECONDS, "1800", "for one request to an engine, generation included", seconds
)
MCP_TIMEOUT_S = Variable(
    "MCP_TIMEOUT_S", _SECONDS, "180", "for one forwarded MCP call, or one tokenize call", seconds
)
TOOLS_TTL_S = Variable("TOOLS_TTL_S", _SECONDS, "60", "how long a group's MCP tool list is cached", seconds)
MENTAT_SECRET = Variable("MENTAT_SECRET", "a key", "unset", "key that announcements must be signed with", key)
MENTAT_SECRET_FILE = Variable("MENTAT_SECRET_FILE", "a path", "unset", "read the key from this file", str)
MENTAT_UNIVERSE = Variable("MENTAT_UNIVERSE", "a name", "default", "name of the cluster", str)
DRAIN_S = Variable("DRAIN_S", _SECONDS, "30", "how long requests in flight go on after SIGTERM", seconds)
SSE_KEEPALIVE_S = Variable(
    "SSE_KEEPALIVE_S",
    "a number of seconds, or 0",
    "10",
    "a streaming client gets a comment after each such silence before the answer; 0: never",
    values.seconds_or_zero,
    values.bearable,
)
CLIENT_TIMEOUT_S = Variable(
    "CLIENT_TIMEOUT_S",
    _SECONDS,
    "60",
    "for a request's head, and for each 1 KiB of its body",
    seconds,
    values.bearable,
)
MAX_CONNECTIONS = Variable(
    "MAX_CONNECTIONS", "a number above 0", "4096", "clients' connections at one time", values.connections
)
BODY_MEMORY_MIB = Variable(
    "BODY_MEMORY_MIB",
    "a number above 0",
    "1024",
    "MiB for bodies over 1 MiB; clients wait for it",
    values.mebibytes,
)
ENGINE_API_KEY = Variable(
    "ENGINE_API_KEY",
    "a key in visible ASCII",
    "unset",
    "key for the router's own questions to engines",
    values.bearer,
)
ENGINE_API_KEY_FILE = Variable("ENGINE_API_KEY_FILE", "a path", "unset", "read that key from this file", str)
CORS_ALLOW_ORIGINS = Variable(
    "CORS_ALLOW_ORIGINS",
    "* or an origin like https://chat.example",
    "unset",
    "pages of other sites that may use the router",
    values.origin,
)

VARIABLES: tuple[Variable[Any], ...] = (
    SERVE_PORT,
    MENTAT_DAEMONS,
    MENTAT_ANNOUNCE_PORT,
    ALLOWED_SOURCES,
    DISCOVER_PEERS,
    POLL_INTERVAL_S,
    PROBE_INTERVAL_S,
    PROBE_TIMEOUT_S,
    PROBE_FRESH_S,
    PROBE_PROMOTE_S,
    SERVING_TIMEOUT_S,
    MCP_TIMEOUT_S,
    TOOLS_TTL_S,
    MENTAT_SECRET,
    MENTAT_SECRET_FILE,
    MENTAT_UNIVERSE,
    DRAIN_S,
    SSE_KEEPALIVE_S,
    CLIENT_TIMEOUT_S,
    MAX_CONNECTIONS,
    BODY_MEMORY_MIB,
    ENGINE_API_KEY,
    ENGINE_API_KEY_FILE,
    CORS_ALLOW_ORIGINS,
)


def read_settings(environ: Mapping[str, str]) -> Settings:
    """Parse the environment. Raises SettingsError for what stops the process (MENTAT_SECRET_FILE)."""
    read = Reader(environ)
    probe_interval_s = read.one(PROBE_INTERVAL_S)
    probe_timeout_s = read.one(PROBE_TIMEOUT_S)
    settings = Settings(
        serve_port=read.one(SERVE_PORT),
        seeds=read.many(MENTAT_DAEMONS, may_be_empty=True),
        announce_port=read.one(MENTAT_ANNOUNCE_PORT),
        allowed_sources=AllowedSources(read.many(ALLOWED_SOURCES)),
        discover_peers=read.one(DISCOVER_PEERS),
        poll_interval_s=read.one(POLL_INTERVAL_S),
        probe_interval_s=probe_interval_s,
        probe_timeout_s=probe_timeout_s,
        probe_fresh_s=read.one(PROBE_FRESH_S, 3 * probe_interval_s + probe_timeout_s),
        probe_promote_s=read.one(PROBE_PROMOTE_S, 6 * probe_interval_s),
        serving_timeout_s=read.one(SERVING_TIMEOUT_S),
        mcp_timeout_s=read.one(MCP_TIMEOUT_S),
        tools_ttl_s=read.one(TOOLS_TTL_S),
        secret=read.secret(MENTAT_SECRET, MENTAT_SECRET_FILE),
        universe=read.one(MENTAT_UNIVERSE),
        drain_s=read.one(DRAIN_S),
        sse_keepalive_s=read.one(SSE_KEEPALIVE_S),
        client_timeout_s=read.one(CLIENT_TIMEOUT_S),
        max_connections=read.one(MAX_CONNECTIONS),
        body_memory_mib=read.one(BODY_MEMORY_MIB),
        engine_api_key=read.secret(ENGINE_API_KEY, ENGINE_API_KEY_FILE),
        cors_allow_origins=frozenset(read.many(CORS_ALLOW_ORIGINS, ())),
    )
    return replace(settings, warnings=tuple(read.warnings))


_USAGE = """\
usage: mentatd-serve [--version | --help]

One OpenAI-compatible endpoint and one MCP endpoint for every model of a mentat cluster.
The environment configures it; an unset or empty variable takes its [default]:

"""


def help_text() -> str:
    """What `mentatd-serve --help` prints: every variable in one screen of 100 columns."""
    rows = (
        textwrap.fill(
            f"{variable.name:<22}{variable.help} [{variable.default}]",
            width=100,
            initial_indent="  ",
            subsequent_indent=" " * 24,
            break_on_hyphens=False,
        )
        for variable in VARIABLES
    )
    return _USAGE + "\n".join(rows) + "\n"
