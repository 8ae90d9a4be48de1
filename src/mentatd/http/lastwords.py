"""What an engine said before it reset a connection.

One that refuses a request before it has read all of it, and closes, resets the connection. Where the event loop meets
the reset as it writes, it never reads the answer that waits in the kernel.
"""

from __future__ import annotations

import asyncio
import os

_READ_BYTES = 64 * 1024
LIMIT = 4 * _READ_BYTES
"""Bytes that are read at most: a refusal is short."""


def last_words(transport: asyncio.Transport) -> bytes:
    """What waits unread on a plain connection, to be called inside `connection_lost` only: behind it, the descriptor
    is another's."""
    said = b""
    try:
        descriptor = transport.get_extra_info("socket").fileno()
        while len(said) < LIMIT and (piece := os.read(descriptor, _READ_BYTES)):
            said += piece
    except OSError:
        pass  # the reset itself, behind what was read
    return said
