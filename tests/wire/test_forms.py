"""Routing by the `model` of a form."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mentatd.wire import forms
from mentatd.wire.forms import find_form_model, find_route, is_form
from mentatd.wire.openai import FALLBACK_LIMIT, BadBody, Routing

TYPE = b"multipart/form-data; boundary=xyz"
URLENCODED = b"application/x-www-form-urlencoded"
M = Routing("m", stream=False, form=True)

DECOY = b'--xy\r\nContent-Disposition: form-data; name="model"\r\n\r\nevil\r\n--xyzz\r\n--xy'


def part(name: str, value: bytes, more: str = "", head: str = "") -> bytes:
    disposition = f'Content-Disposition: form-data; name="{name}"{more}\r\n{head}\r\n'
    return b"--xyz\r\n" + disposition.encode() + value + b"\r\n"


def file(value: bytes = DECOY, name: str = "file") -> bytes:
    return part(name, value, '; filename="a.wav"', "Content-Type: audio/wav\r\n")


MODEL = part("model", b"m")
END = b"--xyz--\r\n"


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (MODEL + END, M),
        (MODEL + file() + END, M),
        (file() + MODEL + END, M),
        (file() + MODEL + file() + END, M),
        (b"a preamble\r\n" + MODEL + END, M),
        (b"\r\n" + MODEL + END, M),
        (MODEL + END + part("model", b"epilogue"), M),
        (part("model", b"a") + MODEL + END, M),
        (MODEL + file(b"evil", name="model") + END, M),
        (file(b"evil", name="model") + MODEL + END, M),
        (part("model", b"evil", "; filename*=UTF-8''x") + MODEL + END, M),
        (MODEL + part("x", b"1") + END, M),
        (MODEL + part("stream", b"true") + END, Routing("m", stream=True, form=True)),
        (part("stream", b"True") + MODEL + END, Routing("m", stream=True, form=True)),
        (MODEL + part("stream", b"1") + END, M),
        (MODEL + part("stream", b"") + END, M),
        (part("model", "größe\r\n".encode()) + END, Routing("größe\r\n", stream=False, form=True)),
        (part("model", b"m", head="Content-Type: text/plain; charset=utf-8\r\n") + END, M),
        (b"--xyz \t\r\n" + MODEL[7:] + END, M),
        (b"--xyz\r\nX: y\r\ncontent-disposition:form-data;name=model\r\n\r\nm\r\n--xyz--", M),
        (b'--xyz\r\nContent-Disposition: form-data ; name = "mod\\el"\r\n\r\nm\r\n' + END, M),
        # a part without a field in its head, whose content looks like a head
        (b'--xyz\r\n\r\nContent-Disposition: form-data; name="model"\r\n\r\nevil\r\n' + MODEL + END, M),
        # the last of two Content-Disposition fields counts
        (
            b'--xyz\r\nContent-Disposition: form-data; name="model"\r\n'
            b'Content-Disposition: form-data; name="x"\r\n\r\nevil\r\n' + MODEL + END,
            M,
        ),
        # cut short behind the model
        (MODEL + b"--xyz\r\nContent-Disposition: form-data; name=x\r\n\r\nab", M),
    ],
)
def test_finds_the_text_field_wherever_it_stands(body: bytes, expected: Routing) -> None:
    assert find_form_model(body, TYPE) == expected
    assert find_form_model(memoryview(body), TYPE) == expected


@pytest.mark.parametrize(
    ("content_type", "boundary"),
    [
        (b"multipart/form-data; boundary=xyz", b"xyz"),
        (b'Multipart/Form-Data;charset=utf-8; Boundary="xyz"', b"xyz"),
        (b'multipart/form-data; a="; boundary=no"; boundary=xyz', b"xyz"),
        (b'multipart/form-data; boundary="a \\"b\\" c"', b'a "b" c'),
        (b"multipart/form-data; boundary=----WebKitFormBoundary+.*[", b"----WebKitFormBoundary+.*["),
    ],
)
def test_reads_the_boundary(content_type: bytes, boundary: bytes) -> None:
    assert find_form_model((MODEL + END).replace(b"xyz", boundary), content_type) == M


@pytest.mark.parametrize(
    ("body", "code", "word"),
    [
        (b"", "missing_model", "no text field"),
        (b"--xyz", "missing_model", "no text field"),
        (END, "missing_model", "no text field"),
        (file() + END, "missing_model", "no text field"),
        (part("models", b"m") + END, "missing_model", "no text field"),
        (part("model", b"m")[:-3], "missing_model", "no text field"),
        (MODEL.replace(b"\r\n", b"\n") + END, "missing_model", "no text field"),
        (part("model", b"") + END, "invalid_model", "empty"),
        (part("model", b"\xff") + END, "invalid_model", "UTF-8"),
        (part("model", b"m" * 65537) + END, "invalid_model", "64 KiB"),
        (b"--xyz\r\nX: " + b"y" * 16384 + b"\r\n\r\nm\r\n" + END, "invalid_body", "16 KiB"),
        (part("x", b"") * 2000 + MODEL + END, "invalid_body", "2000 parts"),
    ],
)
def test_says_what_is_wrong_with_a_multipart_form(body: bytes, code: str, word: str) -> None:
    bad = find_form_model(body, TYPE)
    assert isinstance(bad, BadBody)
    assert bad.code == code
    assert word in bad.message


@pytest.mark.parametrize("content_type", [b"multipart/form-data", b"multipart/form-data; boundary="])
def test_a_multipart_form_needs_a_boundary(content_type: bytes) -> None:
    bad = find_form_model(MODEL + END, content_type)
    assert isinstance(bad, BadBody)
    assert "boundary" in bad.message


@pytest.mark.parametrize(
    ("body", "model"),
    [
        (b"model=m", "m"),
        (b"a=1&model=m&b=2", "m"),
        (b"model=a&model=m", "m"),
        (b"%6dod%65l=m", "m"),
        (b"model=gr%C3%B6%C3%9Fe+x%2Fy", "größe x/y"),
        (b"xmodel=a&model=m&model2=b", "m"),
        (b"x=model%3Da&model=m", "m"),
    ],
)
def test_finds_the_model_of_a_url_encoded_form(body: bytes, model: str) -> None:
    for kept in (body, memoryview(bytearray(body))):
        assert find_form_model(kept, URLENCODED) == Routing(model, stream=False, form=True)


@pytest.mark.parametrize(
    ("body", "code"),
    [
        (b"", "missing_model"),
        (b"a=model", "missing_model"),
        (b"model", "missing_model"),
        (b"model=", "invalid_model"),
        (b"model=%ff", "invalid_model"),
        (b"model=m&x=" + b"y" * FALLBACK_LIMIT, "invalid_body"),
    ],
)
def test_says_what_is_wrong_with_a_url_encoded_form(body: bytes, code: str) -> None:
    bad = find_form_model(body, URLENCODED)
    assert isinstance(bad, BadBody)
    assert bad.code == code


@pytest.mark.parametrize(
    ("content_type", "form"),
    [
        (TYPE, True),
        (b"application/x-www-form-urlencoded; charset=UTF-8", True),
        (b" APPLICATION/X-WWW-FORM-URLENCODED ", True),
        (b"application/json", False),
        (b"multipart/mixed; boundary=xyz", False),
        (b"", False),
    ],
)
def test_knows_a_form_by_its_type(content_type: bytes, form: bool) -> None:
    assert is_form(content_type) is form


@pytest.mark.parametrize(
    ("content_type", "form"),
    [(TYPE, True), (URLENCODED, False), (b"text/plain", False), (b"application/json", False), (b"", False)],
)
@pytest.mark.parametrize("before", [b"", b" \r\n\t", b"\xef\xbb\xbf", b"\xef\xbb\xbf "])
def test_a_json_body_is_json_whatever_its_type_says(content_type: bytes, form: bool, before: bytes) -> None:
    body = before + b'{"model":"j","x":"&model=m"}'
    assert find_route(body, content_type) == Routing("j", stream=False, form=form)


@pytest.mark.parametrize(
    "body",
    [
        b'{"model":"j","x":"\r\n%b"}',
        b'{"model":"j","x":{"y":["\r\n%b"]}}',
        b'{"model":"j","\r\n%b":1}',
        b'{"model":"j","x":\r\n%b}',
        b'{"x":-\r\n%b,"model":"j"}',
        b'{"model":"j"}\r\n%b',
    ],
)
def test_no_json_holds_a_part_in_which_an_engine_could_read_another_model(body: bytes) -> None:
    unquoted = MODEL.replace(b'"', b"")
    assert find_route(body % (unquoted + END), TYPE) == M


@pytest.mark.parametrize("preamble", [b"{", b'{"model":1}', b" [1]", b'{"model":""}'])
def test_what_is_in_front_of_a_form_may_look_like_json(preamble: bytes) -> None:
    assert find_route(preamble + b"\r\n" + MODEL + END, TYPE) == M
    assert isinstance(find_route(preamble, TYPE), BadBody)
    assert isinstance(find_route(b"{" + b"&model=m", URLENCODED), BadBody)


@pytest.mark.parametrize("size", range(150))
def test_a_delimiter_is_found_wherever_the_steps_cut_it(size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(forms, "_STEP", 50)
    spaced = b"--xyz" + b" " * 64 + b"\r\n" + MODEL[7:]
    for form in (file(bytes(size) + DECOY) + spaced + END, bytes(size) + b"\r\n" + MODEL + END):
        assert find_form_model(form, TYPE) == M


class Counted(bytes):
    """A body that knows how much of it was copied."""

    copied = 0

    def __getitem__(self, key: Any) -> Any:
        part = super().__getitem__(key)
        self.copied += len(part)
        return part


@pytest.mark.parametrize(("parts", "size"), [(1990, 0), (1990, 460), (250, 4000), (3, 1_000_000)])
def test_the_work_for_a_part_is_that_of_its_size(parts: int, size: int) -> None:
    body = Counted(file(bytes(size)) * (parts - 1) + MODEL + END)
    assert find_form_model(body, TYPE) == M
    assert body.copied <= 2 * len(body) + parts * 1500


@pytest.mark.parametrize("length", [16384 - 7, 16384 - 6])
def test_a_head_is_looked_for_within_its_bound(length: int) -> None:
    # with the line break of the delimiter in front, and the empty line behind
    body = MODEL + b"--xyz\r\nX: " + b"y" * length + b"\r\n\r\n\r\n" + END
    assert (find_form_model(body, TYPE) == M) is (length == 16384 - 7)


def test_any_other_body_is_what_its_type_says() -> None:
    assert find_route(MODEL + END, TYPE) == M
    assert find_route(b"model=m", URLENCODED) == M
    for content_type in (b"", b"application/json"):
        assert isinstance(find_route(b"model=m", content_type), BadBody)
        assert isinstance(find_route(MODEL + END, content_type), BadBody)


values = st.binary(max_size=20).filter(lambda value: b"--xyz" not in value)


@given(st.lists(st.tuples(st.sampled_from(["model", "x", "stream"]), st.booleans(), values), max_size=6))
def test_the_last_text_field_is_found_among_any_parts(parts: list[tuple[str, bool, bytes]]) -> None:
    body = (
        b"".join(file(value, name) if is_file else part(name, value) for name, is_file, value in parts) + END
    )
    models = [value for name, is_file, value in parts if name == "model" and not is_file]
    found = find_form_model(body, TYPE)
    if isinstance(found, Routing):
        assert found.model.encode() == models[-1]
    else:
        assert not models or not models[-1] or found.code == "invalid_model"


@given(
    st.lists(
        st.sampled_from([MODEL, file(), END, b"--xyz", b"\r\n", b"--", b"\xff"]) | st.binary(max_size=9)
    ),
    st.data(),
)
def test_any_bytes_end_in_a_value(pieces: list[bytes], data: st.DataObject) -> None:
    body = b"".join(pieces)
    body = body[data.draw(st.integers(0, len(body))) :]
    for content_type in (TYPE, URLENCODED, data.draw(st.binary(max_size=40))):
        assert isinstance(find_route(body, content_type), Routing | BadBody)
