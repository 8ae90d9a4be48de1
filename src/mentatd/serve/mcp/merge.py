"""The merged server: one JSON-RPC call in, one answer out.

The admission gate is skipped on purpose: a status server matters most while its engine loads or is wedged.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from mentatd import __version__
from mentatd.cluster.groups import Group
from mentatd.errors import MentatError
from mentatd.serve.mcp.catalogue import Catalogue
from mentatd.serve.mcp.names import is_coded, split_name, split_uri
from mentatd.serve.mcp.offers import (
    PROMPTS,
    RESOURCES,
    TOOLS,
    Kind,
    failed_result,
    is_tool_result,
    publish_contents,
    text_member,
    write_list,
)
from mentatd.serve.mcp.params import BadParams, Params, read_params
from mentatd.serve.mcp.servers import Groups, Servers
from mentatd.serve.mcp.session import NEWEST
from mentatd.wire import jsonrpc
from mentatd.wire.jsonrpc import Call, Failure

VERSIONS = ("2024-11-05", "2025-03-26", "2025-06-18", NEWEST)
"""Protocol versions that the endpoint speaks; all it does is the same in each."""

NATIVE = "serve_status"
"""The router's own tool; no public name of a group's tool is without `__`."""
_NATIVE_TOOL = msgspec.json.encode(
    {
        "name": NATIVE,
        "title": "Router status",
        "description": "What this router knows: the daemons it watches, each group's health, endpoints and the "
        "reason why it is not served, and which group serves which model.",
        "inputSchema": {"type": "object", "properties": {}, "additionalProperties": False},
        "annotations": {"readOnlyHint": True, "openWorldHint": False},
    }
)
_INSTRUCTIONS = (
    "The management tools of every model group of a mentat cluster. A tool's name begins with the name of its group "
    f"and `__`. `{NATIVE}` tells which groups and models there are, and why one is not served."
)
_RESOURCE_NOT_FOUND = -32002
_LISTS = {kind.method: kind for kind in (TOOLS, RESOURCES, PROMPTS)}
_SHOWN = 200

Answer = bytes | Failure
"""JSON text of a result, or an error in place of it."""


class Merge:
    """Answers calls. `status` gives the status document's JSON text."""

    def __init__(
        self, groups: Groups, servers: Servers, catalogue: Catalogue, status: Callable[[], bytes]
    ) -> None:
        self._groups = groups
        self._servers = servers
        self._catalogue = catalogue
        self._status = status

    async def answer(self, call: Call) -> bytes:
        """The answer message to one call, as JSON text."""
        try:
            answer = await self._answer(call.method, read_params(call.params))
        except BadParams as bad:
            answer = _failure(jsonrpc.INVALID_PARAMS, str(bad))
        if isinstance(answer, Failure):
            return jsonrpc.write_error(call.id, answer.json)
        return jsonrpc.write_result(call.id, answer)

    async def _answer(self, method: str, params: Params) -> Answer:
        match method:
            case "initialize":
                return _hello(params)
            case "ping":
                return b"{}"
            case "tools/list" | "resources/list" | "prompts/list":
                return await self._list(_LISTS[method])
            case "resources/templates/list":
                # Asked for by clients wherever there are resources; a template has no place in a merged URI.
                return b'{"resourceTemplates":[]}'
            case "tools/call":
                return await self._call_tool(params)
            case "prompts/get":
                return await self._get_prompt(params)
            case "resources/read":
                return await self._read_resource(params)
            case _:
                return _failure(jsonrpc.METHOD_NOT_FOUND, f"unknown method {method[:_SHOWN]!r}")

    async def _list(self, kind: Kind) -> bytes:
        native = [_NATIVE_TOOL] if kind is TOOLS else []
        return write_list(kind, native + [offer.json for offer in await self._catalogue.offers(kind)])

    async def _call_tool(self, params: Params) -> Answer:
        name = params.text("name")
        params.check_object("arguments")
        if name == NATIVE:
            return self._native()
        found = await self._find(TOOLS, name)
        if found is None:
            return failed_result(f"unknown tool {name[:_SHOWN]!r}: tools/list names those that there are")
        group, tool = found
        try:
            answer = await self._call(group, "tools/call", params.replaced("name", tool))
        except MentatError as error:
            return failed_result(f"group {group.name}: {error}")
        if isinstance(answer, bytes) and not is_tool_result(answer):
            return failed_result(f"group {group.name}: an answer without `content`: {_shown(answer)}")
        return answer

    def _native(self) -> bytes:
        status = self._status()
        text = msgspec.json.encode(status.decode())
        return b'{"content":[{"type":"text","text":%b}],"structuredContent":%b,"isError":false}' % (
            text,
            status,
        )

    async def _get_prompt(self, params: Params) -> Answer:
        name = params.text("name")
        found = await self._find(PROMPTS, name)
        if found is None:
            return _failure(jsonrpc.INVALID_PARAMS, f"unknown prompt {name[:_SHOWN]!r}")
        group, prompt = found
        return await self._forward(group, "prompts/get", params.replaced("name", prompt))

    async def _read_resource(self, params: Params) -> Answer:
        public = params.text("uri")
        found = self._of_group(split_uri(public))
        if found is None:
            return _failure(_RESOURCE_NOT_FOUND, f"unknown resource {public[:_SHOWN]!r}")
        group, uri = found
        answer = await self._forward(group, "resources/read", params.replaced("uri", uri))
        return publish_contents(group.name, answer) if isinstance(answer, bytes) else answer

    async def _forward(self, group: Group, method: str, params: bytes) -> Answer:
        try:
            return await self._call(group, method, params)
        except MentatError as error:
            return _failure(jsonrpc.INTERNAL_ERROR, f"group {group.name}: {error}")

    async def _call(self, group: Group, method: str, params: bytes) -> Answer:
        outcome = await self._servers.use(group, lambda server: server.call(method, params))
        return outcome.answer

    async def _find(self, kind: Kind, public: str) -> tuple[Group, str] | None:
        if is_coded(public):
            return self._of_group(await self._catalogue.find(kind, public))
        return self._of_group(split_name(public))

    def _of_group(self, pair: tuple[str, str] | None) -> tuple[Group, str] | None:
        group = self._groups().get(pair[0]) if pair else None
        return None if pair is None or group is None or group.mcp is None else (group, pair[1])


def _failure(code: int, message: str) -> Failure:
    return Failure(code, message, jsonrpc.error_object(code, message))


def _shown(answer: bytes) -> str:
    return repr(answer[:_SHOWN].decode(errors="replace"))


def _hello(params: Params) -> bytes:
    asked = text_member(params.members, "protocolVersion")
    return msgspec.json.encode(
        {
            "protocolVersion": asked if asked in VERSIONS else NEWEST,
            "capabilities": {"tools": {}, "resources": {}, "prompts": {}},
            "serverInfo": {"name": "mentatd-serve", "title": "mentat cluster", "version": __version__},
            "instructions": _INSTRUCTIONS,
        }
    )
