"""Every answer that the router gives in its own name in place of the one asked for.

`TABLE` is the one place where their statuses, types and codes stand; docs/errors.md shows the same rows to
users. The http room refuses what is wrong with the HTTP itself; the rows of those refusals are here too.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from mentatd.cluster.routes import NotAdmitted, Unknown
from mentatd.errors import Refusal
from mentatd.wire.openai import BadBody, shown


@dataclass(frozen=True, slots=True)
class Kind:
    """One row of the table."""

    status: int
    """HTTP status."""
    type: str
    """OpenAI's error type."""
    code: str
    """What programs tell it by; unique."""
    when: str
    """When it is answered, for users."""


_REQUEST = "invalid_request_error"
_SERVER = "server_error"

TABLE = (
    Kind(400, _REQUEST, "malformed_request", "the request is not well-formed HTTP/1.1, or ambiguous"),
    Kind(400, _REQUEST, "invalid_body", "the body is neither JSON nor a form that can be read"),
    Kind(400, _REQUEST, "missing_model", "the body has no `model`"),
    Kind(400, _REQUEST, "invalid_model", "`model` is not a non-empty string"),
    Kind(
        400, _REQUEST, "invalid_prompt", "the prompt to be counted cannot be read, or its engine refuses it"
    ),
    Kind(
        400,
        _REQUEST,
        "unknown_provider",
        "nothing here can count tokens with the engine that serves the model",
    ),
    Kind(400, _REQUEST, "invalid_encoding", "the body is not what its Content-Encoding says"),
    Kind(403, "permission_error", "source_not_allowed", "the client's address is not in ALLOWED_SOURCES"),
    Kind(
        403,
        "permission_error",
        "origin_not_allowed",
        "a page of another site sends a POST (CORS_ALLOW_ORIGINS)",
    ),
    Kind(404, _REQUEST, "model_not_found", "nothing serves this model; see `available` and `not_ready`"),
    Kind(404, _REQUEST, "unknown_path", "the router has no document at this path"),
    Kind(405, _REQUEST, "method_not_allowed", "the path does not take this method; see the Allow field"),
    Kind(408, _REQUEST, "request_timeout", "the request did not come whole in time"),
    Kind(
        413,
        _REQUEST,
        "body_too_large",
        "the body is over 128 MiB (`/mcp`: 16, counting tokens: 32), as sent or decoded",
    ),
    Kind(415, _REQUEST, "unknown_encoding", "the router cannot decode this Content-Encoding"),
    Kind(431, _REQUEST, "headers_too_large", "the head is over 64 KiB or 256 fields"),
    Kind(500, _SERVER, "internal_error", "the router failed; its log says why"),
    Kind(501, _REQUEST, "method_not_implemented", "the method is not one of HTTP's"),
    Kind(502, _SERVER, "engine_unreachable", "no address of the group takes a connection; nothing was sent"),
    Kind(
        502,
        _SERVER,
        "engine_failed",
        "the engine ended the exchange before it answered, or counted no tokens",
    ),
    Kind(
        503, _SERVER, "model_not_ready", "the model's group is there, but not admitted; the message says why"
    ),
    Kind(503, "overloaded_error", "too_many_connections", "the router carries as many connections as it may"),
    Kind(
        503,
        "overloaded_error",
        "too_many_viewers",
        "as many readers as may follow `/events.json`; poll instead",
    ),
    Kind(
        504,
        _SERVER,
        "engine_timeout",
        "no complete answer within SERVING_TIMEOUT_S (counting tokens: MCP_TIMEOUT_S)",
    ),
)

_KINDS = {kind.code: kind for kind in TABLE}


def _refuse(code: str, message: str, param: str | None = None, **more: Any) -> Refusal:
    kind = _KINDS[code]
    return Refusal(kind.status, kind.type, code, message, param, **more)


def bad_body(bad: BadBody) -> Refusal:
    """400: the body cannot be routed."""
    return _refuse(bad.code, bad.message, None if bad.code == "invalid_body" else "model")


def invalid_encoding(message: str) -> Refusal:
    """400: the body is not what its Content-Encoding says."""
    return _refuse("invalid_encoding", message)


def unknown_encoding(coding: str, known: Iterable[str]) -> Refusal:
    """415; names the codings that are known (RFC 9110 section 15.5.16)."""
    names = ", ".join(known)
    message = f"Content-Encoding {shown(coding)!r} is not known here; known are: {names}"
    return _refuse("unknown_encoding", message, headers=((b"Accept-Encoding", names.encode()),))


