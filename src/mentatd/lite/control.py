"""The control port of a lite daemon: agents register here and are held (wire.md section 4).

The first frame says what a connection is. An agent's stays open for as long as the agent lives, and its end is how
the daemon learns that the agent is lost. Clients may read the status. A peer's is handed to the mesh. Anything else
is refused with an `err`: a lite daemon places nothing.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Sequence

from mentatd.link import Link, LinkLost
from mentatd.lite import report
from mentatd.lite.daemon import Daemon
from mentatd.lite.mesh import Mesh
from mentatd.lite.state import AgentKey
from mentatd.log import log
from mentatd.tasks import Tasks
from mentatd.wire.hostport import join
from mentatd.wire.mesh import PeerHello
from mentatd.wire.messages import (
    AgentRegister,
    AgentRegisterOk,
    Err,
    Hello,
    HelloOk,
    Ping,
    Pong,
    Probe,
    ProbeOk,
    ServiceNote,
    Status,
    StatusOk,
    Unknown,
    Unreadable,
)

MAX_LINKS = 2048
"""Connections at one time; more are closed at once, so that no flood of them takes every file descriptor."""

SILENT_S = 75.0
"""An agent pings every 2 s: one that is silent for this long is gone, and its host may be too."""

_FIRST_FRAME_S = 10.0
_CLIENT_SILENT_S = 600.0


class ControlPort:
    """Owns the connections of the control port."""

    def __init__(self, daemon: Daemon, mesh: Mesh, *, silent_s: float = SILENT_S) -> None:
        self._daemon = daemon
        self._mesh = mesh
        self._silent_s = silent_s
        self._tasks = Tasks("control")
        self._agents: dict[AgentKey, Link] = {}
        self._servers: list[asyncio.Server] = []
        self._full = False
        self._closing = False

    async def start(self, sockets: Sequence[socket.socket]) -> None:
        """Serve on listening sockets, which it owns from now on."""
        for sock in sockets:
            self._servers.append(await asyncio.start_server(self._accept, sock=sock))

    async def close(self) -> None:
        """Stop listening and close every connection in order."""
        self._closing = True
        for server in self._servers:
            server.close()
        await self._tasks.close()
        for server in self._servers:
            await server.wait_closed()

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        full = len(self._tasks) >= MAX_LINKS
        if full and not self._full:
            log("links_full", limit=MAX_LINKS)
        self._full = full
        if full or self._closing:
            writer.transport.abort()
        else:
            self._tasks.start(self._serve(Link(reader, writer)), "link")

    async def _serve(self, link: Link) -> None:
        try:
            await self._first(link, await link.receive(_FIRST_FRAME_S))
        except LinkLost as lost:
            log("link_lost", why=lost)
        finally:
            await link.close()

    async def _first(self, link: Link, message: object) -> None:
        """Judge the first frame, and serve the connection as what it says to be."""
        node = self._daemon.state.node
        match message:
            case AgentRegister():
                await self._agent(link, message)
            case Hello(generation=generation, req=req):
                control = join(node.node_ip, node.control_port)
                await link.send(HelloOk(generation, req, node.node_id, node.node_ip, control, node.node_id))
                await self._client(link, message)
            case Probe(generation=generation, req=req):
                await link.send(ProbeOk(generation, req, node.node_id))
            case Unreadable(req=req, error=error, code=code):
                await link.send(Err(req, error, code))
            case PeerHello():
                await self._mesh.take(link, message)
            case Unknown(type=name, req=req):
                await link.send(Err(req, f"{name!r} opens no link", "bad_first_frame"))
            case None:
                pass
            case _:
                await link.send(Err(0, f"{type(message).__name__} opens no link", "bad_first_frame"))

    async def _agent(self, link: Link, said: AgentRegister) -> None:
        """Register an agent and hold it until its connection ends."""
        number, key = self._daemon.new_link(), AgentKey(said.group, said.agent_id)
        if not self._daemon.register(said, link.peer, number):
            await link.send(Err(said.req, "too many agents", "agent_refused"))
            return
        if (older := self._agents.get(key)) is not None:
            older.cut()
        self._agents[key] = link
        try:
            await link.send(AgentRegisterOk(said.generation, said.req, self._daemon.state.node.node_id))
            while (message := await link.receive(self._silent_s)) is not None:
                match message:
                    case Ping(req):
                        await link.send(Pong(req))
                    case ServiceNote(service, note):
                        self._daemon.note(key, number, service, note)
                    case Pong() | Err():
                        pass
                    case _:
                        await link.send(_not_here(message))
        finally:
            if self._agents.get(key) is link:
                del self._agents[key]
            self._daemon.lose(key, number)

    async def _client(self, link: Link, hello: Hello) -> None:
        """Answer a client's questions until it leaves."""
        while (message := await link.receive(_CLIENT_SILENT_S)) is not None:
            match message:
                case Ping(req):
                    await link.send(Pong(req))
                case Status(req, group):
                    await link.send(
                        StatusOk(hello.generation, req, report.snapshot(self._daemon.state, group))
                    )
                case _:
                    await link.send(_not_here(message))


def _not_here(message: object) -> Err:
    """What is said to a message that has no meaning on this connection, which stays open."""
    match message:
        case Unreadable(req=req, error=error, code=code):
            return Err(req, error, code)
        case Unknown(type=name, req=req):
            return Err(req, report.places_nothing(name), "unknown_message")
    return Err(getattr(message, "req", 0), f"{type(message).__name__} has no meaning here", "unknown_message")
