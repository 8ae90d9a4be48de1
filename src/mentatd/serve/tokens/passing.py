"""What of a client's head goes to an engine with a question, and what of the engine's comes back with its own answer.

The rules are those of forwarding (RFC 9110 section 7.6.1), applied to a question that the router asks itself.
"""

from __future__ import annotations

from mentatd.http.request import Request
from mentatd.http.streaming import Fields
from mentatd.serve.forwarding import connection_names, request_fields

_WRITTEN_ANEW = frozenset((b"content-type", b"content-encoding", b"user-agent", b"accept-encoding"))
"""The body goes as plain JSON, and the answer must come without a coding that only the client knows."""
_HOP = frozenset((b"connection", b"keep-alive", b"te", b"trailer", b"transfer-encoding", b"upgrade"))
_SERVERS_OWN = frozenset((b"content-type", b"content-length", b"date"))


def question_fields(request: Request) -> dict[str, str]:
    """The client's end-to-end fields, by name in lower case; two of one name are one list (RFC 9110 section 5.3)."""
    drop = _WRITTEN_ANEW | connection_names(request.get_all(b"connection"))
    fields: dict[str, str] = {}
    for line in request_fields(request.head.fields, drop=drop).decode("latin-1").split("\r\n")[1:]:
        name, _, value = line.partition(":")
        name, value = name.lower(), value.strip(" \t")
        fields[name] = f"{fields[name]}, {value}" if name in fields else value
    return fields


def question_target(path: str, request: Request) -> bytes:
    """The target of a question at `path` with the client's query."""
    return f"{path}?{request.query}".encode() if request.query else path.encode()


def answer_fields(fields: Fields) -> Fields:
    """The end-to-end fields of an engine's answer, its Content-Type apart."""
    named = connection_names(value for name, value in fields if name == b"connection")
    stays = _HOP | _SERVERS_OWN | named
    return tuple(field for field in fields if field[0] not in stays and not field[0].startswith(b"proxy-"))
