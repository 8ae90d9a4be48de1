"""A lite daemon, put together: what starts in which order, and how it ends."""

from __future__ import annotations

import asyncio
import hashlib
import os
import socket
from collections.abc import Callable, Sequence
from functools import partial

from mentatd.http.listener import EVERY_ADDRESS, listen
from mentatd.lite.announce import Announcer
from mentatd.lite.control import ControlPort
from mentatd.lite.daemon import Daemon
from mentatd.lite.interfaces import Interface, Interfaces, default_address, read_interfaces
from mentatd.lite.mesh import Mesh
from mentatd.lite.settings import LiteSettings
from mentatd.lite.state import Address, Node, State, move
from mentatd.lite.web import Web
from mentatd.log import log
from mentatd.tasks import Tasks

_SWEEP_S = 1.0


async def run(settings: LiteSettings, ready: Callable[[], None] = lambda: None) -> int:
    """Serve until cancelled; `ready` is called once it does. Raises SettingsError when a port cannot be had."""
    interfaces = Interfaces(partial(read_interfaces, settings.ifaces))
    await interfaces.refresh()
    hosts = (settings.bind,) if settings.bind else EVERY_ADDRESS
    control_sockets = listen(settings.port, hosts)
    try:
        web_sockets = listen(settings.http_port, hosts)
    except BaseException:
        _close(control_sockets)
        raise
    announced = addresses(settings, interfaces.current)
    node = _node(settings, announced, _port(control_sockets), _port(web_sockets))
    daemon = Daemon(move(State(node), announced)[0])
    mesh = Mesh(daemon, settings)
    control, web = ControlPort(daemon, mesh), Web(daemon)
    tasks = Tasks("lite")
    try:
        await control.start(control_sockets)
        await web.start(web_sockets)
        tasks.start(mesh.run(), "mesh")
        tasks.start(_sweep_for_ever(daemon, settings), "sweep")
        ready()
        await _announce_for_ever(daemon, settings, interfaces)
    finally:
        # links first: their loss still reaches the subscribers; those that were taken before those that were dialled,
        # so that none is taken by a mesh that has ended
        await control.close()
        await tasks.close()
        await web.close()
    return 0


async def _sweep_for_ever(daemon: Daemon, settings: LiteSettings) -> None:
    """Say in time what has been gone or silent for how long."""
    while True:
        await asyncio.sleep(_SWEEP_S)
        daemon.sweep(settings.lifetimes)


async def _announce_for_ever(daemon: Daemon, settings: LiteSettings, interfaces: Interfaces) -> None:
    """Each round: announce, then look at the interfaces."""
    announcer = Announcer(daemon, settings)
    node = daemon.state.node
    log(
        "lite_up",
        node=node.node_id,
        node_ip=node.node_ip,
        control=node.control_port,
        http=node.http_port,
        announces=f"no: {announcer.off}" if announcer.off else "signed" if settings.secret else "unsigned",
    )
    while True:
        await announcer.announce(interfaces.current)
        await asyncio.sleep(settings.announce_interval_s)
        await interfaces.refresh()
        daemon.move(addresses(settings, interfaces.current))


def addresses(settings: LiteSettings, interfaces: Sequence[Interface]) -> Sequence[Address]:
    """The addresses that the daemon announces, best first: those that the operator named, or the one that it listens
    on, or those of the interfaces."""
    found = {each.address: Address(each.address, each.name, each.tags) for each in interfaces}
    if settings.addrs:
        return settings.addrs
    if settings.bind:
        return [found.get(settings.bind, Address(settings.bind))]
    return list(found.values())


def _node(settings: LiteSettings, announced: Sequence[Address], control_port: int, http_port: int) -> Node:
    """Who this daemon is. Its id is the same after a restart, and another for a second daemon on the box.

    In a mesh the published daemons make the lowest id their head, which places actors. Theirs are hexadecimal; ours
    come after every one of those.
    """
    node_ip = settings.node_ip or settings.bind or default_address()
    if not node_ip:
        # no route to the internet: a loopback address would make one node of all such hosts
        node_ip = announced[0].address if announced else "127.0.0.1"
    return Node(
        generation=settings.generation,
        node_id="lite-" + hashlib.sha256(f"{node_ip} {control_port}".encode()).hexdigest()[:32],
        node_ip=node_ip,
        hostname=socket.gethostname(),
        control_port=control_port,
        http_port=http_port,
        boot_id=os.urandom(8).hex(),
    )


def _port(sockets: Sequence[socket.socket]) -> int:
    return int(sockets[0].getsockname()[1])


def _close(sockets: Sequence[socket.socket]) -> None:
    for sock in sockets:
        sock.close()
