"""A client's connection that keeps what is written to it."""

from __future__ import annotations

import json
from typing import Any

from mentatd.errors import Refusal
from mentatd.http.handler import Flow


class Recorder:
    """As much of `Connection` as a handler of the monitor sees."""

    def __init__(self, *, head_only: bool = False) -> None:
        self.flow: Flow | None = None
        self.head_only = head_only
        self.http10 = False
        self.fields = b""
        self.began = False
        self.written = b""
        self.answered: tuple[int, bytes, bytes] | None = None
        """Status, body, content type."""
        self.refused: Refusal | None = None
        self.ended = False
        self.aborted = False

    def write(self, data: bytes) -> None:
        self.written += data

    def answer(
        self,
        status: int,
        body: bytes,
        content_type: bytes = b"application/json",
        fields: tuple[tuple[bytes, bytes], ...] = (),
    ) -> None:
        self.answered = (status, body, content_type)
        self.ended = True

    def refuse(self, refusal: Refusal) -> None:
        self.refused = refusal
        self.ended = True

    def end(self, *, keep: bool) -> None:
        assert not keep
        self.ended = True

    def abort(self) -> None:
        self.aborted = True

    @property
    def events(self) -> list[tuple[str, Any]]:
        """Name and data of each event so far; the head is no event."""
        found = []
        for block in self.written.partition(b"\r\n\r\n")[2].split(b"\n\n"):
            fields = dict(line.split(b": ", 1) for line in block.split(b"\n") if b": " in line)
            if b"data" in fields:
                found.append((fields[b"event"].decode(), json.loads(fields[b"data"])))
        return found

    def names(self) -> list[str]:
        return [name for name, _ in self.events]
