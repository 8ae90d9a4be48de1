"""Public names: tables of literal forms, and that any two pairs have two names."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mentatd.serve.mcp.names import LIMIT, is_coded, may_name, public_name, public_uri, split_name, split_uri

# Few letters and many separators, so that plain forms meet often.
parts = st.text(alphabet="ab_-.é", min_size=1, max_size=8) | st.text(min_size=1, max_size=90).filter(
    lambda text: text.isprintable()
)


@pytest.mark.parametrize(
    ("group", "name", "public"),
    [
        ("glm", "status", "glm__status"),
        ("glm-4.5_air", "gpu.temp", "glm-4.5_air__gpu.temp"),
        ("a", "b__c", "a__b__c"),
        ("a", "_b", "a___b"),
        ("a", "__b", "a____b"),
        ("a" * 31, "b" * 31, "a" * 31 + "__" + "b" * 31),
    ],
)
def test_plain_forms(group: str, name: str, public: str) -> None:
    assert public_name(group, name) == public
    assert split_name(public) == (group, name)
    assert not is_coded(public)


@pytest.mark.parametrize(
    ("group", "name", "shown"),
    [
        ("a__b", "c", "a__b__c"),
        ("a_", "b", "a___b"),
        ("_", "_", "____"),
        ("glm", "gpu temp", "glm__gpu_temp"),
        ("modèle", "température", "mod_le__temp_rature"),
        ("org/glm", "x", "org_glm__x"),
        ("glm", "x-0123456789ab", "glm__x-0123456789ab"),
        ("a" * 32, "b" * 31, "a" * 18 + "__" + "b" * 31),
        ("a" * 60, "status", "a" * 43 + "__status"),
        ("glm", "b" * 90, "glm__" + "b" * 33),
        ("a" * 60, "b" * 60, "a" * 16 + "__" + "b" * 33),
    ],
)
def test_coded_forms_show_both_names(group: str, name: str, shown: str) -> None:
    public = public_name(group, name)
    assert re.fullmatch(re.escape(shown) + "-[0-9a-f]{12}", public)
    assert is_coded(public)
    assert may_name(public, group)


def test_a_coded_form_stays_the_same() -> None:
    assert public_name("a__b", "c") == "a__b__c-9b9a0fe6c946"


@pytest.mark.parametrize("public", ["", "status", "glm_status", "__status", "glm__"])
def test_no_plain_forms(public: str) -> None:
    assert split_name(public) is None


def test_a_coded_form_names_few_groups() -> None:
    public = public_name("llama", "gpu temp")
    assert may_name(public, "lla")
    assert not may_name(public, "llama-70b")
    assert not may_name(public, "glm")


@given(parts, parts)
def test_every_name_is_one_that_clients_take(group: str, name: str) -> None:
    public = public_name(group, name)
    assert re.fullmatch(r"[A-Za-z0-9_.-]{1,64}", public)
    assert len(public) <= LIMIT
    assert may_name(public, group)
    assert is_coded(public) or split_name(public) == (group, name)


@given(st.lists(st.tuples(parts, parts), max_size=30))
def test_two_pairs_have_two_names(pairs: list[tuple[str, str]]) -> None:
    pairs += [(group + "__" + name, group) for group, name in pairs] + [
        (group, name + "__x") for group, name in pairs
    ]
    assert len({public_name(*pair) for pair in pairs}) == len(set(pairs))


@pytest.mark.parametrize(
    ("group", "uri", "public"),
    [
        ("glm", "file:///var/log/a b", "mentat://glm/file%3A%2F%2F%2Fvar%2Flog%2Fa%20b"),
        ("org/glm 4", "x:é?#%2F", "mentat://org%2Fglm%204/x%3A%C3%A9%3F%23%252F"),
        ("glm", "mentat://glm/x", "mentat://glm/mentat%3A%2F%2Fglm%2Fx"),
    ],
)
def test_uris(group: str, uri: str, public: str) -> None:
    assert public_uri(group, uri) == public
    assert split_uri(public) == (group, uri)


@pytest.mark.parametrize(
    "uri", ["", "file:///x", "mentat://", "mentat://glm", "mentat://glm/", "mentat:///x"]
)
def test_uris_of_others(uri: str) -> None:
    assert split_uri(uri) is None


@given(parts, parts)
def test_uris_go_both_ways(group: str, uri: str) -> None:
    public = public_uri(group, uri)
    assert re.fullmatch(r"mentat://[!-.0-~]+/[!-.0-~]+", public)
    assert split_uri(public) == (group, uri)
