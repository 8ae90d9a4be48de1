"""Public names of what groups offer over MCP, and the way back.  Pure.

The plain form is `<group>__<name>`. It is taken only where splitting it at its first `__` gives the same pair
back, so that group `a` with tool `b__c` and group `a__b` with tool `c` never meet, and where MCP clients accept
it: at most 64 characters of `[A-Za-z0-9_.-]`. Any other pair is given a coded form: what can be shown of the
plain form, a hyphen, and twelve hexadecimal digits of the pair's SHA-256. A plain form that looks like a coded
one is coded too, so the two never collide. Both depend on the pair alone: names stay while groups come and go.
"""

from __future__ import annotations

import re
from hashlib import sha256
from urllib.parse import quote, unquote

LIMIT = 64
"""Characters: what the strictest of the usual MCP clients take."""

_SEPARATOR = "__"
_ALLOWED = re.compile(r"[A-Za-z0-9_.-]+")
_FOREIGN = re.compile(r"[^A-Za-z0-9_.-]")
_DIGITS = 12
_CODED = re.compile(r".*-[0-9a-f]{12}", re.DOTALL)
_ROOM = LIMIT - 1 - _DIGITS - len(_SEPARATOR)
_GROUP_SHOWN = 16
"""Characters of a group's name that a coded form shows at least; what its tool's name leaves comes on top."""
_SCHEME = "mentat://"


def public_name(group: str, name: str) -> str:
    """The merged endpoint's name for `name` of `group`."""
    plain = f"{group}{_SEPARATOR}{name}"
    fits = len(plain) <= LIMIT and _ALLOWED.fullmatch(plain)
    if fits and split_name(plain) == (group, name) and not is_coded(plain):
        return plain
    shown = _FOREIGN.sub("_", name)[: _ROOM - _GROUP_SHOWN]
    head = _shown_group(group)[: _ROOM - len(shown)]
    # The length of the group tells apart pairs whose plain forms are the same.
    digest = sha256(f"{len(group)}:{plain}".encode()).hexdigest()[:_DIGITS]
    return f"{head}{_SEPARATOR}{shown}-{digest}"


def is_coded(public: str) -> bool:
    """Whether `public` is a coded form: only a list of names says what it stands for."""
    return _CODED.fullmatch(public) is not None


def may_name(public: str, group: str) -> bool:
    """Whether the coded form `public` may stand for something of `group`."""
    return public.startswith(_shown_group(group)[:_GROUP_SHOWN])


def split_name(public: str) -> tuple[str, str] | None:
    """The pair that a plain form stands for; None when it is not one."""
    group, separator, name = public.partition(_SEPARATOR)
    return (group, name) if separator and group and name else None


def public_uri(group: str, uri: str) -> str:
    """The merged endpoint's URI for resource `uri` of `group`."""
    return f"{_SCHEME}{quote(group, safe='')}/{quote(uri, safe='')}"


def split_uri(public: str) -> tuple[str, str] | None:
    """The group and the original URI; None for a URI that is not this endpoint's."""
    if not public.startswith(_SCHEME):
        return None
    group, _, uri = public.removeprefix(_SCHEME).partition("/")
    return (unquote(group), unquote(uri)) if group and uri else None


def _shown_group(group: str) -> str:
    return _FOREIGN.sub("_", group)
