"""The status page's files: what they are served with, and what they hold themselves to."""

from __future__ import annotations

import re
from typing import Any

import pytest

from mentatd.http.request import Head, Request
from mentatd.serve.pagefiles import FILES, INDEX, PAGE, PARTS, PageFile, made, names

SIZE_LIMIT = 120_000


class Taken:
    """A connection that keeps its answer."""

    def answer(
        self, status: int, body: bytes, content_type: bytes, fields: tuple[tuple[bytes, bytes], ...]
    ) -> None:
        self.status, self.body, self.content_type, self.fields = status, body, content_type, dict(fields)


def ask(file: PageFile, head: bytes = b"") -> Taken:
    taken: Any = Taken()
    file.answer(Request(Head("GET", b"/", head)), taken)
    return taken  # type: ignore[no-any-return]


@pytest.mark.parametrize("name", sorted(FILES))
def test_each_file_has_its_type_its_tag_and_the_policy(name: str) -> None:
    found = ask(FILES[name])
    assert found.status == 200
    assert found.body
    assert found.content_type.split(b";")[0] in (
        b"text/html",
        b"text/css",
        b"text/javascript",
        b"image/svg+xml",
    )
    assert re.fullmatch(rb'"[0-9a-f]{20}"', found.fields[b"ETag"])
    assert found.fields[b"Cache-Control"] == b"no-cache"
    assert found.fields[b"X-Content-Type-Options"] == b"nosniff"
    policy = found.fields[b"Content-Security-Policy"]
    assert policy.startswith(b"default-src 'none'; script-src 'self'; ")
    assert b"unsafe" not in policy
    assert found.fields.get(b"Vary") == (b"Accept" if name == INDEX else None)


def test_who_has_the_file_is_told_so_and_given_nothing() -> None:
    first = ask(PAGE)
    again = ask(PAGE, b"If-None-Match: %b\r\n" % first.fields[b"ETag"])
    assert (again.status, again.body) == (304, b"")
    assert again.fields == first.fields
    assert ask(PAGE, b'If-None-Match: "older"\r\n').status == 200


@pytest.mark.parametrize(
    ("values", "same"),
    [
        ([], False),
        ([b'"a"'], True),
        ([b'"b"'], False),
        ([b'W/"a"'], True),
        ([b'"b", "a"'], True),
        ([b'"b"', b'"a"'], True),
        ([b"*"], True),
        ([b"a"], False),
        ([b'"a'], False),
        ([b""], False),
        ([b',,"a",'], True),
    ],
)
def test_an_entity_tag_is_found_in_a_list(values: list[bytes], same: bool) -> None:
    assert names(values, b'"a"') is same


def test_a_tag_follows_the_bytes() -> None:
    assert made("a.js", b"1").etag != made("a.js", b"2").etag
    assert made("a.js", b"1").etag == made("b.css", b"1").etag


def test_all_of_it_is_small() -> None:
    assert sum(len(file.body) for file in FILES.values()) < SIZE_LIMIT


def text() -> dict[str, str]:
    return {name: file.body.decode() for name, file in FILES.items()}


def test_whatever_a_file_loads_is_there_and_nothing_is_elsewhere() -> None:
    for name, content in text().items():
        loads = re.findall(r'(?:href|src)="(/page/[^"]*)"', content) + re.findall(
            r'src: "(/page/[^"]*)"', content
        )
        loads += [f"/page/{found}" for found in re.findall(r'from "\./([^"]+)"', content)]
        assert [path for path in loads if path not in PARTS] == [], name
        urls = re.findall(
            r"""["'(](?:https?:)?//[^"')]+""", content.replace("http://www.w3.org/2000/svg", "")
        )
        assert urls == [], name


def test_nothing_in_the_page_makes_markup_or_code_of_a_string() -> None:
    ways = r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|eval\(|new Function|srcdoc|DOMParser"
    assert [name for name, content in text().items() if re.search(ways, content)] == []


def test_nothing_is_written_into_the_page_itself() -> None:
    page = PAGE.body.decode()
    assert "<style" not in page
    assert " style=" not in page
    assert re.findall(r"<script(?![^>]* src=)", page) == []
    assert re.findall(r"\son\w+=", page) == []
