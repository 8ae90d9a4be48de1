"""The order in which a group's candidate addresses are probed (manual "Candidate addresses")."""

from __future__ import annotations

from collections.abc import Sequence

from mentatd.cluster.groups import Group


def plan(candidates: Sequence[str], in_use: str | None, *, promote: bool) -> tuple[str, ...]:
    """The candidates in the order to try; the first that answers is the one to use.

    Between two promotion rounds the address in use is tried first and so kept while it answers, then the
    others from the top. A promotion round, like the first one, walks the list from the top.
    """
    if promote or in_use is None or in_use not in candidates:
        return tuple(candidates)
    return (in_use, *(candidate for candidate in candidates if candidate != in_use))


def promotion_due(
    candidates: Sequence[str], in_use: str | None, *, walked_at: float, now: float, promote_s: float
) -> bool:
    """Whether the next round re-tries the addresses ranked above the one in use.

    `walked_at` is when a round last walked from the top, `promote_s` PROBE_PROMOTE_S.
    """
    return in_use in candidates and in_use != candidates[0] and now >= walked_at + promote_s


def questions_answer(before: Group, now: Group, *, admitted: bool) -> bool:
    """Whether a change of a group may mean that its engine no longer answers as it did, so that it is worth a probe.

    What is not `admitted` may be about to answer. Of what is, another agent, or one that says something else, may be
    another engine's. Actors that come and go tell nothing: where one takes the engine along, the first request that
    cannot connect, or the next round, finds out.
    """
    return not admitted or now.agents != before.agents
