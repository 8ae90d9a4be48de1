"""Hosts that are network namespaces, and the wires between them.

A namespace lives as long as a process that this one holds by a pipe: when the tests end, however they end, the kernel
takes all of it away. Nothing has a name outside, so that runs side by side do not meet.
"""

from __future__ import annotations

import ctypes
import os
import shutil
import socket
import subprocess
import threading
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Literal, Self, TypeVar

from tests.support.deadlines import DEADLINE_S

FABRIC, LAN = "fabric", "lan"
Wire = Literal["fabric", "lan"]
Cut = Literal["down", "unplugged", "silent"]
"""How a wire is lost: the host's interface is shut, its carrier is gone, or frames vanish on the way."""

_NETWORKS = {FABRIC: "10.100.0.{}", LAN: "192.168.1.{}"}
_CLONE_NEWNET = 0x40000000
_T = TypeVar("_T")
_libc = ctypes.CDLL(None, use_errno=True)


class Namespace:
    """A network of its own, gone with `close` or with this process."""

    def __init__(self) -> None:
        self._keeper = subprocess.Popen(
            ["unshare", "--net", "sh", "-c", "echo && exec cat"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        assert self._keeper.stdout is not None
        self._keeper.stdout.readline()  # it has entered
        self.pid = self._keeper.pid

    def close(self) -> None:
        self._keeper.communicate(timeout=DEADLINE_S)

    @property
    def prefix(self) -> str:
        """Before a command line: it runs here, and is killed when the tests are."""
        return f"{shutil.which('nsenter')} --net=/proc/{self.pid}/ns/net setpriv --pdeathsig KILL"

    def enter(self) -> None:
        """Let the calling thread, and no other, make its sockets here."""
        with Path(f"/proc/{self.pid}/ns/net").open() as namespace:
            if _libc.setns(namespace.fileno(), _CLONE_NEWNET):
                raise OSError(ctypes.get_errno(), "setns")

    def inside(self, work: Callable[[], _T]) -> _T:
        """Do something short here; a socket that it makes stays of this network wherever it is used."""
        results: list[_T] = []
        errors: list[Exception] = []

        def run() -> None:
            try:
                self.enter()
                results.append(work())
            except Exception as error:
                errors.append(error)

        thread = threading.Thread(target=run)
        thread.start()
        thread.join()
        if errors:
            raise errors[0]
        return results[0]

    def ip(self, *lines: str) -> None:
        """Commands of `ip`, in one batch."""
        subprocess.run(
            ["nsenter", f"--net=/proc/{self.pid}/ns/net", "ip", "-batch", "-"],
            input="\n".join(lines),
            text=True,
            capture_output=True,
            timeout=DEADLINE_S,
            check=True,
        )


class Host(Namespace):
    """One machine with a plug in each wire: its interfaces are called like the wires."""

    def __init__(self, name: str, number: int, switch: Namespace) -> None:
        super().__init__()
        self.name = name
        self.fabric, self.lan = (network.format(number) for network in _NETWORKS.values())
        self._switch = switch
        for wire in _NETWORKS:
            port = f"{name}-{wire}"
            switch.ip(
                f"link add {port} type veth peer name {wire} netns {self.pid}",
                f"link set {port} master {wire} up",
            )
        self.ip(
            "link set lo up",
            *(
                f"addr add {network.format(number)}/24 brd + dev {wire}"
                for wire, network in _NETWORKS.items()
            ),
            *(f"link set {wire} up" for wire in _NETWORKS),
        )

    def cut(self, wire: Wire, how: Cut) -> None:
        match how:
            case "down":
                self.ip(f"link set {wire} down")
            case "unplugged":
                self._switch.ip(f"link set {self.name}-{wire} down")
            case "silent":
                self._switch.ip(f"link set {self.name}-{wire} nomaster")

    def mend(self, wire: Wire) -> None:
        self._switch.ip(f"link set {self.name}-{wire} master {wire} up")
        self.ip(f"link set {wire} up")

    def lose(self) -> None:
        """As its loss of power looks from elsewhere."""
        self.cut("fabric", "silent")
        self.cut("lan", "silent")

    def find(self) -> None:
        """It is on the wires again."""
        self.mend("fabric")
        self.mend("lan")

    def connect(self, address: str, port: int, within_s: float = DEADLINE_S) -> socket.socket:
        """A connection from this host."""
        return self.inside(lambda: socket.create_connection((address, port), timeout=within_s))


class Network:
    """Three hosts on two wires, a fabric (10.100.0.x) and a LAN (192.168.1.x)."""

    def __init__(self) -> None:
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        try:
            switch = self._open(Namespace())
            for wire in _NETWORKS:
                switch.ip(f"link add {wire} type bridge", f"link set {wire} up")
            self.hosts: Sequence[Host] = tuple(
                self._open(Host(name, number, switch)) for number, name in enumerate("abc", 1)
            )
        except BaseException:
            self._stack.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def _open(self, made: _N) -> _N:
        self._stack.callback(made.close)
        return made


_N = TypeVar("_N", bound=Namespace)


def lacking() -> str:
    """Why there can be no namespaces here; empty when there can."""
    for tool in ("ip", "unshare", "nsenter", "setpriv"):
        if shutil.which(tool) is None:
            return f"this machine has no `{tool}` (iproute2, util-linux)"
    if os.geteuid() != 0:
        return "only root may make network namespaces"
    tried = ["unshare", "--net", "ip", "link", "add", "x", "type", "bridge"]
    done = subprocess.run(tried, capture_output=True, text=True, timeout=DEADLINE_S)
    return f"network namespaces are not permitted here: {done.stderr.strip()}" if done.returncode else ""
