"""Base URLs taken apart, and paths joined to them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mentatd.cluster.targets import Target, parse_target
from mentatd.origin import Origin


@pytest.mark.parametrize(
    ("url", "target"),
    [
        (
            "http://10.0.0.2:8000/v1",
            Target("http://10.0.0.2:8000/v1", Origin("10.0.0.2", 8000, False), b"10.0.0.2:8000", b"", None),
        ),
        (
            "https://Engine.Example/llm/v1/",
            Target(
                "https://Engine.Example/llm/v1/",
                Origin("engine.example", 443, True),
                b"engine.example",
                b"/llm",
                None,
            ),
        ),
        (
            "HTTP://[FD00::2]:80/v1",
            Target("HTTP://[FD00::2]:80/v1", Origin("fd00::2", 80, False), b"[fd00::2]", b"", None),
        ),
        (
            "http://[fe80::2%eth0]:8000/v1",
            Target(
                "http://[fe80::2%eth0]:8000/v1",
                Origin("fe80::2%eth0", 8000, False),
                b"[fe80::2]:8000",
                b"",
                None,
            ),
        ),
        ("http://h:443/api", Target("http://h:443/api", Origin("h", 443, False), b"h:443", b"", b"/api")),
        ("http://h:/", Target("http://h:/", Origin("h", 80, False), b"h", b"", b"")),
        ("http://h", Target("http://h", Origin("h", 80, False), b"h", b"", b"")),
        ("http://h/xv1", Target("http://h/xv1", Origin("h", 80, False), b"h", b"", b"/xv1")),
    ],
)
def test_taken_apart(url: str, target: Target) -> None:
    assert parse_target(url) == target


@pytest.mark.parametrize(
    "url",
    [
        "",
        "10.0.0.1:8000/v1",
        "ftp://h/v1",
        "http://",
        "http:///v1",
        "http://user@h/v1",
        "http://h:0/v1",
        "http://h:65536/v1",
        "http://h:eighty/v1",
        "http://[::1/v1",
        "http://[1::2::3]/v1",
        "http://fd00::1/v1",
        "http://h/v1?key=1",
        "http://h/v1#top",
        "http://h?key=1",
        "http://h/v 1",
        "http://h/v1\r\nX: y",
        "http://h/v1\n",
        "http://h/é",
        "http://höst/v1",
        " http://h/v1",
    ],
)
def test_what_is_no_base_url(url: str) -> None:
    with pytest.raises(ValueError, match=r"no http|no valid"):
        parse_target(url)


@pytest.mark.parametrize(
    ("base", "target", "sent"),
    [
        ("http://h/v1", b"/v1/chat/completions", b"/v1/chat/completions"),
        ("http://h/v1", b"/tokenize?x=/v1/y", b"/tokenize?x=/v1/y"),
        ("http://h/v1", b"/v1", b"/v1"),
        ("http://h/v1", b"/", b"/"),
        ("http://h/llm/v1", b"/v1/chat/completions?a=b", b"/llm/v1/chat/completions?a=b"),
        ("http://h/llm/v1", b"/tokenize", b"/llm/tokenize"),
        ("http://h/api", b"/v1/chat/completions", b"/api/chat/completions"),
        ("http://h/api", b"/tokenize", b"/api/tokenize"),
        ("http://h/api", b"/v1", b"/api"),
        ("http://h/api", b"/v1?a=b", b"/api?a=b"),
        ("http://h/api", b"/v1/", b"/api/"),
        ("http://h/api", b"/v10/x", b"/api/v10/x"),
        ("http://h", b"/v1/chat/completions", b"/chat/completions"),
        ("http://h", b"/tokenize", b"/tokenize"),
        ("http://h", b"/v1", b"/"),
        ("http://h", b"/v1?a=b", b"/?a=b"),
    ],
)
def test_joined(base: str, target: bytes, sent: bytes) -> None:
    assert parse_target(base).join(target) == sent


@given(st.text())
def test_any_text_is_a_target_or_a_value_error(text: str) -> None:
    for url in (text, f"http://{text}", f"http://h:8000/{text}"):
        try:
            target = parse_target(url)
        except ValueError:
            continue
        assert target.join(b"/x").startswith(b"/")
        assert not set(target.authority + target.join(b"/x")) & set(b" \r\n\t\0")
