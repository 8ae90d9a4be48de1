"""What an agent announces and to whom: flags and environment to one frozen value (wire.md section 5)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace

from mentatd import options
from mentatd.errors import SettingsError
from mentatd.options import Option
from mentatd.wire.machine import Gpu, Machine
from mentatd.wire.messages import AgentRegister
from mentatd.wire.service import PortService, Service, has_generation_b_form, parse_announced
from mentatd.wire.version import PROTO, Generation

HEAD_JSON = "/tmp/mentat/head.json"  # noqa: S108 (the published daemon's own place, only read)
"""Where the published daemon on this box writes its control address."""

CONTROL_PORT = 6379
"""Of a daemon's address that names no port."""

OPENAI = Option(
    "openai",
    "MENTAT_OPENAI_API",
    "",
    "OpenAI endpoint: 8000/v1, or a whole URL",
    shown="none is announced",
    value="ENDPOINT",
)
MCP = Option(
    "mcp",
    "MENTAT_MCP_API",
    "",
    "MCP endpoint, in the same forms",
    shown="none is announced",
    value="ENDPOINT",
)
PROVIDER = Option(
    "provider",
    "MENTAT_MODEL_PROVIDER",
    "",
    "the engine behind the OpenAI endpoint, such as vllm",
    shown="not said",
    value="NAME",
)
GROUP = Option(
    "group",
    "MENTAT_GROUP",
    "",
    "the deployment that this engine belongs to",
    shown="SERVICE_NAME, else default",
    value="NAME",
)
SERVICE_NAME = Option("", "SERVICE_NAME", "default", "the group where MENTAT_GROUP is not set")
CONTAINER = Option(
    "container",
    "CONTAINER_NAME",
    "",
    "what tells this engine from others of its group",
    shown="the host name",
    value="NAME",
)
NODE_IP = Option(
    "node-ip", "MENTAT_NODE_IP", "", "the node it runs on", shown="the daemon sees to it", value="ADDRESS"
)
ADDRESS = Option(
    "address",
    "",
    "",
    "the daemon to register with, where MENTAT_DAEMON is not set",
    shown="RAY_ADDRESS",
    value="HOST:PORT",
)
DAEMON = Option("", "MENTAT_DAEMON", "", "the daemon to register with, before --address", shown="--address")
RAY_ADDRESS = Option(
    "",
    "RAY_ADDRESS",
    "",
    "the daemon where neither says it",
    shown=f"the one in {HEAD_JSON}, else 127.0.0.1:{CONTROL_PORT}",
)
DISCOVER = Option(
    "discover",
    "MENTAT_DISCOVER",
    "",
    "find the engines of this machine, on the usual ports or on those named: 8000,11434",
    shown="off",
    alone="usual",
    value="PORT,...",
)
CONFIG = Option("config", "", "", "TOML file with several engines", shown="none", value="FILE")
GPUS = Option("gpus", "MENTAT_GPUS", "0", "offer so many placeholder GPUs, for tests", value="NUMBER")
PROTO_OPTION = Option(
    "proto", "", "", f"{PROTO} speaks the newest daemons' protocol", shown="the older one", value="VERSION"
)

OPTIONS = (
    OPENAI,
    MCP,
    PROVIDER,
    GROUP,
    CONTAINER,
    NODE_IP,
    ADDRESS,
    DISCOVER,
    CONFIG,
    PROTO_OPTION,
    GPUS,
    SERVICE_NAME,
    DAEMON,
    RAY_ADDRESS,
)
"""The one table of what `mentatd-register` can be told."""


@dataclass(frozen=True, slots=True)
class RegisterSettings:
    """One engine to announce."""

    daemon: tuple[str, int]
    """Host and control port."""
    group: str
    container: str
    node_ip: str
    """Empty leaves it to the daemon."""
    services: Mapping[str, Service]
    """By name, `openai` and `mcp`."""
    provider: str
    """Trimmed and lower-cased; empty when not said."""
    gpus: int
    """Placeholder devices. A group that offers any needs a running actor before it is routed to."""
    generation: Generation

    @property
    def ports(self) -> Mapping[str, int]:
        """The port of each service in port form: those whose bind can be watched."""
        return {name: s.port for name, s in self.services.items() if isinstance(s, PortService)}


