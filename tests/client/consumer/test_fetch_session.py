"""Fetch sessions (KIP-227): what requests contain, and that a broker always knows what is to be fetched."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from random import Random
from typing import Any

import anyio
import pytest
import trio
from support.fake_network import FakeNetwork
from support.node import NodeProcess
from trio.testing import MockClock

from minikafka.broker.partitions.fetch_sessions import CachedPartition, SessionCache, SessionKey
from minikafka.client import Admin, Consumer, Producer, TopicPartition
from minikafka.client.consumer.fetch_session import EPOCH_MAX, FULL, NO_SESSION, FetchSession
from minikafka.client.consumer.partition_state import PartitionState
from minikafka.protocol.error_codes import ErrorCode
from minikafka.protocol.errors import KafkaError
from minikafka.protocol.messages.fetch import FetchableTopicResponse, FetchRequest, FetchResponse, PartitionData

IDS = {"a": b"a" * 16, "b": b"b" * 16}
Wanted = Mapping[tuple[str, int], int]
"""Fetch offsets by topic and partition."""


def asked(session: FetchSession, wanted: Wanted, ids: Mapping[str, bytes] | None = IDS, epoch: int = 3) -> FetchRequest:
    states = []
    for tp, offset in wanted.items():
        state = PartitionState(TopicPartition(*tp))
        state.move(offset)
        states.append((state, epoch))
    request = FetchRequest()
    session.fill(request, states, None if ids is None else ids.__getitem__)
    return request


def offsets(request: FetchRequest) -> dict[tuple[bytes, int], int]:
    return {(t.topic_id, one.partition): one.fetch_offset for t in request.topics for one in t.partitions}


def forgotten(request: FetchRequest) -> set[tuple[bytes, int]]:
    return {(topic.topic_id, one) for topic in request.forgotten_topics_data for one in topic.partitions}


def answer(request: FetchRequest, session_id: int) -> FetchResponse:
    topics = [
        FetchableTopicResponse(
            partitions=[PartitionData(partition_index=one.partition, aborted_transactions=None) for one in t.partitions]
        )
        for t in request.topics
    ]
    return FetchResponse(session_id=session_id, responses=topics)


def opened(wanted: Wanted) -> FetchSession:
    """Session 7 with these partitions."""
    session = FetchSession(100, without_session_max=0)
    session.answered(answer(asked(session, wanted), 7))
    assert (session.id, session.epoch) == (7, 1)
    return session


def test_a_request_contains_what_is_new_has_moved_or_is_no_longer_wanted() -> None:
    session = opened({("a", 0): 5, ("a", 1): 6, ("b", 0): 7})
    request = asked(session, {("a", 0): 5, ("a", 1): 9, ("b", 1): 0})
    assert offsets(request) == {(IDS["a"], 1): 9, (IDS["b"], 1): 0}
    assert forgotten(request) == {(IDS["b"], 0)}
    assert (request.session_id, request.session_epoch) == (7, 1)
    session.answered(FetchResponse(session_id=7))
    idle = asked(session, {("a", 0): 5, ("a", 1): 9, ("b", 1): 0})
    assert (offsets(idle), forgotten(idle), idle.session_epoch) == ({}, set(), 2)


def test_a_new_leader_epoch_is_sent() -> None:
    session = opened({("a", 0): 5})
    request = asked(session, {("a", 0): 5}, epoch=4)
    assert request.topics[0].partitions[0].current_leader_epoch == 4


def test_a_topic_that_was_made_anew_replaces_the_old_one() -> None:
    session = opened({("a", 0): 5})
    request = asked(session, {("a", 0): 5}, ids={"a": b"new!" * 4})
    assert offsets(request) == {(b"new!" * 4, 0): 5}
    assert forgotten(request) == {(IDS["a"], 0)}


def test_few_partitions_are_fetched_without_a_session() -> None:
    session = FetchSession(100)
    request = asked(session, {("a", number): 0 for number in range(10)})
    assert (request.session_id, request.session_epoch, len(offsets(request))) == (NO_SESSION, -1, 10)
    session.answered(answer(request, NO_SESSION))
    assert asked(session, {("a", number): 0 for number in range(11)}).session_epoch == FULL


@pytest.mark.parametrize(
    ("error", "closes"),
    [
        (ErrorCode.FETCH_SESSION_ID_NOT_FOUND, NO_SESSION),
        (ErrorCode.INVALID_FETCH_SESSION_EPOCH, 7),
        (ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR, 7),
    ],
)
def test_after_a_session_error_a_full_request_follows_at_once(error: ErrorCode, closes: int) -> None:
    session = opened({("a", 0): 5})
    asked(session, {("a", 0): 5})
    assert session.refused(error)
    request = asked(session, {("a", 0): 5})
    assert (request.session_id, request.session_epoch, offsets(request)) == (closes, FULL, {(IDS["a"], 0): 5})
    assert not session.refused(error)  # not at once: a full request has no session that could be wrong


def test_other_errors_are_left_to_the_caller() -> None:
    session = opened({("a", 0): 5})
    assert not session.refused(ErrorCode.UNKNOWN_SERVER_ERROR)
    assert asked(session, {("a", 0): 5}).session_epoch == FULL


def test_a_lost_response_closes_the_session() -> None:
    session = opened({("a", 0): 5})
    asked(session, {("a", 0): 6})
    session.reset()
    request = asked(session, {("a", 0): 6})
    assert (request.session_id, request.session_epoch, offsets(request)) == (7, FULL, {(IDS["a"], 0): 6})


def test_without_a_free_slot_every_request_is_full() -> None:
    session = FetchSession(100, without_session_max=0)
    for _ in range(3):
        request = asked(session, {("a", 0): 5})
        assert (request.session_id, request.session_epoch, len(offsets(request))) == (NO_SESSION, FULL, 1)
        session.answered(answer(request, NO_SESSION))


def test_a_session_that_the_broker_closes_begins_anew() -> None:
    session = opened({("a", 0): 5})
    asked(session, {("a", 0): 5})
    session.answered(FetchResponse(session_id=NO_SESSION))
    assert asked(session, {("a", 0): 5}).session_epoch == FULL


def test_a_full_response_without_some_partitions_begins_no_session() -> None:
    session = FetchSession(100, without_session_max=0)
    asked(session, {("a", 0): 5, ("a", 1): 5})
    session.answered(FetchResponse(session_id=7, throttle_time_ms=100))
    request = asked(session, {("a", 0): 5, ("a", 1): 5})
    assert (request.session_id, request.session_epoch, len(offsets(request))) == (7, FULL, 2)


def test_a_session_is_either_by_name_or_by_id() -> None:
    session = opened({("a", 0): 5})
    request = asked(session, {("a", 0): 5}, ids=None)
    assert (request.session_epoch, request.topics[0].topic, request.topics[0].topic_id) == (FULL, "a", bytes(16))


def test_epochs_begin_at_one_again() -> None:
    session = opened({("a", 0): 5})
    session.epoch = EPOCH_MAX
    session.answered(FetchResponse(session_id=7))
    assert session.epoch == 1


def test_the_request_that_closes_a_session() -> None:
    session = opened({("a", 0): 5})
    request = session.closing()
    assert request is not None
    assert (request.session_id, request.session_epoch, request.topics) == (7, -1, [])
    assert session.closing() is None


class Broker:
    """A broker with the sessions of minikafka's; it forgets some, and refuses some."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self.cache = SessionCache(3, random)
        self.now_ms = 0

    def fetch(self, request: FetchRequest) -> tuple[FetchResponse, dict[SessionKey, int]]:
        """The response, and the fetch offsets that were read."""
        self.now_ms += 1000
        some = [
            CachedPartition(topic.topic_id, "", one.partition, one.fetch_offset, 1, by_id=True)
            for topic in request.topics
            for one in topic.partitions
        ]
        gone = [(topic.topic_id, "", one) for topic in request.forgotten_topics_data for one in topic.partitions]
        if request.session_epoch in (0, -1):
            self.cache.close(request.session_id)
            session = self.cache.open(some, by_id=True, now_ms=self.now_ms) if request.session_epoch == 0 else None
            read = {one.key: one.fetch_offset for one in some}
            return answer(request, session.id if session else 0), read
        session = self.cache.resume(request.session_id, request.session_epoch, by_id=True, now_ms=self.now_ms)
        self.cache.update(session, some, gone)
        read = {key: one.fetch_offset for key, one in session.partitions.items()}
        return FetchResponse(session_id=session.id), read

    def mischief(self) -> None:
        for session_id in list(self.cache._sessions):
            if self.random.random() < 0.05:
                self.cache.close(session_id)


