"""Entries of the merged lists: what is kept, filled in, and left out; any answer at all."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mentatd.serve.mcp.offers import (
    MAX_ENTRIES,
    PROMPTS,
    RESOURCES,
    TOOLS,
    Kind,
    Page,
    failed_result,
    is_tool_result,
    publish_contents,
    read_page,
    write_list,
)


def read(kind: Kind, *entries: Any, **more: Any) -> Page:
    return read_page(kind, "glm", json.dumps({kind.capability: entries, **more}).encode())


def entry_of(kind: Kind, entry: dict[str, Any]) -> dict[str, Any]:
    """The entry as the merged list has it."""
    page = read(kind, entry)
    assert page.skipped is None
    (offer,) = page.offers
    (written,) = json.loads(write_list(kind, [offer.json]))[kind.capability]
    assert isinstance(written, dict)
    assert written[kind.key] == offer.public
    return written


def test_a_tool_is_kept_whole() -> None:
    tool = {
        "name": "status",
        "title": "Status",
        "description": "é",
        "inputSchema": {
            "type": "object",
            "properties": {"a": {"type": "number", "maximum": 1.5}},
            "required": [],
        },
        "outputSchema": {"type": "object", "properties": {}},
        "annotations": {"readOnlyHint": True, "title": "x", "more": 1},
        "icons": [{"src": "data:,", "mimeType": "image/png", "sizes": ["48x48"]}],
        "execution": {"taskSupport": "forbidden"},
        "_meta": {"a/b": [1, None]},
        "future": {"x": 1},
    }
    assert entry_of(TOOLS, tool) == {**tool, "name": "glm__status"}


def test_a_schema_keeps_its_text() -> None:
    (offer,) = read_page(
        TOOLS, "glm", b'{"tools":[{"name":"a","inputSchema":{"type":"object", "z":1.50 ,"a":1e400}}]}'
    ).offers
    assert offer.json == b'{"name":"glm__a","inputSchema":{"type":"object", "z":1.50 ,"a":1e400}}'
    assert (offer.group, offer.key, offer.public) == ("glm", "a", "glm__a")


def test_resources_and_prompts() -> None:
    resource = {
        "uri": "log://x",
        "name": "log",
        "size": 5,
        "mimeType": "text/plain",
        "annotations": {"priority": 1},
    }
    assert entry_of(RESOURCES, resource) == {**resource, "uri": "mentat://glm/log%3A%2F%2Fx"}
    assert entry_of(RESOURCES, {"uri": "log://x"})["name"] == "log://x"
    prompt = {"name": "ask", "title": "t", "arguments": [{"name": "a", "required": True}]}
    assert entry_of(PROMPTS, prompt) == {**prompt, "name": "glm__ask"}


@pytest.mark.parametrize(
    ("tool", "filled"),
    [
        ({"name": "a"}, {"inputSchema": {"type": "object"}}),
        ({"name": "a", "inputSchema": None}, {"inputSchema": {"type": "object"}}),
        ({"name": "a", "inputSchema": {}}, {"inputSchema": {"type": "object"}}),
        (
            {"name": "a", "inputSchema": {"properties": {}}, "outputSchema": {"required": []}},
            {
                "inputSchema": {"type": "object", "properties": {}},
                "outputSchema": {"type": "object", "required": []},
            },
        ),
        ({"name": "a", "title": None, "icons": None, "_meta": None}, {"inputSchema": {"type": "object"}}),
    ],
)
def test_what_sloppy_servers_leave_out_is_filled_in(tool: dict[str, Any], filled: dict[str, Any]) -> None:
    assert entry_of(TOOLS, tool) == {"name": "glm__a", **filled}


@pytest.mark.parametrize(
    ("kind", "entry"),
    [
        (TOOLS, 5),
        (TOOLS, {}),
        (TOOLS, {"name": ""}),
        (TOOLS, {"name": 5}),
        (TOOLS, {"name": "a", "title": 5}),
        (TOOLS, {"name": "a", "inputSchema": "object"}),
        (TOOLS, {"name": "a", "inputSchema": {"type": "string"}}),
        (TOOLS, {"name": "a", "inputSchema": {"type": "object", "required": "a"}}),
        (TOOLS, {"name": "a", "outputSchema": [1]}),
        (TOOLS, {"name": "a", "annotations": {"readOnlyHint": "yes"}}),
        (TOOLS, {"name": "a", "icons": [{}]}),
        (TOOLS, {"name": "a", "_meta": 1}),
        (RESOURCES, {"name": "a"}),
        (RESOURCES, {"uri": ""}),
        (RESOURCES, {"uri": "a", "mimeType": 1}),
        (PROMPTS, {"name": "a", "arguments": [{}]}),
        (PROMPTS, {"name": "a", "arguments": {}}),
    ],
)
def test_an_entry_that_clients_would_refuse_is_left_out(kind: Kind, entry: Any) -> None:
    good = {"name": "good", "uri": "good"}
    page = read(kind, good, entry, {"name": 7}, good | {"name": "too", "uri": "too"})
    assert [offer.key for offer in page.offers] == ["good", "too"]
    assert page.skipped is not None
    assert page.skipped.startswith(f"{kind.capability}[1]: ")


@pytest.mark.parametrize(
    ("cursor", "read_as"),
    [(None, None), ("", None), ("page 2", b'"page 2"'), (5, b"5"), ({"a": 1}, b'{"a": 1}')],
)
def test_cursors_are_opaque(cursor: Any, read_as: bytes | None) -> None:
    assert read(TOOLS, nextCursor=cursor).cursor == read_as


def test_a_list_without_its_member_is_empty() -> None:
    assert read_page(TOOLS, "glm", b"{}") == Page((), None, None)


@pytest.mark.parametrize("result", [b"[]", b"5", b"", b'{"tools":5}', b'{"tools":{}}', b'{"tools":null}'])
def test_no_lists(result: bytes) -> None:
    with pytest.raises(ValueError, match="unreadable answer to tools/list"):
        read_page(TOOLS, "glm", result)


def test_a_list_is_bounded() -> None:
    assert read(TOOLS, *[{}] * MAX_ENTRIES).offers == ()
    with pytest.raises(ValueError, match="5001 entries"):
        read(TOOLS, *[{}] * (MAX_ENTRIES + 1))


@given(
    st.sampled_from((TOOLS, RESOURCES, PROMPTS)),
    st.recursive(
        st.none() | st.integers() | st.text(st.characters(exclude_categories=["Cs"]), max_size=5),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(
                st.sampled_from(
                    ("tools", "resources", "prompts", "name", "uri", "inputSchema", "icons", "nextCursor")
                ),
                inner,
                max_size=4,
            )
        ),
        max_leaves=12,
    ),
)
def test_any_answer_is_a_list_or_none(kind: Kind, answer: Any) -> None:
    try:
        page = read_page(kind, "glm", json.dumps(answer).encode())
    except ValueError:
        return
    assert json.loads(write_list(kind, [offer.json for offer in page.offers]))


def test_contents_of_a_resource_have_their_merged_uri() -> None:
    result = (
        b'{"contents":[{"uri":"log://x","text":"a", "size":1.50},{"uri":"mentat://glm/y"},'
        b'{"text":"b"}],"_meta":{"a": 1}}'
    )
    assert publish_contents("glm", result) == (
        b'{"contents":[{"uri":"mentat://glm/log%3A%2F%2Fx","text":"a","size":1.50},{"uri":"mentat://glm/y"},'
        b'{"text":"b"}],"_meta":{"a": 1}}'
    )


@pytest.mark.parametrize("result", [b"{", b'{"contents":5}', b'{"contents":[1]}'])
def test_what_is_no_resource_stays(result: bytes) -> None:
    assert publish_contents("glm", result) == result


@pytest.mark.parametrize(
    ("result", "is_one"),
    [
        (b'{"content":[]}', True),
        (b'{"content" : [{"type":"x"}],"structuredContent":{}}', True),
        (b'{"structuredContent":{}}', False),
        (b'{"content":"text"}', False),
        (b'{"content":null}', False),
        (b"[]", False),
    ],
)
def test_tool_results(result: bytes, is_one: bool) -> None:
    assert is_tool_result(result) is is_one


def test_a_failed_result_can_be_read_by_a_model() -> None:
    result = failed_result('no "x"')
    assert is_tool_result(result)
    assert json.loads(result) == {"content": [{"type": "text", "text": 'no "x"'}], "isError": True}
