"""The composition root: what the router is made of, in which order it starts, and in which order it ends.

Starting: the HTTP port is taken first, for that is what can fail; clients who connect wait until daemons and engines
have been looked at once, so that a restarted router does not say that there is no such model. Ending: no new
connections; answers in progress go on for `DRAIN_S` while discovery keeps the table true; then what is left is cut,
and everything is closed from the clients inwards.
"""

from __future__ import annotations

import asyncio

from mentatd import __version__
from mentatd.http.client import Client
from mentatd.http.pool import Pool
from mentatd.http.server import Limits, Server
from mentatd.log import log
from mentatd.serve import exchange
from mentatd.serve.answering import Answering
from mentatd.serve.cors import Cors
from mentatd.serve.discovery import Discovery
from mentatd.serve.enginekey import EngineKey
from mentatd.serve.handler import Endpoint, RouterHandler
from mentatd.serve.inflight import Inflight
from mentatd.serve.keepalive import Keepalives
from mentatd.serve.mcp.catalogue import Catalogue
from mentatd.serve.mcp.endpoint import BODY_LIMIT as MCP_BODY_LIMIT
from mentatd.serve.mcp.endpoint import McpEndpoint
from mentatd.serve.mcp.merge import Merge
from mentatd.serve.mcp.servers import Servers
from mentatd.serve.monitor.assembly import Monitor
from mentatd.serve.proxy import Proxy
from mentatd.serve.status import Documents
from mentatd.serve.tokens import endpoint as tokens
from mentatd.settings import Settings
from mentatd.tasks import Tasks


class Router:
    """One router. `start`, then `stop`, then `close`; `close` alone ends it too. Made on the running loop."""

    def __init__(self, settings: Settings) -> None:
        """Raises OSError when this box's interfaces cannot be read."""
        self._settings = settings
        self._tasks = Tasks("router")
        self._pool = Pool()
        client = Client(self._pool)
        self._key = EngineKey(settings.engine_api_key)
        self._cors = Cors(settings.cors_allow_origins)
        self._discovery = discovery = Discovery(settings, client, self._key)
        cluster, groups = discovery.cluster, discovery.groups
        self._inflight = Inflight(settings.serving_timeout_s)
        self._keepalives = Keepalives(self._inflight, settings.sse_keepalive_s)
        self._proxy = Proxy(cluster, self._pool, self._inflight)
        self._answering = Answering()
        documents = Documents(cluster, discovery.watches.daemons)
        self._mcp_servers = Servers(groups, client, seconds=settings.mcp_timeout_s)
        self._catalogue = Catalogue(groups, self._mcp_servers, ttl_s=settings.tools_ttl_s)
        merge = Merge(groups, self._mcp_servers, self._catalogue, documents.status)
        self._monitor = Monitor(
            cluster,
            self._inflight,
            client,
            self._key,
            self._answering,
            documents,
            daemons=discovery.watches.daemons,
            announcements=lambda: discovery.listener.heard,
            connections=lambda: {"client": self._server.connections, "engine": len(self._pool)},
        )
        endpoints = self._endpoints(client, merge) | self._monitor.endpoints()
        self._server = Server(
            RouterHandler(self._proxy, documents, endpoints, self._monitor.traffic.refused, self._cors),
            limits=_limits(settings),
            allowed=discovery.allows,
            every_answer=self._cors.fields if self._cors else None,
        )

    def _endpoints(self, client: Client, merge: Merge) -> dict[str, Endpoint]:
        """What the router answers by asking engines itself."""
        counting = tokens.TokensEndpoint(
            self._discovery.cluster,
            client,
            self._inflight,
            self._answering,
            self._key,
            timeout_s=self._settings.mcp_timeout_s,
        )
        post = ("POST", "OPTIONS")
        mcp = McpEndpoint(merge, self._answering, self._cors)
        return {
            "/mcp": Endpoint(mcp.handle, post, MCP_BODY_LIMIT),
            tokens.RESPONSES_PATH: Endpoint(counting.handle_responses, post, tokens.BODY_LIMIT),
            tokens.ANTHROPIC_PATH: Endpoint(counting.handle_anthropic, post, tokens.BODY_LIMIT),
        }

    @property
    def port(self) -> int:
        """The HTTP port in use, once started."""
        return self._server.port

    async def start(self, stop: asyncio.Event) -> None:
        """Discover and serve, or only begin to when `stop` is set meanwhile. Raises SettingsError when the HTTP port
        cannot be had."""
        for warning in self._settings.warnings:
            log("setting_ignored", reason=warning)
        self._server.bind(self._settings.serve_port)
        self._discovery.start()
        self._monitor.start()
        self._keepalives.start()
        await self._discovery.first_look(stop)
        if stop.is_set():
            return
        await self._server.accept()
        compiled = not exchange.__file__.endswith(".py")
        log("serve_up", version=__version__, port=self.port, build="compiled" if compiled else "python")

    async def stop(self, cut: asyncio.Event) -> None:
        """Take no new connections, and let the answers in progress end: within DRAIN_S, or until `cut` is set."""
        self._server.stop_accepting()
        await self._monitor.end_streams()
        log("serve_draining", connections=self._server.connections, within_s=self._settings.drain_s)
        drained = self._tasks.start(self._server.drain(self._settings.drain_s), "drain")
        cut_short = self._tasks.start(cut.wait(), "cut")
        await asyncio.wait((drained, cut_short), return_when=asyncio.FIRST_COMPLETED)

    async def close(self) -> None:
        """Cut what is left and close everything."""
        cut = len(self._inflight)
        await self._server.close()
        await self._answering.close()
        await self._monitor.close()
        await self._catalogue.close()
        await self._mcp_servers.close()
        await self._proxy.close()
        self._keepalives.close()
        self._inflight.close()
        await self._tasks.close()
        await self._discovery.close()
        await self._pool.close()
        if self.port:
            log("serve_down", cut=cut)


def _limits(settings: Settings) -> Limits:
    return Limits(
        client_timeout_s=settings.client_timeout_s,
        max_connections=settings.max_connections,
        body_memory=settings.body_memory_mib * 1024 * 1024,
    )
