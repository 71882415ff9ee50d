"""Kafka's order of precedence, and who is measured together."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from minikafka.controller.quotas.limits import ClientLimits

KEY = "producer_byte_rate"
ORDER: list[dict[str, str | None]] = [
    {"user": "alice", "client-id": "c1"},
    {"user": "alice", "client-id": None},
    {"user": "alice"},
    {"user": None, "client-id": "c1"},
    {"user": None, "client-id": None},
    {"user": None},
    {"client-id": "c1"},
    {"client-id": None},
]
"""The entities of alice's client c1, the closest first."""


def limits_of(*quotas: tuple[Mapping[str, str | None], float]) -> ClientLimits:
    limits = ClientLimits(KEY)
    for entity, value in quotas:
        limits.set(tuple(sorted(entity.items())), KEY, value)
    return limits


@pytest.mark.parametrize("first", range(8))
def test_the_first_that_exists_holds(first: int) -> None:
    limits = limits_of(*((entity, float(place)) for place, entity in enumerate(ORDER) if place >= first))
    assert limits.limit(limits.sharers("alice", "c1")) == first


@pytest.mark.parametrize(
    ("entity", "sharers"),
    [
        ({"user": "alice", "client-id": "c1"}, ("alice", "c1")),
        ({"user": "alice", "client-id": None}, ("alice", "c1")),
        ({"user": "alice"}, ("alice", "")),
        ({"user": None}, ("alice", "")),
        ({"user": None, "client-id": None}, ("alice", "c1")),
        ({"client-id": "c1"}, ("", "c1")),
        ({"client-id": None}, ("", "c1")),
    ],
)
def test_a_quota_says_who_shares_it(entity: dict[str, str | None], sharers: tuple[str, str]) -> None:
    limits = limits_of((entity, 7.0), ({"user": "bob"}, 1.0), ({"client-id": "c9"}, 1.0))
    assert limits.sharers("alice", "c1") == sharers
    assert limits.limit(sharers) == 7.0


def test_a_pair_and_another_client_id_leave_the_rest_free() -> None:
    limits = limits_of(({"user": "alice", "client-id": "c1"}, 5.0), ({"client-id": "c2"}, 6.0))
    assert limits.limit(limits.sharers("alice", "c3")) is None
    assert limits.limit(limits.sharers("bob", "c1")) is None
    assert limits.sharers("alice", "c2") == limits.sharers("bob", "c2") == ("", "c2")
    assert limits.limit(("", "c2")) == 6.0


def test_no_quota_of_client_ids_holds_for_an_empty_client_id() -> None:
    assert limits_of(({"client-id": None}, 1.0)).limit(("", "")) is None
    limits = limits_of(({"user": "alice", "client-id": None}, 1.0), ({"user": "alice"}, 2.0))
    assert limits.limit(limits.sharers("alice", "")) == 2.0
    limits = limits_of(({"user": "alice", "client-id": None}, 1.0), ({"client-id": None}, 3.0))
    assert limits.limit(limits.sharers("alice", "")) is None


def test_quotas_of_one_level_say_with_whom_the_others_are_measured() -> None:
    assert limits_of(({"client-id": "c9"}, 1.0)).sharers("alice", "c1") == ("", "c1")
    assert limits_of(({"user": "bob"}, 1.0)).sharers("alice", "c1") == ("alice", "")
    assert limits_of(({"user": "bob", "client-id": "c9"}, 1.0)).sharers("alice", "c1") == ("alice", "c1")


def test_quotas_of_other_keys_do_not_count() -> None:
    limits = ClientLimits(KEY)
    limits.set((("client-id", "c1"),), "consumer_byte_rate", 1.0)
    limits.set((("ip", "127.0.0.1"),), KEY, 1.0)
    assert not limits.exist
    limits.set((("client-id", "c1"),), KEY, 1.0)
    assert limits.exist


def test_a_quota_that_is_removed_is_as_if_it_had_never_been() -> None:
    limits = limits_of(({"user": "bob"}, 1.0), ({"client-id": "c9"}, 1.0), ({"client-id": "c9"}, 2.0))
    limits.set((("client-id", "c9"),), KEY, None)
    limits.set((("client-id", "c9"),), KEY, None)
    assert limits.sharers("alice", "c1") == ("alice", "")
    limits.set((("user", "bob"),), KEY, None)
    assert not limits.exist
