"""What an engine says when it fails, in whichever shape: OpenAI's, Anthropic's, older vLLM's, FastAPI's.  Pure."""

from __future__ import annotations

import json
from typing import Any

import msgspec

_SHOWN = 500
"""Characters of a text that is no JSON error: as much as of any text from the wire."""
_decode = msgspec.json.Decoder(dict[str, Any]).decode


def read_error(status: int, body: bytes) -> dict[str, Any] | None:
    """The error object of an engine's answer, with a `message`, a `type`, a `param` and a `code` in any case.

    What the engine says of these stands; the rest is filled in. None where the body holds no such thing.
    """
    try:
        document = _decode(body)
    except (msgspec.DecodeError, RecursionError):
        return None
    found = _find(document, failed=status >= 400)
    if found is None:
        return None
    kind = "invalid_request_error" if 400 <= status < 500 else "server_error"
    return {"message": "", "type": kind, "param": None, "code": status} | found


def _find(document: dict[str, Any], *, failed: bool) -> dict[str, Any] | None:
    match document:
        case {"error": {"message": str()} as error}:
            return dict(error)
        case {"error": str(message)}:
            return {"message": message}
        case {"message": str()} if failed:
            names = ("message", "type", "param", "code")
            return {name: document[name] for name in names if name in document}
        case {"detail": detail} if failed:
            return {"message": detail if isinstance(detail, str) else json.dumps(detail)}
    return None


def shown_text(body: bytes) -> str:
    """A body that is no error object, for an error text: on one line, without control characters, and cut."""
    words = " ".join(body[: 4 * _SHOWN].decode("utf-8", "replace").split())
    text = "".join(letter if letter.isprintable() else "\ufffd" for letter in words)
    return text if len(text) <= _SHOWN else text[:_SHOWN] + "…"
