"""The bounds of the server side: sizes, counts and times, each with its reason."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

HEAD_BYTES: Final = 64 * 1024
"""Start line and fields of one request; room for the largest cookies and tokens in the field."""
HEAD_FIELDS: Final = 256
"""Fields in one head: far above any client's, and it bounds the work of taking a head apart."""
PLAIN_BODY_BYTES: Final = 128 * 1024
"""A body of known length up to this is collected in plain bytes and never asks `Handler.admit`; a larger one is
received straight into its final place, which costs a memory map."""
UNRESERVED_BODY_BYTES: Final = 1024 * 1024
"""A body up to this never waits for memory, and is not counted: 4096 clients could hold 4 GiB of them, as they can
with any server, and an engine's usual request is a thousandth of it."""
BODY_GROWTH_BYTES: Final = 1024 * 1024
"""What a body of unknown length reserves at one time."""
READ_BYTES: Final = 256 * 1024
"""What the event loop reads at one time, at most."""
PIPELINED_BYTES: Final = 64 * 1024
"""Bytes behind the request in progress that are kept; past it the client is no longer read."""
WRITE_HIGH_WATER: Final = 256 * 1024
"""Unsent bytes of an answer at which its producer is paused: deep enough that a burst of chunks pauses nobody,
shallow enough that a client which does not read costs well under 1 MiB."""
CHUNK_LINE_BYTES: Final = 4 * 1024
"""A chunk's size line with its extensions."""
TRAILER_BYTES: Final = 64 * 1024
"""All trailer fields of one chunked body; they are dropped."""
PROGRESS_BYTES: Final = 1024
"""What a body must bring in each `client_timeout_s`."""


@dataclass(frozen=True, slots=True)
class Limits:
    """What the owner of a server decides about its clients. Durations in seconds."""

    client_timeout_s: float = 60.0
    """A head must be whole within it, a body make progress within each, an unread answer drain within each."""
    max_connections: int = 4096
    """Connections that are served at one time, fewer where the process has no descriptors for them."""
    body_memory: int = 1024 * 1024 * 1024
    """Bytes of large bodies that are held at one time; see `mentatd.http.memory`."""
    pace_window_s: float = 5.0
    """Over which a client must keep its pace while others wait for memory: a link that loses packets can recover."""
    keep_alive_s: float = 75.0
    """An idle connection is closed after it: above the 60 s that common clients and load balancers keep theirs, so
    that they close first and no request meets a closing socket."""
    linger_s: float = 2.0
    """How long the bytes of a refused client are read away, so that it sees the answer and not a reset."""
