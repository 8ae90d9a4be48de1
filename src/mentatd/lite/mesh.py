"""The links to other daemons: dialled, taken, held, and dialled again when they are lost (wire.md section 4).

Every daemon tells every other its own status and its own events, so each knows all of them, and one address is
enough to join. What is known of peers is in the daemon's state; this is the shell that has their connections.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Sequence

from mentatd.errors import WireError
from mentatd.link import Link, LinkLost, dial
from mentatd.lite import peers, report
from mentatd.lite.daemon import Daemon, Subscription
from mentatd.lite.peers import Target
from mentatd.lite.settings import LiteSettings
from mentatd.log import log
from mentatd.tasks import Tasks
from mentatd.wire.hostport import join
from mentatd.wire.mesh import MeshNode, PeerEvent, PeerHello, PeerHelloOk, PeerStatus
from mentatd.wire.messages import Err, Ping, Pong, Unknown
from mentatd.wire.snapshot import read_snapshot
from mentatd.wire.version import Generation

DIAL_EVERY_S = 3.0
"""Between two rounds of dialling, shortened by chance by up to a half, so that a rack does not dial in step."""

_DIAL_S = 3.0
_HELLO_S = 5.0


class Mesh:
    """Owns the mesh links that this daemon dialled; those that it took belong to the control port."""

    def __init__(
        self,
        daemon: Daemon,
        settings: LiteSettings,
        *,
        chance: Callable[[], float] = random.random,
        dial_every_s: float = DIAL_EVERY_S,
    ) -> None:
        self._daemon = daemon
        self._settings = settings
        self._chance = chance
        self._dial_every_s = dial_every_s
        self._tasks = Tasks("mesh")
        self._seeds = frozenset(join(host, port) for host, port in settings.peers)
        self._links: dict[str, Link] = {}
        self._dialling: dict[str, asyncio.Task[None]] = {}
        self._known: dict[str, str] = {}
        self._failing: dict[str, str] = {}
        self._full = False

    async def run(self) -> None:
        """Dial whoever there is no link with, until cancelled."""
        try:
            while True:
                self._dial_all(peers.targets(self._daemon.state, self._settings.peers, self._known))
                await asyncio.sleep(self._dial_every_s * (1 - self._chance() / 2))
        finally:
            await self._tasks.close()

    def _dial_all(self, targets: Sequence[Target]) -> None:
        """Start to dial each that is not being dialled; forget why those failed that are not wanted any more."""
        self._dialling = {name: task for name, task in self._dialling.items() if not task.done()}
        names = {target.name for target in targets}
        self._failing = {name: why for name, why in self._failing.items() if name in names}
        for target in targets:
            if target.name not in self._dialling:
                self._dialling[target.name] = self._tasks.start(self._dial(target), f"dial {target.name}")

    async def take(self, link: Link, hello: PeerHello) -> None:
        """Hold a link that a peer opened; the caller closes it. Raises LinkLost when it breaks."""
        await link.send(PeerHelloOk(hello.generation, hello.req, report.mesh_node(self._daemon.state)))
        if hello.node.node_id != self._daemon.state.node.node_id:
            await self._hold(link, hello.node, hello.generation, dialled=False)

    async def _dial(self, target: Target) -> None:
        """Try the addresses of a daemon in turn, and hold the link to the first that answers."""
        why = ""
        for host, port in target.addresses:
            try:
                link = await dial(host, port, _DIAL_S, self._source(host))
            except LinkLost as lost:
                why = str(lost)
                continue
            try:
                await self._greet(link, target)
                return
            except LinkLost as lost:
                why = str(lost)
            finally:
                await link.close()
        if self._failing.get(target.name) != why:
            self._failing[target.name] = why
            log("peer_failed", peer=target.name, why=why)

    def _source(self, host: str) -> str:
        """Where to dial from: a daemon that listens on one address is known by that one."""
        bind = self._settings.bind
        return bind if (":" in bind) == (":" in host) else ""

    async def _greet(self, link: Link, target: Target) -> None:
        """Open a link that was dialled, and hold it. Raises LinkLost when the other side is no daemon of the mesh."""
        generation = self._daemon.state.node.generation
        await link.send(PeerHello(generation, 1, report.mesh_node(self._daemon.state)))
        match await link.receive(_HELLO_S):
            case PeerHelloOk(node=node):
                pass
            case Err(error=error):
                raise LinkLost(f"{link.peer}: refused: {error}")
            case None:
                raise LinkLost(f"{link.peer}: closed without an answer")
            case other:
                raise LinkLost(f"{link.peer}: answered {type(other).__name__} to peer_hello")
        if target.name in self._seeds:
            self._known[target.name] = node.node_id
        self._failing.pop(target.name, None)
        if node.node_id != self._daemon.state.node.node_id:
            await self._hold(link, node, generation, dialled=True)

    async def _hold(self, link: Link, node: MeshNode, generation: Generation, *, dialled: bool) -> None:
        """Tell and hear until the link ends, unless there is a better one to this node."""
        daemon, number = self._daemon, self._daemon.new_link()
        if not daemon.join_mesh(node, link=number, link_ip=link.peer, dialled=dialled):
            self._say_when_full(node.node_id)
            return
        older, self._links[node.node_id] = self._links.get(node.node_id), link
        if older is not None:
            older.cut()
        link.widen()
        own = daemon.subscribe(own=True)
        telling = self._tasks.start(self._tell(link, own, generation), f"tell {node.node_id}")
        why = "link closed"
        try:
            await self._hear(link, node.node_id, number)
        except LinkLost as lost:
            why = str(lost)
        finally:
            telling.cancel()
            daemon.unsubscribe(own)
            if self._links.get(node.node_id) is link:
                del self._links[node.node_id]
            daemon.leave(node.node_id, number, why)

    def _say_when_full(self, node_id: str) -> None:
        """A link that was not held was one too many to its node, or its node is one too many."""
        full = node_id not in self._daemon.state.peers
        if full and not self._full:
            log("peers_full", limit=peers.MAX_PEERS)
        self._full = full

    async def _hear(self, link: Link, node_id: str, number: int) -> None:
        """Take what a peer says until it closes. Raises LinkLost, also when its silence says that it is dead."""
        dead_s = self._settings.lifetimes.peer_dead_ms / 1000
        while (message := await link.receive(dead_s)) is not None:
            match message:
                case PeerStatus(snapshot=snapshot):
                    try:
                        self._daemon.hear(node_id, number, read_snapshot(snapshot).view)
                    except WireError as error:
                        raise LinkLost(f"{link.peer}: its status: {error}") from error
                case PeerEvent(origin=origin, event=event) if origin == node_id:
                    self._daemon.relay(event)
                case Ping(req):
                    await link.send(Pong(req))
                case Unknown(type=name, req=req) if req:
                    await link.send(Err(req, report.places_nothing(name), "unknown_message"))
                case _:
                    pass

    async def _tell(self, link: Link, own: Subscription, generation: Generation) -> None:
        """Send the daemon's own events as they come, and its status in every interval."""
        loop = asyncio.get_running_loop()
        node_id, due = self._daemon.state.node.node_id, loop.time()
        try:
            while True:
                if loop.time() >= due:
                    status = report.snapshot(self._daemon.state, generation=generation)
                    await link.send(PeerStatus(generation, status))
                    due = loop.time() + self._settings.lifetimes.peer_status_ms / 1000
                try:
                    async with asyncio.timeout_at(due):
                        frame = await own.next()
                except TimeoutError:
                    continue
                if frame is None:
                    raise LinkLost(f"{link.peer}: too far behind")
                await link.send(PeerEvent(generation, node_id, frame.encode()))
        except LinkLost:
            link.cut()
