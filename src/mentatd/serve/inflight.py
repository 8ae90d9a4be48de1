"""What the router is carrying now.  (Contract; see the module's owner.)"""

from __future__ import annotations

from collections.abc import Callable, Iterator


class Row:
    """One request in flight."""

    __slots__ = (
        "address",
        "client",
        "ended",
        "first_byte",
        "group",
        "id",
        "model",
        "out_bytes",
        "path",
        "prompt_bytes",
        "started",
        "stream",
    )

    id: str
    model: str
    group: str
    address: str
    """The base URL that it went to; changes when a connect fails over."""
    client: str
    path: str
    prompt_bytes: int
    stream: bool
    """The request asked for a stream."""
    started: float
    """Loop time at which the request was whole and routed."""
    first_byte: float | None
    """Loop time of the first byte of the answer's body."""
    out_bytes: int
    """Bytes of the answer's body passed on."""


class Inflight:
    """Owns the rows and the count of each group; `observer` hears of every end, however it comes."""

    def count(self, group: str) -> int:
        """Requests in flight to this group."""
        raise NotImplementedError

    def rows(self) -> Iterator[Row]:
        """Oldest first."""
        raise NotImplementedError

    def on_finished(self, observer: Callable[[Row, int, str | None], None]) -> None:
        """Call `observer(row, status, failure)` at each end: the status that the client got (499 when it left
        first) and why it failed, or None."""
        raise NotImplementedError
