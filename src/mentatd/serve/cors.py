"""Pages of other sites: which ones may read answers (CORS, the Fetch standard), and which may send at all. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from mentatd.http.request import Head, Request

EVERYBODY: Final = "*"
"""In place of an origin: every page may read."""
MAX_AGE_S: Final = 600
"""How long a browser may remember the answer to a preflight."""

_AUTHORITY: Final = r"(\[[0-9a-f:.]+\]|[^\[\]:/?#@\\]+)(?::([0-9]*))?"
_ORIGIN: Final = re.compile(rf"([a-z][a-z0-9+.-]*)://{_AUTHORITY}")
_HOST: Final = re.compile(_AUTHORITY)
_PORTS: Final = {"http": "80", "https": "443"}
_FOREIGN: Final = re.compile(rb"\r\naccess-control-[^\r\n]*", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a page comes from, taken apart, in lower case."""

    scheme: str
    host: str
    """A name or an address; IPv6 in brackets."""
    port: str
    """The scheme's own where none is said; empty where it has none."""


def parse_origin(value: bytes) -> Origin | None:
    """An Origin field; None for `null` and whatever is no origin."""
    said = _ORIGIN.fullmatch(value.decode("latin-1").lower())
    if said is None:
        return None
    scheme, host, port = said.groups()
    return Origin(scheme, host, port or _PORTS.get(scheme, ""))


def is_here(origin: Origin, host: bytes | None) -> bool:
    """Whether a page comes from the very host and port that the request's Host field names."""
    default = _PORTS.get(origin.scheme)
    here = _HOST.fullmatch((host or b"").decode("latin-1").lower())
    return (
        default is not None
        and here is not None
        and (origin.host, origin.port) == (here[1], here[2] or default)
    )


class Cors:
    """The pages that may read what the router answers."""

    def __init__(self, origins: frozenset[str] = frozenset()) -> None:
        """`origins` as browsers write them (`https://chat.example`), or `EVERYBODY` among them; none: off."""
        self._origins = origins
        self._everybody = EVERYBODY in origins

    def __bool__(self) -> bool:
        return bool(self._origins)

    def allows(self, origin: bytes | None) -> bool:
        """Whether a page of this Origin may read."""
        return self._everybody or (origin is not None and origin.decode("latin-1").lower() in self._origins)

    def fields(self, request: Request | None) -> bytes:
        """The lines of the answer to `request`, each ending in CRLF; None: no head could be read."""
        if self._everybody:
            return b"Access-Control-Allow-Origin: *\r\nAccess-Control-Expose-Headers: *\r\n"
        origin = None if request is None else request.get(b"origin")
        if origin is None or not self.allows(origin):
            return b"Vary: Origin\r\n"
        return (
            b"Access-Control-Allow-Origin: %b\r\nAccess-Control-Expose-Headers: *\r\nVary: Origin\r\n"
            % origin
        )

    def preflight(self, head: Head, methods: bytes) -> tuple[tuple[bytes, bytes], ...]:
        """Further fields of the answer to OPTIONS; `methods` are what the path takes."""
        if not self or not self.allows(head.get(b"origin")):
            return ()
        # `*` would not stand for Authorization
        wanted = head.get(b"access-control-request-headers")
        return (
            (b"Access-Control-Allow-Methods", methods),
            *(() if wanted is None else ((b"Access-Control-Allow-Headers", wanted),)),
            (b"Access-Control-Max-Age", b"%d" % MAX_AGE_S),
            (b"Vary", b"Access-Control-Request-Headers"),
        )

    def refuses(self, head: Head) -> bool:
        """Whether a POST comes from a page of another site that may not read the answer.

        A browser sends a simple one (a form's, or text) without asking first, and an engine would generate for it.
        """
        if head.get(b"sec-fetch-site") != b"cross-site":
            return False
        value = head.get(b"origin")
        if value is None or self.allows(value):
            return False
        origin = parse_origin(value)
        return origin is None or not is_here(origin, head.get(b"host"))


def without_cors(head: bytes) -> bytes:
    """An engine's status and field lines without what it says of pages: a browser takes no second opinion."""
    return _FOREIGN.sub(b"", head)
