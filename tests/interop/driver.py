"""A driver of the published daemon, as far as a test needs one: it places actors in a group, and ends them.

The names of the messages are those of the releases that are tested, which are of generation A. The payload, a pickled
class for the real host, is passed on unread by daemon and agent.
"""

from __future__ import annotations

import socket
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from tests.support.cluster import Daemon
from tests.support.deadlines import DEADLINE_S

from mentatd.wire.frames import Decoder, encode


class Driver:
    """One driver's session; use `driving`."""

    def __init__(self, link: socket.socket) -> None:
        self._link = link
        self._decoder = Decoder()
        self._req = 0

    def ask(self, message: str, payload: bytes = b"", **fields: Any) -> Mapping[str, Any]:
        """Send a request and give its answer, which must not be an `err`."""
        self._req += 1
        self._link.sendall(encode({"t": message, "req": self._req, **fields}, payload))
        while (frame := self._decoder.next_frame()) is None:
            data = self._link.recv(4096)
            assert data, f"{message} {fields}: the daemon closed the link"
            self._decoder.feed(data)
        assert frame.header["t"] != "err", (message, fields, frame.header)
        assert frame.header["req"] == self._req
        return frame.header

    def place(self, name: str) -> str:
        """Start an actor on one GPU of the group; its id."""
        placed = self.ask("create_pg", bundles=[1], strategy="PACK")["pg_id"]
        actor = self.ask("create_actor", b"-", name=name, num_gpus=1, pg_id=placed, bundle_index=0, env={})
        return str(actor["actor_id"])

    def kill(self, actor: str) -> None:
        self.ask("kill_actor", actor_id=actor)


@contextmanager
def driving(daemon: Daemon, group: str) -> Iterator[Driver]:
    """The session of `group`; its end reaps the actors that are left."""
    host, _, port = daemon.control.rpartition(":")
    with socket.create_connection((host, int(port)), timeout=DEADLINE_S) as link:
        driver = Driver(link)
        driver.ask("hello", client_id=f"driver-of-{group}", group=group, session=True, kind="driver")
        yield driver