@pytest.mark.parametrize("seed", range(100))
def test_a_broker_reads_what_is_wanted_whatever_is_lost(seed: int) -> None:
    random = Random(seed)
    broker, session, ids = Broker(random), FetchSession(100, without_session_max=random.choice((0, 2))), dict(IDS)
    wanted: dict[tuple[str, int], int] = {}
    failed_at_once = 0
    for _ in range(200):
        for name in IDS:
            if random.random() < 0.02:
                ids[name] = random.randbytes(16)
        for _ in range(random.randrange(4)):
            tp = random.choice("ab"), random.randrange(4)
            if random.random() < 0.4:
                wanted.pop(tp, None)
            else:
                wanted[tp] = random.randrange(3)
        if not wanted:
            continue
        broker.mischief()
        request = asked(session, wanted, ids)
        if random.random() < 0.1:  # the request is lost
            session.reset()
            continue
        try:
            response, read = broker.fetch(request)
        except KafkaError as error:
            failed_at_once += not session.refused(error.code)
            continue
        assert read == {(ids[topic], "", partition): offset for (topic, partition), offset in wanted.items()}
        if random.random() < 0.1:  # the response is lost
            session.reset()
        else:
            session.answered(response)
    assert failed_at_once == 0, "a full request is never refused"


@pytest.mark.slow
@pytest.mark.anyio
async def test_an_idle_poll_of_many_partitions_is_short(bootstrap: str, topic: str) -> None:
    """Less than 100 bytes each way; without a session it would be more than 10,000 for 300 partitions."""
    partitions = [TopicPartition(topic, number) for number in range(300)]
    async with Admin(bootstrap_servers=bootstrap) as admin:
        await admin.create_topic(topic, partitions=len(partitions))
    async with Consumer(bootstrap_servers=bootstrap, fetch_max_wait_ms=20) as consumer:
        consumer.assign(partitions)
        consumer.seek_to_beginning()
        with anyio.fail_after(60):
            for tp in partitions:  # those of a new topic become readable one by one
                await consumer.position(tp)
            begun = fetch_traffic(consumer)[0]
            while (before := fetch_traffic(consumer))[0] < begun + 3:
                await consumer.poll(20)
            while (after := fetch_traffic(consumer))[0] < before[0] + 5:
                await consumer.poll(20)
        polls, sent, received = (after[n] - before[n] for n in range(3))
        assert sent < 100 * (polls + 1)
        assert received < 100 * (polls + 1)
        async with Producer(bootstrap_servers=bootstrap) as producer:
            for number in (7, 299, 7):
                await producer.send(topic, b"x", partition=number)
            await producer.flush()
        with anyio.fail_after(60):
            found = [record.partition for record in await first(consumer, 3)]
        assert sorted(found) == [7, 7, 299]


