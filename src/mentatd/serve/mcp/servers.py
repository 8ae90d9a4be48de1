"""The MCP servers of all groups: one for each address in use, and which address takes a call."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import TypeVar

from mentatd.cluster.groups import Group
from mentatd.errors import ConnectFailed
from mentatd.http.client import Client
from mentatd.serve.mcp.reading import GroupFailed
from mentatd.serve.mcp.session import GroupServer
from mentatd.tasks import Tasks

Groups = Callable[[], Mapping[str, Group]]
"""Gives the groups of the newest table, by name."""
T = TypeVar("T")


class Servers:
    """Owns the sessions with the groups' servers. One of an address that is no group's any more is closed."""

    def __init__(self, groups: Groups, client: Client, *, seconds: float) -> None:
        """`seconds`: MCP_TIMEOUT_S."""
        self._groups = groups
        self._client = client
        self._seconds = seconds
        self._servers: dict[tuple[str, str], GroupServer] = {}
        self._tasks = Tasks("mcp_servers")

    async def use(
        self, group: Group, work: Callable[[GroupServer], Awaitable[T]], *, seconds: float | None = None
    ) -> T:
        """Do `work` with the group's best-ranked server that takes a connection, within `seconds` in all.

        Only ConnectFailed moves on to the next address: nothing was sent. Raises GroupFailed, which names every
        address tried, and what else `work` raises.
        """
        limit = self._seconds if seconds is None else min(seconds, self._seconds)
        failures: list[str] = []
        url = ""
        try:
            async with asyncio.timeout(limit):
                for url in group.mcp_candidates:
                    server = self._server(group.name, url)
                    server.users += 1
                    try:
                        return await work(server)
                    except ConnectFailed as error:
                        failures.append(str(error))
                    finally:
                        server.users -= 1
        except TimeoutError:
            failures.append(f"{url}: no answer within {limit:g} s")
        raise GroupFailed("; ".join(failures) or "no address of its node passes ALLOWED_SOURCES")

    def _server(self, group: str, url: str) -> GroupServer:
        server = self._servers.get((group, url))
        if server is None:
            self._drop_departed()
            server = GroupServer(self._client, url, self._tasks, seconds=self._seconds)
            self._servers[group, url] = server
        return server

    def _drop_departed(self) -> None:
        here = {(group.name, url) for group in self._groups().values() for url in group.mcp_candidates}
        for key, server in list(self._servers.items()):
            if key not in here and not server.users:
                del self._servers[key]
                self._tasks.start(server.close(), "close")

    async def close(self) -> None:
        """End every session."""
        await self._tasks.close()
        await asyncio.gather(*(server.close() for server in self._servers.values()))
