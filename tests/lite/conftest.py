"""A lite daemon on loopback, without its announcements."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass

import pytest
from tests.lite.samples import SETTINGS, state

from mentatd.http.listener import listen
from mentatd.lite.control import ControlPort
from mentatd.lite.daemon import Daemon
from mentatd.lite.mesh import Mesh
from mentatd.lite.web import Web


@dataclass
class Served:
    """A daemon that listens."""

    daemon: Daemon
    control: ControlPort
    web: Web
    control_port: int
    http_port: int


@pytest.fixture
async def served() -> AsyncIterator[Served]:
    daemon = Daemon(state(), now_ms=lambda: 7000)
    control, web = ControlPort(daemon, Mesh(daemon, SETTINGS), silent_s=0.5), Web(daemon)
    control_sockets, web_sockets = listen(0, ["127.0.0.1"]), listen(0, ["127.0.0.1"])
    await control.start(control_sockets)
    await web.start(web_sockets)
    yield Served(daemon, control, web, control_sockets[0].getsockname()[1], web_sockets[0].getsockname()[1])
    await control.close()
    await web.close()