def fetch_traffic(consumer: Consumer) -> tuple[int, int, int]:
    """Responses, and the bytes sent and received on connections for fetching."""
    open_now = [one for purpose, one in consumer.cluster._open() if purpose == "fetch"]
    return (
        sum(one.counts.responses for one in open_now),
        sum(one.counts.sent_bytes for one in open_now),
        sum(one.counts.received_bytes for one in open_now),
    )


async def first(consumer: Consumer, count: int) -> list[Any]:
    records: list[Any] = []
    while len(records) < count:
        records += await consumer.poll(1000)
    return records


def test_leaving_closes_the_session() -> None:
    network = FakeNetwork({"t": [1] * 11})

    def fetch(request: FetchRequest, version: int) -> FetchResponse | None:
        if request.session_epoch != FULL:
            return None
        response = answer(request, 7)
        response.responses[0].topic_id = request.topics[0].topic_id
        return response

    broker = network.broker("a", 1, {FetchRequest: fetch})

    async def story() -> None:
        async with Consumer(bootstrap_servers="a:1", seams=network.seams()) as consumer:
            consumer.assign([("t", number) for number in range(11)])
            for number in range(11):
                consumer.seek(TopicPartition("t", number), 5)
            await trio.sleep(1)

    trio.run(story, clock=MockClock(autojump_threshold=0))
    fetches = [one for one in broker.requests if isinstance(one, FetchRequest)]
    assert [(one.session_id, one.session_epoch) for one in fetches] == [(0, FULL), (7, 1), (7, -1)]
    assert fetches[-1].topics == []


@pytest.mark.slow
@pytest.mark.anyio
async def test_a_session_survives_its_broker(tmp_path: Path, topic: str) -> None:
    """The broker that was killed knows no session; a full request opens another one."""
    with NodeProcess(tmp_path / "data", settings={"log.flush.interval.messages": 1}) as node:
        async with Admin(bootstrap_servers=node.bootstrap) as admin:
            await admin.create_topic(topic, partitions=11)
        async with Consumer(bootstrap_servers=node.bootstrap) as consumer:
            consumer.assign([(topic, number) for number in range(11)])
            consumer.seek_to_beginning()
            for values in ([b"before"], [b"after"]):
                async with Producer(bootstrap_servers=node.bootstrap) as producer:
                    await producer.send_many(topic, values)
                with anyio.fail_after(60):
                    assert [one.value for one in await first(consumer, 1)] == values
                if values == [b"before"]:
                    assert all(one.id != NO_SESSION for one in sessions(consumer).values())
                    node.kill()
                    await anyio.to_thread.run_sync(node.restart)


def sessions(consumer: Consumer) -> dict[int, FetchSession]:
    return consumer._open_loop()._sessions
