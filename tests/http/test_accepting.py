"""Accepting one by one: who is kept, who is told that there is no room, and what happens without descriptors."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, cast

import pytest
from tests.support.deadlines import until, within

from mentatd.http import accepting
from mentatd.http.accepting import BATCH, Acceptor

NO_ROOM = b"HTTP/1.1 503 Service Unavailable\r\n\r\n"


class Scarce:
    """A listening socket that has no descriptor for the first `failures` that it should accept."""

    def __init__(self, failures: int = 0, error: int = errno.EMFILE) -> None:
        self.sock = socket.create_server(("127.0.0.1", 0), backlog=512)
        self.failures = failures
        self._error = error

    def accept(self) -> Any:
        if self.failures:
            self.failures -= 1
            raise OSError(self._error, "no")
        return self.sock.accept()

    def __getattr__(self, name: str) -> Any:
        return getattr(self.sock, name)


class Kept(asyncio.Protocol):
    """A connection that was accepted."""

    def __init__(self, all_: list[asyncio.BaseTransport]) -> None:
        self._all = all_

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._all.append(transport)


class Door:
    """An acceptor that keeps up to `most` connections."""

    def __init__(self, sock: Scarce, most: int) -> None:
        self.kept: list[asyncio.BaseTransport] = []
        self.made = 0
        self.clients: list[asyncio.StreamWriter] = []
        self.acceptor = Acceptor(
            cast(socket.socket, sock),
            self._make,
            lambda coming: self.made + coming >= most,
            lambda: NO_ROOM,
        )
        self._address = sock.getsockname()

    def _make(self) -> Kept:
        self.made += 1
        return Kept(self.kept)

    async def come(self, data: bytes = b"") -> asyncio.StreamReader:
        async with within():
            reader, writer = await asyncio.open_connection(*self._address)
        writer.write(data)
        self.clients.append(writer)
        return reader


@asynccontextmanager
async def door(sock: Scarce, most: int = 1000) -> AsyncIterator[Door]:
    here = Door(sock, most)
    try:
        yield here
    finally:
        here.acceptor.close()
        here.acceptor.close()
        await here.acceptor.settle()
        for transport in here.kept:
            transport.abort()  # type: ignore[attr-defined]
        for writer in here.clients:
            writer.transport.abort()


async def test_all_are_kept_while_there_is_room() -> None:
    async with door(Scarce()) as here:
        for _ in range(3 * BATCH):
            await here.come()
        await until(lambda: len(here.kept) == 3 * BATCH)


@pytest.mark.parametrize("data", [b"", b"GET / HTTP/1.1\r\nHost: h\r\n\r\n"])
async def test_the_rest_is_told_that_there_is_none(data: bytes) -> None:
    async with door(Scarce(), most=3) as here:
        readers = [await here.come(data) for _ in range(3 * BATCH)]
        async with within():
            answers = [await reader.read() for reader in readers[3:]]
        assert answers == [NO_ROOM] * (3 * BATCH - 3)
        assert len(here.kept) == 3


@pytest.mark.parametrize("error", [errno.EMFILE, errno.ENFILE])
async def test_the_last_descriptor_is_for_an_answer(error: int, capsys: pytest.CaptureFixture[str]) -> None:
    sock = Scarce(0, error)
    async with door(sock) as here:
        for _ in range(3):
            sock.failures = 1
            reader = await here.come()
            async with within():
                assert await reader.read() == NO_ROOM
        sock.failures = 2  # and not even with what was held back: who comes waits
        await here.come()
        await until(lambda: here.kept)
    assert capsys.readouterr().err.count("event=descriptors_used_up") == 1


async def test_accepting_rests_while_there_is_no_descriptor_to_hold_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    tries = 0
    real = os.open

    def none(path: str, flags: int, *more: Any) -> int:
        nonlocal tries
        if path == os.devnull and tries < 3:
            tries += 1
            raise OSError(errno.EMFILE, "no")
        return real(path, flags, *more)

    monkeypatch.setattr(accepting, "REST_S", 0.001)
    monkeypatch.setattr(os, "open", none)
    async with door(Scarce()) as here:
        await here.come()
        await until(lambda: here.kept)
    assert tries == 3


async def test_it_may_be_closed_while_it_rests(monkeypatch: pytest.MonkeyPatch) -> None:
    def none(*_: Any) -> int:
        raise OSError(errno.EMFILE, "no")

    monkeypatch.setattr(os, "open", none)
    async with door(Scarce()):
        pass


async def test_one_who_left_while_he_waited_is_passed_over() -> None:
    async with door(Scarce(1, errno.ECONNABORTED)) as here:
        await here.come()
        await until(lambda: here.kept)


async def test_one_who_was_accepted_at_the_very_end_is_let_go() -> None:
    async with door(Scarce()) as here:
        reader = await here.come()
        here.acceptor._accept()
        here.acceptor.close()
        await here.acceptor.settle()
        for transport in here.kept:
            transport.abort()  # type: ignore[attr-defined]
        async with within():
            with contextlib.suppress(ConnectionResetError):
                assert await reader.read() == b""
