"""Each group's tools, resources and prompts: fetched from all groups at once, kept for TOOLS_TTL_S."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from mentatd.cluster.groups import Group
from mentatd.errors import ConnectFailed, MentatError
from mentatd.http.client import Client
from mentatd.log import log
from mentatd.serve.mcp.offers import Kind, Offer, Page, read_page
from mentatd.serve.mcp.session import GroupFailed, GroupServer
from mentatd.tasks import Tasks
from mentatd.wire.jsonrpc import METHOD_NOT_FOUND, Outcome

FETCH_S = 10.0
"""One fetch, handshake and pages included, ends after this or MCP_TIMEOUT_S, whichever is less."""
_PAGES = 100
"""Pages of one list that are read: a server whose cursor never ends is cut off here."""

Groups = Callable[[], Mapping[str, Group]]


@dataclass(frozen=True, slots=True)
class _Kept:
    url: str
    offers: tuple[Offer, ...]
    until: float


class Catalogue:
    """Owns the sessions with the groups' servers and what they last listed."""

    def __init__(self, groups: Groups, client: Client, *, timeout_s: float, ttl_s: float) -> None:
        self._groups = groups
        self._client = client
        self._timeout_s = timeout_s
        self._ttl_s = ttl_s
        self._servers: dict[tuple[str, str], GroupServer] = {}
        self._kept: dict[tuple[str, str], _Kept] = {}
        self._fetches: dict[tuple[str, str], asyncio.Task[tuple[Offer, ...]]] = {}
        self._failed: set[tuple[str, str]] = set()
        self._tasks = Tasks("mcp")

    async def offers(self, kind: Kind) -> list[Offer]:
        """What every group lists now, ordered by group; a group that does not answer is left out and logged once."""
        self._forget_departed()
        groups = [group for group in self._groups().values() if group.mcp_candidates]
        found = await asyncio.gather(*(self._of_group(group, kind) for group in groups))
        return [offer for offers in found for offer in offers]

    async def call(self, group: Group, method: str, params: bytes) -> Outcome:
        """Send one call to the group's best candidate that takes a connection; sent once.

        Raises UpstreamError or GroupFailed; the text names every address tried.
        """
        _, outcome = await self._first_reached(group, method, params, self._timeout_s)
        return outcome

    async def close(self) -> None:
        """End what is being fetched, and every session."""
        await self._tasks.close()
        await asyncio.gather(*(server.close() for server in self._servers.values()))

    async def _of_group(self, group: Group, kind: Kind) -> tuple[Offer, ...]:
        key = (group.name, kind.method)
        kept = self._kept.get(key)
        if kept and kept.url in group.mcp_candidates and kept.until > asyncio.get_running_loop().time():
            return kept.offers
        fetch = self._fetches.get(key)
        if fetch is None:
            fetch = self._fetches[key] = self._tasks.start(self._fetch(group, kind), group.name)
        # Shielded: a caller that leaves does not end the fetch that others wait for.
        return await asyncio.shield(fetch)

    async def _fetch(self, group: Group, kind: Kind) -> tuple[Offer, ...]:
        key = (group.name, kind.method)
        deadline = min(FETCH_S, self._timeout_s)
        try:
            async with asyncio.timeout(deadline):
                url, offers = await self._list(group, kind, deadline)
        except (MentatError, ValueError, TimeoutError) as error:
            self._report(key, str(error) or f"no answer within {deadline:g} s")
            return ()
        finally:
            del self._fetches[key]
        self._failed.discard(key)
        if offers:
            self._kept[key] = _Kept(url, offers, asyncio.get_running_loop().time() + self._ttl_s)
        return offers

    def _report(self, key: tuple[str, str], error: str) -> None:
        if key not in self._failed:
            self._failed.add(key)
            log("mcp_tools_fetch_failed", group=key[0], method=key[1], error=error)

    async def _list(self, group: Group, kind: Kind, deadline: float) -> tuple[str, tuple[Offer, ...]]:
        offers: list[Offer] = []
        params, url = b"{}", ""
        for _ in range(_PAGES):
            server, outcome = await self._first_reached(group, kind.method, params, deadline, kind.capability)
            url = server.url
            page = _page(kind, group.name, url, outcome)
            offers += page.offers
            if page.cursor is None:
                break
            params = b'{"cursor":%b}' % page.cursor
        return url, tuple(offers)

    async def _first_reached(
        self, group: Group, method: str, params: bytes, deadline: float, capability: str | None = None
    ) -> tuple[GroupServer, Outcome]:
        failures: list[str] = []
        for url in group.mcp_candidates:
            server = self._server(group.name, url)
            try:
                if capability is not None and not await server.offers(capability, deadline=deadline):
                    return server, Outcome(b"null", b"{}", None)
                return server, await server.call(method, params, deadline=deadline)
            except ConnectFailed as error:
                failures.append(str(error))
        raise GroupFailed("; ".join(failures) or "no address of that node passes ALLOWED_SOURCES")

    def _server(self, group: str, url: str) -> GroupServer:
        server = self._servers.get((group, url))
        if server is None:
            server = self._servers[group, url] = GroupServer(self._client, url)
        return server

    def _forget_departed(self) -> None:
        """Drop what is known of groups and addresses that are gone; their sessions ended with them."""
        here = {(group.name, url) for group in self._groups().values() for url in group.mcp_candidates}
        names = {name for name, _ in here}
        self._servers = {key: server for key, server in self._servers.items() if key in here}
        self._kept = {key: kept for key, kept in self._kept.items() if key[0] in names}
        self._failed = {key for key in self._failed if key[0] in names}


def _page(kind: Kind, group: str, url: str, outcome: Outcome) -> Page:
    """Read an outcome as a page. A server that does not know the method offers nothing of the kind."""
    if outcome.result is not None:
        return read_page(kind, group, outcome.result)
    if outcome.error is not None and b"%d" % METHOD_NOT_FOUND in outcome.error:
        return Page((), None)
    raise GroupFailed(f"{url}: {(outcome.error or b'').decode(errors='replace')[:200]}")
