"""What a service tells its supervisor: systemd's notification protocol (sd_notify(3)).

`Type=notify` counts a unit as started when it says `READY=1`, so that what is ordered after it finds it serving.
Without a supervisor nothing is sent.
"""

from __future__ import annotations

import socket
from collections.abc import Mapping

from mentatd.log import log

READY = "READY=1"
"""It serves."""
STOPPING = "STOPPING=1"
"""It ends, and lets what is in progress end first."""


def notify(environ: Mapping[str, str], state: str) -> None:
    """Send `state` to the supervisor that `NOTIFY_SOCKET` names. Never waits; a failure is one log line."""
    path = environ.get("NOTIFY_SOCKET", "")
    if not path:
        return
    # an address in the abstract namespace is written with @ in place of the zero byte
    address = "\0" + path[1:] if path.startswith("@") else path
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as supervisor:
            supervisor.setblocking(False)
            supervisor.connect(address)
            supervisor.send(state.encode())
    except (OSError, ValueError) as error:
        log("notify_failed", state=state, error=error)