def too_many_encodings(limit: int) -> Refusal:
    """415: the body has more codings than the router undoes."""
    return _refuse(
        "unknown_encoding",
        f"Content-Encoding lists more than {limit} codings, which is all that are undone here",
    )


def body_too_large(limit: int, *, decoded: bool = False) -> Refusal:
    """413: the body is over `limit` bytes, as it was announced or once it was decoded."""
    return _refuse(
        "body_too_large", f"the request's body {'decodes to' if decoded else 'is'} over {limit} bytes"
    )


def model_not_found(model: str, available: Iterable[str], not_ready: Mapping[str, str]) -> Refusal:
    """404: nothing serves `model`."""
    return _refuse(
        "model_not_found",
        f"nothing here serves the model {shown(model)!r}",
        "model",
        extra=(("available", list(available)), ("not_ready", dict(not_ready))),
    )


def model_not_ready(model: str, reasons: Mapping[str, str]) -> Refusal:
    """503: `model` belongs to groups that are not admitted; `reasons` is group to why."""
    why = "; ".join(f"group {group}: {reason}" for group, reason in reasons.items())
    message = f"the model {shown(model)!r} cannot be served now: {why}"
    group = next(iter(reasons)) if len(reasons) == 1 else ""
    return _refuse("model_not_ready", message, "model", model=model, group=group)


def not_routed(model: str, found: NotAdmitted | Unknown) -> Refusal:
    """404 or 503: what the route table has in place of a route for `model`."""
    if isinstance(found, NotAdmitted):
        return model_not_ready(model, found.reasons)
    return model_not_found(model, found.available, found.not_ready)


def origin_not_allowed() -> Refusal:
    """403: see `Cors.refuses`, and `origin_allowed` of `/mcp`."""
    message = "the Origin of this request is another site's; CORS_ALLOW_ORIGINS can allow it"
    return _refuse("origin_not_allowed", message)


def invalid_prompt(message: str) -> Refusal:
    """400: the prompt to be counted cannot be read, or its engine refuses it."""
    return _refuse("invalid_prompt", message)


def unknown_provider(group: str, provider: str, known: Iterable[str]) -> Refusal:
    """400: the group did not say what its engine is, or says something that is not known here."""
    said = f"announced the provider {shown(provider)!r}" if provider else "announced no provider"
    message = f"group {group} {said}; tokens can be counted with: {', '.join(known)} (MENTAT_MODEL_PROVIDER)"
    return _refuse("unknown_provider", message, "model", group=group)


def internal_error() -> Refusal:
    """500: a defect of the router; the log has it."""
    return _refuse("internal_error", "the router failed at this request; its log says why")


def unknown_path(method: str, path: str) -> Refusal:
    """404: no document stands at this path."""
    return _refuse("unknown_path", f"there is nothing at {method} {shown(path)}")


def method_not_allowed(method: str, path: str, allow: Iterable[str]) -> Refusal:
    """405; `allow` is what the path takes (RFC 9110 section 15.5.6)."""
    allowed = ", ".join(allow)
    message = f"{shown(path)} does not take {method}; it takes {allowed}"
    return _refuse("method_not_allowed", message, headers=((b"Allow", allowed.encode()),))


def engine_unreachable(group: str, failures: Iterable[str]) -> Refusal:
    """502: every address was tried; each failure names the address and what came back."""
    return _refuse("engine_unreachable", f"group {group}: {'; '.join(failures)}", group=group)


def engine_failed(group: str, url: str, error: str) -> Refusal:
    """502: the request was sent, and no answer came."""
    return _refuse("engine_failed", f"group {group} at {url}: {error}", group=group)


def engine_timeout(group: str, url: str, seconds: float) -> Refusal:
    """504: no complete answer within SERVING_TIMEOUT_S (counting tokens: MCP_TIMEOUT_S)."""
    message = f"group {group} at {url}: no complete answer within {seconds:g} s"
    return _refuse("engine_timeout", message, group=group)


def too_many_viewers(limit: int) -> Refusal:
    """503: the event stream has as many readers as it may."""
    message = f"{limit} readers follow this stream already; `/stats.json` can be polled"
    return _refuse("too_many_viewers", message)
