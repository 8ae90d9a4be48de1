"""What the connections of one server have in common."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from mentatd.http.descriptors import Room
from mentatd.http.handler import Handler
from mentatd.http.headers import Judge, remembering
from mentatd.http.limits import Limits
from mentatd.http.memory import BodyMemory
from mentatd.http.request import Request

if TYPE_CHECKING:
    from mentatd.http.reading import ServedConnection


@dataclass(slots=True)
class Shared:
    """Owned by the server; read and kept up to date by its connections."""

    handler: Handler
    limits: Limits
    allowed: Callable[[str], bool]
    """Whether a peer's address may use the server; asked once a connection."""
    room: Room
    """For how many connections there are descriptors."""
    memory: BodyMemory
    """Of the bodies that are being read or forwarded."""
    every_answer: Callable[[Request | None], bytes] | None = None
    """Gives the field lines that the answer to a request carries, whoever writes its head."""
    judge: Judge = field(default_factory=remembering)
    """Of request heads."""
    connections: set[ServedConnection] = field(default_factory=set)
    overflow: int = 0
    """Those of `connections` that are open only to be answered 503."""
    draining: bool = False
    """The server ends: no answer keeps its connection."""
    emptied: asyncio.Event = field(default_factory=asyncio.Event)
    """Set by the last connection that leaves."""
