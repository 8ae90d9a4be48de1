"""One connection of the control port: frames and messages over an asyncio stream (wire.md section 4).

A thin shell around `wire.frames` and `wire.messages`. Every way in which a connection can fail is one
exception, `LinkLost`, whose text says what happened.
"""

from __future__ import annotations

import asyncio

from mentatd.errors import MentatError
from mentatd.wire.frames import Decoder, FrameError, encode
from mentatd.wire.messages import Message, Unknown, Unreadable, read_message, write_message

MAX_HEADER = 64 * 1024
"""Bytes. A registration is some hundred; nothing that a link brings comes near it until it is widened."""
MAX_STATUS = 4 * 1024 * 1024
"""Bytes of a header on a mesh link, whose other side sends all that it knows: some thousand agents."""
MAX_PAYLOAD = 64 * 1024
"""Bytes. Payloads belong to placement, of which these links carry none."""

_READ = 64 * 1024
_SEND_S = 10.0
_CLOSE_S = 1.0


class LinkLost(MentatError):
    """The connection cannot be used any more. The text says with whom and why."""


class Link:
    """A connection; `close` is the caller's duty on every way out."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._decoder = Decoder(max_header=MAX_HEADER, max_payload=MAX_PAYLOAD)
        name = writer.get_extra_info("peername") or ("", 0)
        self.peer = str(name[0]).removeprefix("::ffff:").partition("%")[0]
        """The other side's address, an IPv4-mapped one as IPv4 and without a scope id."""

    def widen(self) -> None:
        """Take headers of up to 4 MiB from now on: it is a mesh link."""
        self._decoder.widen(MAX_STATUS)

    async def receive(self, within_s: float) -> Message | Unknown | Unreadable | None:
        """The next message, or None when the other side closed between two frames.

        Raises LinkLost, also when `within_s` seconds pass without a whole message.
        """
        try:
            async with asyncio.timeout(within_s):
                while (frame := self._decoder.next_frame()) is None:
                    if not (data := await self._reader.read(_READ)):
                        self._decoder.finish()
                        return None
                    self._decoder.feed(data)
        except TimeoutError:
            raise LinkLost(f"{self.peer}: silent for {within_s:g} s") from None
        except (OSError, FrameError) as error:
            raise LinkLost(f"{self.peer}: {error}") from error
        return read_message(frame.header)

    async def send(self, message: Message) -> None:
        """Send one message. Raises LinkLost, also when the other side takes nothing for 10 s."""
        try:
            self._writer.write(encode(write_message(message)))
            async with asyncio.timeout(_SEND_S):
                await self._writer.drain()
        except TimeoutError:
            raise LinkLost(f"{self.peer}: takes nothing") from None
        except OSError as error:
            raise LinkLost(f"{self.peer}: {error}") from error

    def cut(self) -> None:
        """End it at once; a `receive` that waits raises LinkLost or gives None."""
        self._writer.transport.abort()

    async def close(self) -> None:
        """Flush and close within a second, or else cut."""
        self._writer.close()
        try:
            async with asyncio.timeout(_CLOSE_S):
                await self._writer.wait_closed()
        except OSError:  # a TimeoutError too
            self.cut()


async def dial(host: str, port: int, within_s: float, source: str = "") -> Link:
    """Connect within `within_s` seconds, from the address `source` if there is one.

    Raises LinkLost, which says what was tried and what came back.
    """
    from_address = (source, 0) if source else None
    try:
        async with asyncio.timeout(within_s):
            return Link(*await asyncio.open_connection(host, port, local_addr=from_address))
    except TimeoutError:
        raise LinkLost(f"{host}:{port}: no connection within {within_s:g} s") from None
    except OSError as error:
        raise LinkLost(f"{host}:{port}: {error.strerror or error}") from error
