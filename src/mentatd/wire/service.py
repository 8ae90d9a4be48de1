"""Service endpoints as agents announce them: the port form and the URL form (wire.md sections 1, 3 and 5)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from ipaddress import IPv6Address
from typing import Any

from mentatd.wire.fields import Fields
from mentatd.wire.version import Generation

_PORT_FORM = re.compile(r"([0-9]{1,5})(/[!\"$-~]*)?", re.ASCII)
_URL = re.compile(
    r"(?P<scheme>https?)://(?P<host>\[[0-9a-f:.]+(%[\w.~-]+)?\]|[\w.~-]+)(:(?P<port>[0-9]{1,5}))?"
    r"(?P<path>[/?][!\"$-~]*)?",
    re.ASCII | re.IGNORECASE,
)
"""A base: no user, no fragment, nothing that cannot stand in a request line."""


@dataclass(frozen=True, slots=True)
class PortService:
    """The port form: the reader puts in the host, one candidate for each address of the agent's node."""

    port: int
    """1 to 65535."""
    path: str
    """Empty, or starting with `/`; without a trailing slash."""


@dataclass(frozen=True, slots=True)
class UrlService:
    """The URL form: used exactly as written."""

    url: str
    """An http or https URL with a host, without user and fragment."""


Service = PortService | UrlService


@dataclass(frozen=True, slots=True)
class Announced:
    """Everything that one agent says of its services."""

    services: Mapping[str, Service]
    """By name, `openai` and `mcp`; where both forms are present, the URL."""
    notes: Mapping[str, str]
    """The agent's own bind finding for a service name; empty notes are left out."""
    provider: str
    """The engine behind `openai`, trimmed and lower-cased; empty when not said."""


def parse_announced(text: str) -> Service:
    """The value of `MENTAT_OPENAI_API` or `MENTAT_MCP_API` (wire.md section 5).

    `8000/v1`, `8000`, and an http URL whose host is the wildcard address are the port form; any other http or
    https URL is the URL form. Raises ValueError, whose text names the value and what was expected.
    """
    text = text.strip()
    service: Service | None
    if match := _PORT_FORM.fullmatch(text):
        service = _port_service(int(match[1]), match[2] or "")
    else:
        service = _parse_url(text)
    if service is None:
        raise ValueError(f"{text!r} is neither like 8000/v1 nor like http://10.0.0.1:8000/v1")
    return service


def base_url(service: PortService, host: str) -> str:
    """`http://<host>:<port><path>`, an IPv6 `host` in brackets (wire.md section 3)."""
    return f"http://{_bracketed(host)}:{service.port}{service.path}"


def has_generation_b_form(service: Service) -> bool:
    """Whether generation B can say it: it has no word for https, nor for a query right after the host."""
    return isinstance(service, PortService) or _take_apart(service.url) is not None


def read_services(row: Fields) -> Announced:
    """What an agent's row or its `agent_register` says, in either generation's shape or a mixture.

    A service that cannot be understood is reported to the row's document and left out.
    """
    services: dict[str, Service] = {}
    notes: dict[str, str] = {}
    provider = row.text("provider")
    offered = row.child("services")
    for name in offered:
        if isinstance(offered.peek(name), dict):
            entry = offered.child(name)
            service = _read_entry(entry)
            notes[name] = entry.text("note")
            if name == "openai":
                provider = provider or entry.text("provider")
        else:
            service = _read_url(offered, name)
        if service is not None:
            services[name] = service
    for name, entry in row.rows("services_ports", "name").items():
        service = None if name in services else _read_entry(entry)
        if service is not None:
            services[name] = service
    spoken = row.child("service_notes")
    notes.update((name, spoken.text(name)) for name in spoken)
    return Announced(
        services=services,
        notes={name: note for name, note in notes.items() if note},
        provider=provider.strip().lower(),
    )


def write_services(announced: Announced, generation: Generation) -> dict[str, Any]:
    """The members of an agent's row that say the same.

    Raises ValueError for a service that generation B cannot say. That generation also loses the note of a
    service that is not there, and the provider without `openai`.
    """
    if generation == "B":
        return {"services": {name: _entry(name, announced) for name in announced.services}}
    urls = {name: s.url for name, s in announced.services.items() if isinstance(s, UrlService)}
    ports = {
        name: {"port": s.port, "path": s.path}
        for name, s in announced.services.items()
        if isinstance(s, PortService)
    }
    return {
        "services": urls,
        "services_ports": ports,
        "service_notes": dict(announced.notes),
        "provider": announced.provider,
    }


def _entry(name: str, announced: Announced) -> dict[str, Any]:
    """Generation B's object for one service."""
    service = announced.services[name]
    if isinstance(service, PortService):
        host, port, path = "", service.port, service.path
    elif (parts := _take_apart(service.url)) is not None:
        host, port, path = parts
    else:
        raise ValueError(f"{service.url} cannot be announced as 0.99, which knows only http://host:port/path")
    provider = announced.provider if name == "openai" else ""
    note = announced.notes.get(name, "")
    return {"host": host, "port": port, "path": path, "provider": provider, "note": note}


def _read_url(row: Fields, name: str) -> UrlService | None:
    url = row.text(name)
    if not url or _is_base(url):
        return UrlService(url) if url else None
    row.report(name, "expected an http or https URL")
    return None


def _read_entry(entry: Fields) -> Service | None:
    """`{host, port, path}` of generation B, or `{port, path}` of generation A's `services_ports`."""
    host, port, path = entry.text("host"), entry.port("port"), entry.text("path")
    if not port:
        return None
    if path and not path.startswith("/"):
        path = f"/{path}"
    if not _PORT_FORM.fullmatch(f"{port}{path}"):
        entry.report("path", "this cannot stand in a URL")
        return None
    if not host:
        return _port_service(port, path)
    url = f"http://{_bracketed(host)}:{port}{path}"
    if not _is_base(url):
        entry.report("host", "this is no host")
        return None
    return UrlService(url)


def _port_service(port: int, path: str) -> PortService | None:
    return PortService(port, path.rstrip("/")) if 1 <= port <= 65535 else None


def _parse_url(text: str) -> Service | None:
    match = _URL.fullmatch(text)
    if match is None or not _is_base(text):
        return None
    if not _is_wildcard(match["host"]):
        return UrlService(text)
    parts = _take_apart(text)
    return _port_service(parts[1], parts[2]) if parts is not None else None


def _is_base(url: str) -> bool:
    """Whether it can be asked: http or https, a host that is one, a port that is one."""
    match = _URL.fullmatch(url)
    if match is None or not 1 <= int(match["port"] or 80) <= 65535:
        return False
    return not match["host"].startswith("[") or _ipv6(match["host"]) is not None


def _take_apart(url: str) -> tuple[str, int, str] | None:
    """Host (IPv6 in brackets, so that a reader can put it into a URL), port and path of an http URL."""
    match = _URL.fullmatch(url)
    if match is None or match["scheme"].lower() != "http" or (match["path"] or "/")[0] != "/":
        return None
    return match["host"], int(match["port"] or 80), match["path"] or ""


def _is_wildcard(host: str) -> bool:
    address = _ipv6(host)
    return host == "0.0.0.0" or (address is not None and address.is_unspecified)


def _ipv6(host: str) -> IPv6Address | None:
    try:
        return IPv6Address(host.strip("[]"))
    except ValueError:
        return None


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host and not host.startswith("[") else host
