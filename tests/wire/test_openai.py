"""Routing by a JSON body, reading an engine's list, and the error envelope."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from mentatd.errors import Refusal
from mentatd.wire.openai import (
    FALLBACK_LIMIT,
    BadBody,
    ModelEntry,
    Routing,
    find_model,
    read_models,
    render_listing,
    render_refusal,
    shown,
)

M = Routing("m", stream=False)
DEEP = b'{"model":"m","x":' + b"[" * 10_000 + b"]" * 10_000 + b"}"
STEP = 256 * 1024


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (b'{"model":"m"}', M),
        (b' \r\n\t{ "model" : "m" }\n', M),
        (b'{"model":"m","stream":true}', Routing("m", stream=True)),
        (b'{"stream":true,"model":"m"}', Routing("m", stream=True)),
        (b'{"model":"m","stream":"true"}', M),
        (b'{"model":"m","stream":1}', M),
        (b'{"model":"m","stream":null}', M),
        (b'{"model":"m","stream":true,"stream":false}', M),
        (b'{"model":"a","model":"m"}', M),
        (b'{"model":3,"model":"m"}', M),
        (b'{"model":{"model":"a"},"model":"m"}', M),
        (b'{"x":{"model":"a"},"model":"m","y":[{"model":"b"}]}', M),
        (b'{"x":"\\"model\\":\\"a\\"","model":"m"}', M),
        (b'{"mod\\u0065l":"m"}', M),
        (b'{"model":"\\u006d"}', M),
        (b'{"Model":"a","model":"m"}', M),
        (b'{"model":" m "}', Routing(" m ", stream=False)),
        ('{"model":"größe/模型:latest"}'.encode(), Routing("größe/模型:latest", stream=False)),
        (b'{"model":"\\ud83d\\ude00"}', Routing("😀", stream=False)),
        (b'{"model":"m","n":1e400}', M),
        (b'{"model":"m","n":' + b"9" * 6000 + b"}", M),
    ],
)
def test_routes_by_the_model(body: bytes, expected: Routing) -> None:
    assert find_model(body) == expected
    assert find_model(memoryview(body)) == expected


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (b'\xef\xbb\xbf{"model":"m","stream":true}', Routing("m", stream=True)),
        (b'{"model":"m","x":NaN,"y":-Infinity}', M),
        (b'{"model":"m","x":"\\ud800"}', M),
        (b'{"model":"m","x":"\xed\xa0\x80"}', M),
        (b'{"model":"\\ud800"}', Routing("\ud800", stream=False)),
        ('{"model":"m"}'.encode("utf-16"), M),
        (b'{"model":"m","x":NaN,"n":' + b"9" * 6000 + b"}", M),
        (b'{"model":1,"model":"m","x":NaN,"stream":1}', M),
    ],
)
def test_reads_what_only_pythons_json_reads(body: bytes, expected: Routing) -> None:
    assert find_model(body) == expected
    assert find_model(memoryview(body)) == expected


@pytest.mark.parametrize(
    ("body", "code", "word"),
    [
        (b"", "invalid_body", "empty"),
        (b"   ", "invalid_body", "line 1"),
        (b"model=m", "invalid_body", "line 1 column 1"),
        (b'{"model":"m"', "invalid_body", "column"),
        (b'{"model":"m"} x', "invalid_body", "Extra data"),
        (b'{"model":"m","x":\x01}', "invalid_body", "column"),
        (b'{"model":"m","x":"\xff"}', "invalid_body", "utf-8"),
        (b'{"model":"m\xff"}', "invalid_body", "utf-8"),
        (b'{"model":"m","x":"\xe6\xa8"}', "invalid_body", "utf-8"),
        (b'[{"model":"m"}]', "invalid_body", "not an object"),
        (b'"model"', "invalid_body", "not an object"),
        (b"[NaN]", "invalid_body", "not an object"),
        (b"\xef\xbb\xbf[]", "invalid_body", "not an object"),
        (DEEP, "invalid_body", "nested"),
        (b"\xef\xbb\xbf" + DEEP, "invalid_body", "nested"),
        (b"{}", "missing_model", "`model`"),
        (b'{"x":{"model":"m"}}', "missing_model", "`model`"),
        (b'{"x":NaN}', "missing_model", "`model`"),
        (b'{"model":null}', "invalid_model", "string"),
        (b'{"model":3}', "invalid_model", "string"),
        (b'{"model":["m"]}', "invalid_model", "string"),
        (b'{"model":"m","model":{}}', "invalid_model", "string"),
        (b'{"model":""}', "invalid_model", "non-empty"),
        (b'{"model":"","x":NaN}', "invalid_model", "non-empty"),
        (b'{"model":1,"x":NaN}', "invalid_model", "string"),
    ],
)
def test_says_what_is_wrong(body: bytes, code: str, word: str) -> None:
    bad = find_model(body)
    assert isinstance(bad, BadBody)
    assert bad.code == code
    assert word in bad.message


def test_the_model_may_be_the_last_key_of_a_large_body() -> None:
    body = b'{"x":"' + b"y" * (12 * 1024 * 1024) + b'","model":"m"}'
    assert find_model(memoryview(body)) == M


def test_the_slow_parser_is_bounded() -> None:
    body = b'{"x":NaN,"y":"' + b"y" * FALLBACK_LIMIT + b'","model":"m"}'
    bad = find_model(body)
    assert isinstance(bad, BadBody)
    assert "8 MiB" in bad.message


@pytest.mark.parametrize("size", [STEP - 2, STEP - 1, STEP, STEP + 1, 2 * STEP])
def test_utf8_is_judged_over_the_steps(size: int) -> None:
    whole = b'{"model":"m","x":"' + b"y" * size + "模".encode() * 3 + b'"}'
    assert find_model(whole) == M
    assert isinstance(find_model(whole[:-3] + b'"}'), BadBody)
    # a character that ends too early at a step's border is found by the next step
    assert isinstance(find_model(b'{"model":"m","x":"' + b"y" * (size - 18) + b'\xe6\xa8"}'), BadBody)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters(codec=None)),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=8,
)
members = st.lists(st.tuples(st.sampled_from(["model", "stream", "x", "mödel"]), json_values), max_size=5)


@st.composite
def bodies(draw: st.DrawFn) -> bytes:
    """Objects with repeated keys, whole or cut and mangled."""
    pairs = ",".join(f"{json.dumps(key)}:{json.dumps(value)}" for key, value in draw(members))
    body = ("{" + pairs + "}").encode("utf-8", "surrogatepass")
    if draw(st.booleans()):
        at = draw(st.integers(0, len(body)))
        body = body[:at] + draw(st.binary(max_size=3)) + body[at + draw(st.integers(0, 3)) :]
    return body


def as_json_reads(body: bytes) -> Any:
    try:
        document = json.loads(body)
        return document["model"]
    except (ValueError, TypeError, KeyError):
        return None


@given(bodies() | st.binary(max_size=40))
@example(b'{"model":"a"}')
@example(b'{"model":"\\ud800\\u0041"}')
@example(b'{"model":"\\ud800","x":"\xed\xb0\x80"}')
def test_agrees_with_pythons_json(body: bytes) -> None:
    model = as_json_reads(body)
    found = find_model(body)
    if isinstance(model, str) and model:
        assert isinstance(found, Routing)
        assert found.model == model
    else:
        assert isinstance(found, BadBody)


def test_keeps_every_field_of_a_listed_model() -> None:
    row = b'{"id":"org/tiny:latest","created":1.50,"owned_by":"vllm","n":1e400,"deep":{"a":[1, 2]},"\xc3\xa4":null}'
    assert read_models(b'{"object":"list","data":[' + row + b"]}", "glm") == (
        ModelEntry("org/tiny:latest", row.replace(b'"vllm"', b'"glm"')),
    )


def test_adds_the_owner_where_there_is_none() -> None:
    (entry,) = read_models(b'{"data":[{"id":"m"}]}', 'g"x')
    assert json.loads(entry.json) == {"id": "m", "owned_by": 'g"x'}


def test_skips_rows_without_an_id_and_second_ones() -> None:
    rows = [
        1,
        "m",
        None,
        [],
        {},
        {"id": None},
        {"id": 3},
        {"id": ""},
        {"id": "a", "n": 1},
        {"id": "b"},
        {"id": "a"},
    ]
    entries = read_models(json.dumps({"data": rows}).encode(), "glm")
    assert [entry.id for entry in entries] == ["a", "b"]
    assert json.loads(entries[0].json)["n"] == 1


@pytest.mark.parametrize("rows", ["[]", "[{}]", '[{"id":""}, 7]'])
def test_a_list_that_leaves_nothing_serves_the_groups_name(rows: str) -> None:
    (entry,) = read_models(f'{{"data":{rows}}}'.encode(), "glm")
    assert entry.id == "glm"
    assert json.loads(entry.json) == {"id": "glm", "object": "model", "owned_by": "glm"}


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"ok",
        b"[]",
        b"{}",
        b'{"data":null}',
        b'{"data":{"id":"m"}}',
        b'{"data":[{"id":"m"}]',
        b'{"data":[{"id":"m","x":"\xff"}]}',
        b'{"data":[{"id":"m","x":' + b"[" * 10_000 + b"]" * 10_000 + b"}]}",
    ],
)
def test_what_is_no_list_is_an_error_with_a_reason(body: bytes) -> None:
    with pytest.raises(ValueError, match=r"not a JSON object with a list `data`: ."):
        read_models(body, "glm")


@given(st.binary(max_size=60) | bodies())
def test_any_list_is_read_or_refused(body: bytes) -> None:
    for text in (body, b'{"data":[' + body + b"]}"):
        try:
            entries = read_models(text, "glm")
        except ValueError:
            continue
        assert entries
        assert json.loads(render_listing(entries))["data"][0]["owned_by"] == "glm"


def test_renders_the_listing() -> None:
    assert render_listing([]) == b'{"object":"list","data":[]}'
    entries = [ModelEntry("a", b'{"id":"a"}'), ModelEntry("b", b'{"id":"b"}')]
    assert render_listing(entries) == b'{"object":"list","data":[{"id":"a"},{"id":"b"}]}'


def test_renders_a_refusal_in_openais_envelope() -> None:
    refusal = Refusal(404, "invalid_request_error", "model_not_found", "nö", "model", (("available", ["a"]),))
    assert render_refusal(refusal).decode() == (
        '{"error":{"message":"nö","type":"invalid_request_error","param":"model","code":"model_not_found"},'
        '"available":["a"]}'
    )


@given(st.text(st.characters(codec=None)))
def test_any_message_is_rendered_as_utf8_json(message: str) -> None:
    body = render_refusal(Refusal(400, "invalid_request_error", "invalid_body", message)).decode()
    assert json.loads(body)["error"]["message"] == json.loads(json.dumps(message))


def test_a_shown_name_is_cut() -> None:
    assert shown("m") == "m"
    assert shown("m" * 200) == "m" * 200
    assert shown("m" * 201) == "m" * 200 + "…"
