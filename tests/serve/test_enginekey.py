"""To whom the router's own questions show the engines' key."""

from __future__ import annotations

import pytest

from mentatd.serve.enginekey import GROUPS_SAID, EngineKey

URL, OTHER = "http://10.0.0.1:8000/v1", "http://10.0.0.2:8000/v1"
BEARER = {"authorization": "Bearer sk-1"}


@pytest.mark.parametrize(
    ("key", "trusted", "fields", "hint"),
    [
        (None, {URL}, {}, "set ENGINE_API_KEY"),
        (None, set(), {}, "set ENGINE_API_KEY"),
        (b"sk-1", {OTHER, URL}, BEARER, "does not take ENGINE_API_KEY"),
        (b"sk-1", {OTHER}, {}, "withheld: its address was learned from an unsigned announcement"),
    ],
)
def test_who_gets_it(
    key: bytes | None,
    trusted: set[str],
    fields: dict[str, str],
    hint: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    engines = EngineKey(key)
    for _ in range(3):
        assert engines.fields("glm", URL, trusted) == fields
    assert hint in engines.hint(URL, trusted)
    said = capsys.readouterr().err
    assert said.count("event=engine_key_withheld group=glm") == (key is not None and not fields)
    assert "sk-1" not in said


def test_no_flood_of_groups_fills_the_log(capsys: pytest.CaptureFixture[str]) -> None:
    engines = EngineKey(b"k")
    for number in range(GROUPS_SAID + 10):
        engines.fields(f"g{number}", URL, ())
    assert capsys.readouterr().err.count("\n") == GROUPS_SAID
