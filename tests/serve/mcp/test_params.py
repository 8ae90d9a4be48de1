"""The parameters of a call."""

from __future__ import annotations

import pytest

from mentatd.serve.mcp.params import REST_LIMIT, BadParams, read_params


def test_all_members_stay_as_they_came() -> None:
    params = read_params(
        b'{"name":"glm__a", "arguments": {"a" :1.50,"b":1e400} ,"_meta":{"progressToken":0},"x":[ ]}'
    )
    assert params.text("name") == "glm__a"
    assert params.replaced("name", "a") == (
        b'{"name":"a","arguments":{"a" :1.50,"b":1e400},"_meta":{"progressToken":0},"x":[ ]}'
    )
    params.check_object("arguments")
    params.check_object("not there")


@pytest.mark.parametrize(
    "params", [b"{}", b'{"name":""}', b'{"name":5}', b'{"name":null}', b'{"name":["a"]}']
)
def test_a_name_is_needed(params: bytes) -> None:
    with pytest.raises(BadParams, match="`name` must be a non-empty string"):
        read_params(params).text("name")


@pytest.mark.parametrize("arguments", [b"[]", b"null", b"5", b'"a"', b"true"])
def test_arguments_are_an_object(arguments: bytes) -> None:
    with pytest.raises(BadParams, match="`arguments` must be an object"):
        read_params(b'{"arguments":%b}' % arguments).check_object("arguments")


@pytest.mark.parametrize("text", [b"[]", b"{", b'{"a":' + b"[" * 100_000 + b"]" * 100_000 + b"}"])
def test_unreadable(text: bytes) -> None:
    with pytest.raises(BadParams, match="cannot be read"):
        read_params(text)


@pytest.mark.parametrize("member", [b"arguments", b"_meta"])
def test_only_what_may_be_large_may_be(member: bytes) -> None:
    large = b'"%b"' % (b"x" * REST_LIMIT)
    assert read_params(b'{"%b":%b}' % (member, large)).members.keys() == {member.decode()}
    with pytest.raises(BadParams, match=f"over {REST_LIMIT} bytes"):
        read_params(b'{"other":%b}' % large)
