"""Incremental fetch sessions (KIP-227): epochs, changes of partitions, and eviction."""

from random import Random

import pytest

from minikafka.broker.partitions.fetch_sessions import (
    EVICTION_MS,
    PARTITIONS_MAX,
    UNKNOWN_MAX,
    CachedPartition,
    SessionCache,
)
from minikafka.protocol.errors import (
    FetchSessionIdNotFoundError,
    FetchSessionTopicIdError,
    InvalidFetchSessionEpochError,
)

TOPIC_ID = b"0123456789abcdef"


def asked(partition: int, offset: int = 0, *, topic: str = "t", by_id: bool = False) -> CachedPartition:
    return CachedPartition(TOPIC_ID if by_id else bytes(16), topic, partition, offset, 1000, by_id=by_id)


def cache(slots: int = 3) -> SessionCache:
    return SessionCache(slots, Random(1))


def test_a_session_continues_with_its_next_epoch_only() -> None:
    sessions = cache()
    session = sessions.open([asked(0)], by_id=False, now_ms=0)
    assert session is not None
    assert session.id > 0
    for epoch in (1, 2, 3):
        assert sessions.resume(session.id, epoch, by_id=False, now_ms=0) is session
    with pytest.raises(InvalidFetchSessionEpochError):
        sessions.resume(session.id, 3, by_id=False, now_ms=0)
    assert sessions.resume(session.id, 4, by_id=False, now_ms=0) is session


def test_the_epoch_after_the_largest_is_1() -> None:
    sessions = cache()
    session = sessions.open([asked(0)], by_id=False, now_ms=0)
    assert session is not None
    session.epoch = 2**31 - 1
    sessions.resume(session.id, 2**31 - 1, by_id=False, now_ms=0)
    assert session.epoch == 1


def test_unknown_and_closed_sessions_are_not_found() -> None:
    sessions = cache()
    session = sessions.open([asked(0)], by_id=False, now_ms=0)
    assert session is not None
    sessions.close(session.id)
    sessions.close(session.id)
    for unknown in (session.id, 0, -1):
        with pytest.raises(FetchSessionIdNotFoundError):
            sessions.resume(unknown, 1, by_id=False, now_ms=0)


def test_names_and_ids_do_not_mix() -> None:
    sessions = cache()
    session = sessions.open([asked(0, by_id=True)], by_id=True, now_ms=0)
    assert session is not None
    with pytest.raises(FetchSessionTopicIdError):
        sessions.resume(session.id, 1, by_id=False, now_ms=0)


def test_partitions_are_added_changed_and_removed() -> None:
    sessions = cache()
    session = sessions.open([asked(0), asked(1)], by_id=False, now_ms=0)
    assert session is not None
    session.update([asked(1, 7), asked(2)], [(bytes(16), "t", 0), (bytes(16), "unknown", 0)])
    assert [(p.partition, p.fetch_offset) for p in session.partitions.values()] == [(1, 7), (2, 0)]


def test_a_topic_by_id_keeps_its_place_after_a_rename() -> None:
    sessions = cache()
    session = sessions.open([asked(0, topic="", by_id=True)], by_id=True, now_ms=0)
    assert session is not None
    session.update([asked(0, 5, topic="t", by_id=True)], [])
    (only,) = session.partitions.values()
    assert (only.topic, only.fetch_offset) == ("t", 5)


def test_clients_do_not_keep_followers_from_having_sessions() -> None:
    sessions = cache(slots=2)
    follower = sessions.open([asked(0)], by_id=False, now_ms=0, is_of_follower=True)
    client = sessions.open([asked(0)], by_id=False, now_ms=1)
    assert follower is not None
    assert client is not None
    assert sessions.open([asked(0)], by_id=False, now_ms=2) is None, "clients are equal"
    other = sessions.open([asked(0)], by_id=False, now_ms=2, is_of_follower=True)
    assert other is not None
    with pytest.raises(FetchSessionIdNotFoundError):
        sessions.resume(client.id, 1, by_id=False, now_ms=2)
    assert sessions.resume(follower.id, 1, by_id=False, now_ms=2) is follower
    assert sessions.open([asked(0)], by_id=False, now_ms=3, is_of_follower=True) is None, "so are followers"


def test_without_a_free_slot_only_an_idle_session_is_evicted() -> None:
    sessions = cache(slots=2)
    first = sessions.open([asked(0)], by_id=False, now_ms=0)
    second = sessions.open([asked(0)], by_id=False, now_ms=1)
    assert first is not None
    assert second is not None
    assert sessions.open([asked(0)], by_id=False, now_ms=EVICTION_MS) is None
    sessions.resume(first.id, 1, by_id=False, now_ms=EVICTION_MS)
    third = sessions.open([asked(0)], by_id=False, now_ms=EVICTION_MS + 2)
    assert third is not None
    assert len(sessions) == 2
    with pytest.raises(FetchSessionIdNotFoundError):
        sessions.resume(second.id, 1, by_id=False, now_ms=EVICTION_MS + 2)
    assert len({first.id, second.id, third.id}) == 3


def many(count: int, first: int = 0, *, unknown: bool = False) -> list[CachedPartition]:
    return [
        CachedPartition(bytes(16), "t", number, 0, 1000, unknown=unknown) for number in range(first, first + count)
    ]


@pytest.mark.slow
def test_all_sessions_together_have_a_bound() -> None:
    sessions = cache(slots=1000)
    opened = [sessions.open(many(PARTITIONS_MAX // 4), by_id=False, now_ms=0) for _ in range(5)]
    assert [one is not None for one in opened] == [True] * 4 + [False]
    assert opened[0] is not None
    sessions.close(opened[0].id)
    assert sessions.open(many(PARTITIONS_MAX // 4), by_id=False, now_ms=0) is not None
    assert sessions.open(many(1), by_id=False, now_ms=EVICTION_MS + 1) is not None, "an idle one is evicted"


def test_a_session_that_grows_beyond_the_bound_is_closed() -> None:
    sessions = cache()
    sessions.open(many(PARTITIONS_MAX - 10), by_id=False, now_ms=0)
    session = sessions.open(many(5), by_id=False, now_ms=0)
    assert session is not None
    sessions.update(session, many(5, first=5), [(bytes(16), "t", 1)])
    sessions.update(session, many(1, first=10), [])
    with pytest.raises(FetchSessionIdNotFoundError):
        sessions.update(session, many(1, first=11), [])
    with pytest.raises(FetchSessionIdNotFoundError):
        sessions.resume(session.id, 1, by_id=False, now_ms=0)
    assert sessions.open(many(10), by_id=False, now_ms=0) is not None


def test_a_session_has_few_partitions_that_do_not_exist() -> None:
    sessions = cache()
    assert sessions.open(many(UNKNOWN_MAX + 1, unknown=True), by_id=False, now_ms=0) is None
    session = sessions.open(many(UNKNOWN_MAX, unknown=True), by_id=False, now_ms=0)
    assert session is not None
    for _ in range(2):  # those that it has already are not counted again
        sessions.update(session, many(UNKNOWN_MAX, unknown=True), [])
    sessions.update(session, many(1, first=UNKNOWN_MAX, unknown=True), [(bytes(16), "t", 0)])
    with pytest.raises(FetchSessionIdNotFoundError):
        sessions.update(session, many(1, first=UNKNOWN_MAX + 1, unknown=True), [])
