"""The engines' key (ENGINE_API_KEY): which of the router's own questions carry it.

Whoever can make the router ask an address learns the key from the question. So it goes only to addresses that a seed
or a signed announcement vouches for; an unsigned announcement can come from anybody on the wire.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from mentatd.log import log

GROUPS_SAID = 1024
"""Log lines about groups whose engine gets no key, over the life of the process."""

_UNTRUSTED = (
    "its address was learned from an unsigned announcement; set MENTAT_SECRET or name its daemon as a seed"
)


class EngineKey:
    """A client's own Authorization is none of its business: that passes through the proxy untouched."""

    def __init__(self, key: bytes | None = None) -> None:
        """`key` is visible ASCII; None: nothing is sent to anybody."""
        self._fields = {} if key is None else {"authorization": f"Bearer {key.decode('ascii')}"}
        self._said: set[str] = set()

    def fields(self, group: str, url: str, trusted: Collection[str]) -> Mapping[str, str]:
        """The fields of a question to the candidate `url` of a group; `trusted` are those that may have the key.

        Says once for each group that it withholds the key.
        """
        if not self._fields or url in trusted:
            return self._fields
        if group not in self._said and len(self._said) < GROUPS_SAID:
            self._said.add(group)
            log("engine_key_withheld", group=group, url=url, reason=_UNTRUSTED)
        return {}

    def hint(self, url: str, trusted: Collection[str]) -> str:
        """What to do where this candidate answers 401 or 403."""
        if not self._fields:
            return "the engine asks for a key: set ENGINE_API_KEY"
        if url in trusted:
            return "the engine does not take ENGINE_API_KEY"
        return f"ENGINE_API_KEY was withheld: {_UNTRUSTED}"
