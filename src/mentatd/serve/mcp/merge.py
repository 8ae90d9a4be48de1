"""The merged server: one JSON-RPC call in, one answer out. The admission gate is skipped on purpose: a status
server matters most while its engine loads or is wedged."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from mentatd import __version__
from mentatd.cluster.groups import Group
from mentatd.errors import MentatError
from mentatd.serve.mcp.catalogue import Catalogue, Groups
from mentatd.serve.mcp.names import find_coded, is_coded, split_name, split_uri
from mentatd.serve.mcp.offers import (
    PROMPTS,
    RESOURCES,
    TOOLS,
    Kind,
    Members,
    failed_result,
    publish_contents,
    read_members,
    text_member,
    write_list,
)
from mentatd.serve.mcp.session import NEWEST
from mentatd.wire import jsonrpc
from mentatd.wire.jsonrpc import Call, Outcome

VERSIONS = ("2024-11-05", "2025-03-26", "2025-06-18", NEWEST)
"""Protocol versions that the endpoint speaks; all it does is the same in each."""

NATIVE = "serve_status"
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
_RESOURCE_NOT_FOUND = -32002
_LISTS = {kind.method: kind for kind in (TOOLS, RESOURCES, PROMPTS)}


class _BadCall(Exception):
    """The call is answered with this error."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code


class Merge:
    """Answers calls. `status` gives the status document's JSON text."""

    def __init__(self, groups: Groups, catalogue: Catalogue, status: Callable[[], bytes]) -> None:
        self._groups = groups
        self._catalogue = catalogue
        self._status = status

    async def answer(self, call: Call) -> bytes:
        """The answer message to one call, as JSON text; never raises but for cancellation."""
        try:
            outcome = await self._outcome(call)
        except _BadCall as bad:
            return jsonrpc.write_error(call.id, jsonrpc.error_object(bad.code, str(bad)))
        if isinstance(outcome, bytes):
            return jsonrpc.write_result(call.id, outcome)
        if outcome.error is not None:
            return jsonrpc.write_error(call.id, outcome.error)
        return jsonrpc.write_result(call.id, outcome.result or b"{}")

    async def _outcome(self, call: Call) -> bytes | Outcome:
        params = _params(call)
        match call.method:
            case "initialize":
                return _hello(params)
            case "ping":
                return b"{}"
            case "tools/call":
                return await self._call_tool(params)
            case "prompts/get":
                return await self._get_prompt(params)
            case "resources/read":
                return await self._read_resource(params)
            case "tools/list" | "resources/list" | "prompts/list":
                return await self._list(_LISTS[call.method])
            case _:
                raise _BadCall(jsonrpc.METHOD_NOT_FOUND, f"unknown method {call.method[:100]!r}")

    async def _list(self, kind: Kind) -> bytes:
        native = [_NATIVE_TOOL] if kind is TOOLS else []
        return write_list(kind, native + [offer.json for offer in await self._catalogue.offers(kind)])

    async def _call_tool(self, params: Members) -> bytes | Outcome:
        name = _text(params, "name")
        if bytes(params.get("arguments", b"{}"))[:1] != b"{":
            raise _BadCall(jsonrpc.INVALID_PARAMS, "`arguments` must be an object")
        if name == NATIVE:
            return self._native()
        found = await self._find(TOOLS, name)
        if found is None:
            return failed_result(f"unknown tool {name[:100]!r}: the list of tools names those that exist")
        group, tool = found
        try:
            return await self._catalogue.call(group, "tools/call", _with(params, "name", tool))
        except MentatError as error:
            return failed_result(f"group {group.name}: {error}")

    def _native(self) -> bytes:
        status = self._status()
        text = msgspec.json.encode(status.decode())
        return b'{"content":[{"type":"text","text":%b}],"structuredContent":%b,"isError":false}' % (
            text,
            status,
        )

    async def _get_prompt(self, params: Members) -> Outcome:
        name = _text(params, "name")
        found = await self._find(PROMPTS, name)
        if found is None:
            raise _BadCall(jsonrpc.INVALID_PARAMS, f"unknown prompt {name[:100]!r}")
        group, prompt = found
        return await self._forward(group, "prompts/get", _with(params, "name", prompt))

    async def _read_resource(self, params: Members) -> bytes | Outcome:
        public = _text(params, "uri")
        pair = split_uri(public)
        group = self._groups().get(pair[0]) if pair else None
        if pair is None or group is None or group.mcp is None:
            raise _BadCall(_RESOURCE_NOT_FOUND, f"unknown resource {public[:200]!r}")
        outcome = await self._forward(group, "resources/read", _with(params, "uri", pair[1]))
        return outcome if outcome.result is None else publish_contents(group.name, outcome.result)

    async def _forward(self, group: Group, method: str, params: bytes) -> Outcome:
        try:
            return await self._catalogue.call(group, method, params)
        except MentatError as error:
            raise _BadCall(jsonrpc.INTERNAL_ERROR, f"group {group.name}: {error}") from None

    async def _find(self, kind: Kind, public: str) -> tuple[Group, str] | None:
        pair = split_name(public)
        if is_coded(public):
            offered = await self._catalogue.offers(kind)
            pair = find_coded(public, ((offer.group, offer.key) for offer in offered))
        group = self._groups().get(pair[0]) if pair else None
        return None if pair is None or group is None or group.mcp is None else (group, pair[1])


def _params(call: Call) -> Members:
    try:
        return read_members(call.params)
    except ValueError as error:
        raise _BadCall(jsonrpc.INVALID_PARAMS, f"`params` cannot be read: {error}") from None


def _text(params: Members, name: str) -> str:
    text = text_member(params, name)
    if not text:
        raise _BadCall(jsonrpc.INVALID_PARAMS, f"`{name}` must be a non-empty string")
    return text


def _with(params: Members, name: str, value: str) -> bytes:
    """The parameters as they came, with one member replaced."""
    return msgspec.json.encode({**params, name: value})


def _hello(params: Members) -> bytes:
    asked = text_member(params, "protocolVersion")
    return msgspec.json.encode(
        {
            "protocolVersion": asked if asked in VERSIONS else NEWEST,
            "capabilities": {"tools": {}, "resources": {}, "prompts": {}},
            "serverInfo": {"name": "mentatd-serve", "title": "mentat cluster", "version": __version__},
        }
    )
