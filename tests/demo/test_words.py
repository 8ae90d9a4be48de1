"""What the engines say, and how they count it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mentatd.demo.words import reply, token_id, tokenize


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("", ()),
        ("hello", ("hello",)),
        ("hello big world", ("hello", " big", " world")),
        (" a\n\nb ", (" a", "\n\nb", " ")),
        ("\n", ("\n",)),
    ],
)
def test_a_token_is_a_word_with_the_space_before_it(text: str, tokens: tuple[str, ...]) -> None:
    assert tokenize(text) == tokens


@given(st.text())
def test_tokens_are_the_whole_text(text: str) -> None:
    tokens = tokenize(text)
    assert "".join(tokens) == text
    assert all(0 <= token_id(token) <= 0xFFFF for token in tokens)


def test_an_id_stays_the_same() -> None:
    assert token_id(" router") == token_id(" router") != token_id("router")


@pytest.mark.parametrize(
    ("model", "said", "start"),
    [
        ("parrot", "hello there ", "You said: hello there"),
        ("parrot", "  ", "You said: nothing at all"),
        ("another", "x", "You said: x"),
        ("poet", "x", "Three engines hum"),
        ("flicker", "x", "You caught me"),
    ],
)
def test_each_model_has_its_own_words(model: str, said: str, start: str) -> None:
    assert "".join(reply(model, said)).startswith(start)
