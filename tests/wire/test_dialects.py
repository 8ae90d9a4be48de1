"""The tables of what engines publish."""

from __future__ import annotations

from dataclasses import fields

import pytest

from mentatd.wire.dialects import DIALECTS, LLAMACPP, SGLANG, VLLM, Dialect, Mean
from mentatd.wire.enginemetrics import Figures


@pytest.mark.parametrize(
    ("dialect", "prefix"), [(VLLM, "vllm:"), (SGLANG, "sglang:"), (LLAMACPP, "llamacpp:")]
)
def test_a_dialect_has_names_of_its_own(dialect: Dialect, prefix: str) -> None:
    assert dialect in DIALECTS
    assert dialect.names()
    assert all(name.startswith(prefix) for name in dialect.names())


@pytest.mark.parametrize("dialect", DIALECTS)
def test_each_column_is_a_figure(dialect: Dialect) -> None:
    assert {*dialect.counts, *dialect.means} <= {field.name for field in fields(Figures)}


def test_every_spelling_is_wanted() -> None:
    dialect = Dialect({"running": ("a", "b")}, ("c",), {"ttft_s": (Mean("d", "e"),)}, finished="f")
    assert dialect.names() == {"a", "b", "c", "d", "e", "f"}
    assert Dialect({}, (), {}).names() == set()
