"""What the asker of an engine has to offer: callbacks for one answer."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from mentatd.errors import UpstreamError
from mentatd.http.response import ResponseHead


class Sink(Protocol):
    """Who receives one answer. Exactly one of `message_ended` and `exchange_failed` comes last, once.

    None of these may raise. Any of them may be called before `send` returns.
    """

    def head_received(self, head: ResponseHead, rest: bytes) -> Callable[[bytes], object] | None:
        """The final head; `rest` is what came behind it in the same read, as on the wire, of this message
        only.

        Return where the bytes of the body that come later go as they came (pass through; the sink has then
        taken care of `rest` itself, in one write with its head), or None to have the whole body, what `rest`
        holds of it too, de-framed through `body_received`.
        """

    def body_received(self, payload: bytes) -> None:
        """A piece of the body without framing (only after `head_received` returned None)."""

    def message_ended(self) -> None:
        """The answer is complete; the connection has gone back to the pool or is closing."""

    def exchange_failed(self, error: UpstreamError) -> None:
        """The answer will not be completed; the connection is closed."""

    def request_sent(self) -> None:
        """Every byte of the request has been handed to the kernel: its body can be released."""
