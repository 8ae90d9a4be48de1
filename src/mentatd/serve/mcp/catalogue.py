"""Each group's tools, resources and prompts: fetched from all groups at once, kept for TOOLS_TTL_S."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial

from mentatd.cluster.groups import Group
from mentatd.errors import MentatError
from mentatd.log import log
from mentatd.serve.mcp.names import may_name
from mentatd.serve.mcp.offers import TOOLS, Kind, Offer, read_page
from mentatd.serve.mcp.reading import GroupFailed
from mentatd.serve.mcp.servers import Groups, Servers
from mentatd.serve.mcp.session import GroupServer
from mentatd.tasks import Tasks
from mentatd.wire.jsonrpc import METHOD_NOT_FOUND, Failure

FETCH_S = 10.0
"""One fetch, handshake and pages included, ends after this or MCP_TIMEOUT_S, whichever is less."""
MAX_LIST = 4 * 1024 * 1024
"""Bytes of one group's list."""
MAX_PAGES = 100
"""Pages of one list: a server whose cursor never ends is cut off here."""


@dataclass(frozen=True, slots=True)
class _Listed:
    """What one server listed."""

    url: str
    offers: tuple[Offer, ...]
    skipped: str | None
    """As in `Page`."""


@dataclass(frozen=True, slots=True)
class _Kept:
    """The newest list of one group that was not empty."""

    listed: _Listed
    until: float


_Fetch = asyncio.Task[tuple[Offer, ...]]


class Catalogue:
    """Owns what the groups listed, and the tasks that ask."""

    def __init__(
        self,
        groups: Groups,
        servers: Servers,
        *,
        ttl_s: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`ttl_s`: TOOLS_TTL_S."""
        self._groups = groups
        self._servers = servers
        self._ttl_s = ttl_s
        self._clock = clock
        self._kept: dict[tuple[str, str], _Kept] = {}
        self._fetches: dict[tuple[str, str, tuple[str, ...]], _Fetch] = {}
        self._failing: dict[str, set[str]] = {}
        self._skipped: dict[tuple[str, str], str] = {}
        self._tasks = Tasks("mcp_lists")

    async def offers(self, kind: Kind) -> list[Offer]:
        """What every group lists now, ordered by group; a group that does not answer is left out and logged once."""
        self._forget_departed()
        return await self._of_groups(kind, self._groups().values())

    async def find(self, kind: Kind, public: str) -> tuple[str, str] | None:
        """The group, and the name there, that the coded form `public` stands for.

        A name that was listed once is known while its group is: what it stands for cannot change. For another one,
        the groups are asked whose it may be.
        """
        kept = (entry.listed.offers for (_, method), entry in self._kept.items() if method == kind.method)
        found = _named(public, (offer for offers in kept for offer in offers))
        if found is None:
            groups = [group for group in self._groups().values() if may_name(public, group.name)]
            found = _named(public, await self._of_groups(kind, groups))
        return found

    async def close(self) -> None:
        """End what is being fetched."""
        await self._tasks.close()

    async def _of_groups(self, kind: Kind, groups: Iterable[Group]) -> list[Offer]:
        asked = [self._of_group(group, kind) for group in groups if group.mcp_candidates]
        # A crash is in the log, and costs the list of that group only.
        found = await asyncio.gather(*asked, return_exceptions=True)
        return [offer for offers in found if isinstance(offers, tuple) for offer in offers]

    async def _of_group(self, group: Group, kind: Kind) -> tuple[Offer, ...]:
        kept = self._kept.get((group.name, kind.method))
        if kept and kept.until > self._clock() and kept.listed.url in group.mcp_candidates:
            return kept.listed.offers
        key = (group.name, kind.method, group.mcp_candidates)
        fetch = self._fetches.get(key)
        if fetch is None:
            fetch = self._fetches[key] = self._tasks.start(self._fetch(group, kind), group.name)
            fetch.add_done_callback(lambda _: self._fetches.pop(key))
        # Shielded: a caller that leaves does not end the fetch that others wait for.
        return await asyncio.shield(fetch)

    async def _fetch(self, group: Group, kind: Kind) -> tuple[Offer, ...]:
        key = (group.name, kind.method)
        failing = self._failing.setdefault(group.name, set())
        try:
            listed = await self._servers.use(group, partial(_list, kind, group.name), seconds=FETCH_S)
        except (MentatError, ValueError) as error:
            # One line for a group that is gone, whichever list is asked for first; tools always have theirs.
            if kind.method not in failing and (kind is TOOLS or not failing):
                log("mcp_tools_fetch_failed", group=group.name, method=kind.method, error=error)
            failing.add(kind.method)
            return ()
        failing.discard(kind.method)
        if listed.skipped and self._skipped.get(key) != listed.skipped:
            log("mcp_entry_skipped", group=group.name, url=listed.url, reason=listed.skipped)
            self._skipped[key] = listed.skipped
        if listed.offers:
            self._kept[key] = _Kept(listed, self._clock() + self._ttl_s)
        return listed.offers

    def _forget_departed(self) -> None:
        names = self._groups().keys()
        self._kept = {key: kept for key, kept in self._kept.items() if key[0] in names}
        self._skipped = {key: said for key, said in self._skipped.items() if key[0] in names}
        self._failing = {name: methods for name, methods in self._failing.items() if name in names}


def _named(public: str, offers: Iterable[Offer]) -> tuple[str, str] | None:
    return next(((offer.group, offer.key) for offer in offers if offer.public == public), None)


async def _list(kind: Kind, group: str, server: GroupServer) -> _Listed:
    """One server's whole list. Raises as `GroupServer.call`, and ValueError for what is no list or too large.

    Tools are asked for whatever was said at the handshake: they are what the merge is for. A server that said
    nothing and answers the question for the rest with an error, however it words it, has none.
    """
    said = None if kind is TOOLS else await server.offers(kind.capability)
    if said is False:
        return _Listed(server.url, (), None)
    try:
        return await _read_pages(kind, group, server)
    except GroupFailed:
        if kind is TOOLS or said:
            raise
        return _Listed(server.url, (), None)


async def _read_pages(kind: Kind, group: str, server: GroupServer) -> _Listed:
    """Of two entries with one name, the first counts."""
    offers: dict[str, Offer] = {}
    skipped, params, size = None, b"{}", 0
    for _ in range(MAX_PAGES):
        answer = (await server.call(kind.method, params)).answer
        if isinstance(answer, Failure):
            if answer.code == METHOD_NOT_FOUND:
                break
            raise GroupFailed(f"{server.url}: {answer.message[:200]}")
        size += len(answer)
        if size > MAX_LIST:
            raise ValueError(f"{server.url}: a list of over {MAX_LIST} bytes")
        page = read_page(kind, group, answer)
        skipped = skipped or page.skipped
        for offer in page.offers:
            offers.setdefault(offer.key, offer)
        if page.cursor is None:
            break
        params = b'{"cursor":%b}' % page.cursor
    else:
        skipped = f"what comes after {MAX_PAGES} pages"
    return _Listed(server.url, tuple(offers.values()), skipped)
