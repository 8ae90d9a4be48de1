"""Engines that run on this machine: what tells them, and when they are announced; pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace

import msgspec

from mentatd import options
from mentatd.errors import SettingsError
from mentatd.register.settings import DISCOVER

USUAL_PORTS = (8000, 30000, 8080, 11434, 1234)
"""vLLM, SGLang, llama.cpp, Ollama, LM Studio."""

FORGET_S = 600.0
"""An engine that has listened on nothing for this long is announced no more; one that restarts is back before."""

_OWNERS = {
    "vllm": "vllm",
    "sglang": "sglang",
    "llamacpp": "llamacpp",
    "library": "ollama",
    "organization_owner": "lmstudio",
    "organization-owner": "lmstudio",
}
"""What each engine writes as `owned_by`."""

_MANY = frozenset({"ollama", "lmstudio"})
"""Serve whatever was pulled: their groups are named like themselves."""

_NO_NAME = re.compile(r"[^A-Za-z0-9._-]+")


@dataclass(frozen=True, slots=True)
class Engine:
    """One engine that answered."""

    name: str
    """Of its group, before it is made unique."""
    provider: str
    """Empty when nothing tells."""


@dataclass(frozen=True, slots=True)
class Listing:
    """What an engine's `/v1/models` told."""

    model: str
    """The first one's id."""
    owner: str
    """Its `owned_by`; empty without one."""


@dataclass(frozen=True, slots=True)
class Announced:
    """An engine that is announced."""

    engine: Engine
    group: str
    gone_since_s: float | None = None
    """Since when nothing listens on its port."""


@dataclass(frozen=True, slots=True)
class Next:
    """What a look at the ports leads to."""

    announced: Mapping[int, Announced]
    """By port."""
    start: tuple[int, ...]
    stop: tuple[int, ...]
    """Ports; one in both is announced anew, as another engine."""


def read_ports(text: str) -> tuple[int, ...]:
    """The ports that `--discover` names, or the usual ones. Raises SettingsError."""
    if text == DISCOVER.alone:
        return USUAL_PORTS
    entries = [entry for entry in map(str.strip, text.split(",")) if entry]
    if not entries:
        raise SettingsError(f"{DISCOVER.name}={text!r} names no port")
    return tuple(dict.fromkeys(options.port(DISCOVER.name, entry) for entry in entries))


class _Entry(msgspec.Struct):
    id: str
    owned_by: object = ""


class _Models(msgspec.Struct):
    data: list[_Entry]


class _Version(msgspec.Struct):
    version: str


class _Router(msgspec.Struct):
    daemons: dict[str, object]
    groups: dict[str, object]


def read_listing(body: bytes) -> Listing | None:
    """The first model of a `/v1/models` document; None when it is no such document, or lists none."""
    try:
        entries = msgspec.json.decode(body, type=_Models).data
    except (msgspec.MsgspecError, RecursionError):
        return None
    if not entries or not entries[0].id:
        return None
    owner = entries[0].owned_by
    return Listing(entries[0].id, owner if isinstance(owner, str) else "")


def owner_provider(listing: Listing) -> str:
    """The engine that writes such an owner; empty when none is known to."""
    return _OWNERS.get(listing.owner.lower(), "")


def is_version(body: bytes) -> bool:
    """Whether a body is a version document, as vLLM has at `/version` and Ollama at `/api/version`."""
    return _is(body, _Version)


def is_router(body: bytes) -> bool:
    """Whether a body is a router's `/status.json`: one that announced itself would forward to itself."""
    return _is(body, _Router)


def engine(listing: Listing, provider: str, port: int) -> Engine:
    """The engine on `port`, named like its first model, or like itself where models come and go."""
    if provider in _MANY:
        return Engine(provider, provider)
    name = listing.model.rstrip("/").rpartition("/")[2].removesuffix(".gguf")
    return Engine(_NO_NAME.sub("-", name).strip("-.")[:64] or f"engine-{port}", provider)


def decide(before: Mapping[int, Announced], seen: Mapping[int, Engine | None], now_s: float) -> Next:
    """What to announce after a look: `seen` has the ports that something listens on, and the engine if one answered.

    An engine that does not answer, or listens no more, stays announced for a while: it may be starting again, and the
    router says what is wrong with it. Another one on its port takes its place.
    """
    after: dict[int, Announced] = {}
    for port, known in before.items():
        if port in seen:
            after[port] = replace(known, gone_since_s=None)
        else:
            since = now_s if known.gone_since_s is None else known.gone_since_s
            if now_s - since < FORGET_S:
                after[port] = replace(known, gone_since_s=since)
    start = []
    for port, found in seen.items():
        if found is not None and (port not in after or after[port].engine != found):
            after.pop(port, None)
            taken = {known.group for known in after.values()}
            group = found.name if found.name not in taken else f"{found.name}-{port}"
            after[port] = Announced(found, group)
            start.append(port)
    stop = tuple(port for port in before if port not in after or port in start)
    return Next(after, tuple(start), stop)


def _is(body: bytes, shape: type[msgspec.Struct]) -> bool:
    try:
        msgspec.json.decode(body, type=shape)
    except (msgspec.MsgspecError, RecursionError):
        return False
    return True