def read_settings(values: Mapping[str, str], *, hostname: str, head_json: str) -> RegisterSettings:
    """The settings from the texts of `OPTIONS`; `head_json` is the text of that file, empty without one.

    Raises SettingsError, which names the option at fault.
    """
    generation = _generation(values[PROTO_OPTION.name])
    offered = {"openai": OPENAI, "mcp": MCP}
    return RegisterSettings(
        daemon=_daemon(values, head_json),
        group=_first(values, GROUP, SERVICE_NAME),
        container=_first(values, CONTAINER) or hostname,
        node_ip=_first(values, NODE_IP),
        services={
            name: _service(option.name, values[option.name], generation)
            for name, option in offered.items()
            if values[option.name]
        },
        provider=_first(values, PROVIDER).lower(),
        gpus=options.count(GPUS.name, values[GPUS.name]),
        generation=generation,
    )


def check_alone(values: Mapping[str, str], option: Option) -> None:
    """Check that nothing else says of an engine what `option` (`--discover`, `--config`) finds out itself.

    Raises SettingsError, which names what does.
    """
    for other in (DISCOVER, CONFIG, OPENAI, MCP, PROVIDER, GROUP):
        if other != option and values[other.name]:
            raise SettingsError(f"{option.name} and {other.name} cannot be said together")


def found_settings(shared: RegisterSettings, port: int, group: str, provider: str) -> RegisterSettings:
    """Those of an engine that was found, with what is said of all of them."""
    return replace(shared, group=group, provider=provider, services={"openai": PortService(port, "/v1")})


def registration(
    settings: RegisterSettings, notes: Mapping[str, str], *, pid: int, cpus: int, memory: int
) -> AgentRegister:
    """The frame that opens the link. `memory` is the machine's, in bytes."""
    gpus = tuple(Gpu(index) for index in range(settings.gpus))
    return AgentRegister(
        generation=settings.generation,
        req=1,
        agent_id=f"{settings.group}@{settings.container}@{settings.node_ip}",
        group=settings.group,
        node_ip=settings.node_ip,
        container=settings.container,
        pid=pid,
        machine=Machine(cpus=cpus, memory=memory, gpus=gpus),
        services=settings.services,
        notes={name: note for name, note in notes.items() if note},
        provider=settings.provider,
    )


def _first(values: Mapping[str, str], *candidates: Option) -> str:
    """The first of some options that says anything, or else an empty text."""
    return next((options.word(o.name, values[o.name]) for o in candidates if values[o.name]), "")


def _generation(text: str) -> Generation:
    if text not in ("", PROTO):
        raise SettingsError(f"{PROTO_OPTION.name}={text!r} is not {PROTO}, the only one that has a number")
    return "B" if text else "A"


def _service(name: str, text: str, generation: Generation) -> Service:
    try:
        service = parse_announced(text)
    except ValueError as error:
        raise SettingsError(f"{name}: {error}") from error
    if generation == "B" and not has_generation_b_form(service):
        raise SettingsError(f"{name}={text!r}: {PROTO} can only say http://host:port/path")
    return service


def _daemon(values: Mapping[str, str], head_json: str) -> tuple[str, int]:
    """In the order of wire.md section 5; a head.json that does not read as one is passed over."""
    for option in (DAEMON, ADDRESS, RAY_ADDRESS):
        if text := values[option.name]:
            return options.host_port(option.name, text, CONTROL_PORT)
    try:
        document = json.loads(head_json)
        return options.host_port(HEAD_JSON, document["address"], CONTROL_PORT)
    except (ValueError, TypeError, LookupError, AttributeError, RecursionError, SettingsError):
        return "127.0.0.1", CONTROL_PORT
