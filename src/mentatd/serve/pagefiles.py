"""The status page's files: read once when the router starts, served from memory."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib.resources import files
from typing import TYPE_CHECKING

from mentatd.http.request import Request

if TYPE_CHECKING:
    from mentatd.http.connection import Connection

PREFIX = "/page/"
"""Where the files that the page loads are found; the page itself is `/`."""
INDEX = "index.html"

_TYPES = {
    "html": b"text/html; charset=utf-8",
    "css": b"text/css; charset=utf-8",
    "js": b"text/javascript; charset=utf-8",
    "svg": b"image/svg+xml",
}

POLICY = b"; ".join(
    (
        b"default-src 'none'",
        b"script-src 'self'",
        b"style-src 'self'",
        b"img-src 'self'",
        b"connect-src 'self'",
        b"base-uri 'none'",
        b"form-action 'none'",
        b"frame-ancestors 'none'",
        b"require-trusted-types-for 'script'",
        b"trusted-types 'none'",
    )
)
"""Nothing from elsewhere, nothing inline, in no other site's frame; a string can never become markup or code."""

_FIELDS = (
    # kept by browsers and asked for again by its ETag, so that a new router's page is a new page
    (b"Cache-Control", b"no-cache"),
    (b"X-Content-Type-Options", b"nosniff"),
    (b"Referrer-Policy", b"no-referrer"),
    (b"Content-Security-Policy", POLICY),
)


@dataclass(frozen=True, slots=True)
class PageFile:
    """One file, and how it is served."""

    body: bytes
    content_type: bytes
    etag: bytes
    """Strong (RFC 9110 section 8.8.3): a digest of the body."""
    fields: tuple[tuple[bytes, bytes], ...]
    """Of every answer with it, 304 too."""

    def answer(self, request: Request, connection: Connection) -> None:
        """The file, or 304 for a client that has it."""
        if names(request.get_all(b"if-none-match"), self.etag):
            connection.answer(304, b"", self.content_type, self.fields)
        else:
            connection.answer(200, self.body, self.content_type, self.fields)


def names(values: list[bytes], etag: bytes) -> bool:
    """If-None-Match names this entity tag, by the weak comparison (RFC 9110 section 13.1.2).

    No tag of ours holds a comma, so that cutting a foreign one that does can do no harm.
    """
    tags = (tag.strip().removeprefix(b"W/") for value in values for tag in value.split(b","))
    return any(tag in (b"*", etag) for tag in tags)


def made(name: str, body: bytes) -> PageFile:
    """The file called `name`. Raises KeyError for a kind of file that the page has none of."""
    etag = b'"%b"' % hashlib.sha256(body).hexdigest()[:20].encode()
    vary = ((b"Vary", b"Accept"),) if name == INDEX else ()
    kind = name.rpartition(".")[2]
    return PageFile(body, _TYPES[kind], etag, ((b"ETag", etag), *vary, *_FIELDS))


def _read() -> Iterator[tuple[str, PageFile]]:
    for file in files("mentatd.serve.page").iterdir():
        if file.name.rpartition(".")[2] in _TYPES:
            yield file.name, made(file.name, file.read_bytes())


FILES: Mapping[str, PageFile] = dict(_read())
"""By name."""
PAGE = FILES[INDEX]
PARTS: Mapping[str, PageFile] = {PREFIX + name: file for name, file in FILES.items() if name != INDEX}
"""What the page loads, by path."""
