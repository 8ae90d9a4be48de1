"""A lite daemon, put together: what starts in which order, and how it ends."""

from __future__ import annotations

import asyncio
import hashlib
import os
import socket
from collections.abc import Mapping, Sequence

from mentatd.http.listener import EVERY_ADDRESS, listen
from mentatd.lite.announce import Announcer
from mentatd.lite.control import ControlPort
from mentatd.lite.daemon import Daemon
from mentatd.lite.interfaces import Interface, Interfaces, default_address
from mentatd.lite.settings import LiteSettings
from mentatd.lite.state import Node, State, move
from mentatd.lite.web import Web
from mentatd.log import log


async def run(settings: LiteSettings) -> int:
    """Serve until cancelled. Raises SettingsError when a port cannot be had."""
    interfaces = Interfaces()
    await interfaces.refresh()
    hosts = (settings.bind,) if settings.bind else EVERY_ADDRESS
    control_sockets = listen(settings.port, hosts)
    try:
        web_sockets = listen(settings.http_port, hosts)
    except BaseException:
        _close(control_sockets)
        raise
    node = _node(settings, _port(control_sockets), _port(web_sockets))
    daemon = Daemon(move(State(node), _addresses(settings, interfaces.current))[0])
    control, web = ControlPort(daemon), Web(daemon)
    try:
        await control.start(control_sockets)
        await web.start(web_sockets)
        await _announce_for_ever(daemon, settings, interfaces)
    finally:
        # agents first: their loss still reaches the subscribers
        await control.close()
        await web.close()
    return 0


async def _announce_for_ever(daemon: Daemon, settings: LiteSettings, interfaces: Interfaces) -> None:
    """Each round: announce, forget old agents, look at the interfaces."""
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
        daemon.sweep(settings.history_keep_ms)
        await asyncio.sleep(settings.announce_interval_s)
        await interfaces.refresh()
        daemon.move(_addresses(settings, interfaces.current))


def _addresses(settings: LiteSettings, interfaces: Sequence[Interface]) -> Mapping[str, str]:
    """The addresses that the daemon answers on, each with its interface."""
    found = {interface.address: interface.name for interface in interfaces}
    if settings.bind:
        return {settings.bind: found.get(settings.bind, "")}
    return found


def _node(settings: LiteSettings, control_port: int, http_port: int) -> Node:
    """Who this daemon is. Its id is the same after a restart, and another for a second daemon on the box."""
    node_ip = settings.node_ip or settings.bind or default_address()
    return Node(
        generation=settings.generation,
        node_id=hashlib.sha256(f"{node_ip} {control_port}".encode()).hexdigest()[:32],
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
