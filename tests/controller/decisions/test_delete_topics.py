"""DeleteTopics: deletion by name and by id, and invalid requests."""

from typing import Any

import pytest
from support.images import applied, cluster, decided, name_of, static, topic_id, with_topic

from minikafka.controller.decisions.delete_topics import decide
from minikafka.controller.metadata.image import Image
from minikafka.controller.metadata.records import ConfigRecord
from minikafka.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from minikafka.protocol.types import NIL_UUID

Answer = tuple[str | None, bytes, str]


def three_topics() -> Image:
    image = cluster()
    for name in ("a", "b.c", "d"):
        with_topic(image, name, (1,))
    return applied([ConfigRecord(2, "a", "retention.ms", "5")], image)


def delete(image: Image, *asked: tuple[str | None, bytes], **known: Any) -> list[Answer]:
    topics = [DeleteTopicState(name=name, topic_id=wanted) for name, wanted in asked]
    request = DeleteTopicsRequest(topics=topics, timeout_ms=1000)
    response = decided(decide, image, request, **{"version": 6, **known})
    return [(one.name, one.topic_id, name_of(one.error_code)) for one in response.responses]


def delete_by_names(image: Image, *names: str, version: int, **known: Any) -> list[Answer]:
    request = DeleteTopicsRequest(topic_names=list(names), timeout_ms=1000)
    response = decided(decide, image, request, version=version, **known)
    return [(one.name, one.topic_id, name_of(one.error_code)) for one in response.responses]


def test_a_deleted_topic_loses_its_configs() -> None:
    image = three_topics()
    assert delete(image, ("a", NIL_UUID)) == [("a", topic_id("a"), "NONE")]
    assert list(image.topics) == ["b.c", "d"]
    assert image.config(2, "a") == {}
    assert delete(image, ("a", NIL_UUID)) == [("a", NIL_UUID, "UNKNOWN_TOPIC_OR_PARTITION")]


def test_deletion_by_id_returns_the_name() -> None:
    image = three_topics()
    assert delete(image, (None, topic_id("d"))) == [("d", topic_id("d"), "NONE")]
    assert delete(image, (None, topic_id("d"))) == [(None, topic_id("d"), "UNKNOWN_TOPIC_ID")]


def test_a_deleted_name_no_longer_collides() -> None:
    image = three_topics()
    assert image.colliding == {"b_c": ["b.c"]}
    delete(image, ("b.c", NIL_UUID))
    assert image.colliding == {}


WRONG: dict[str, tuple[list[tuple[str | None, bytes]], list[Answer]]] = {
    "neither name nor id": ([(None, NIL_UUID)], [(None, NIL_UUID, "INVALID_REQUEST")]),
    "neither name nor id, twice": ([(None, NIL_UUID)] * 2, [(None, NIL_UUID, "INVALID_REQUEST")] * 2),
    "name and id": ([("a", topic_id("a"))], [("a", topic_id("a"), "INVALID_REQUEST")]),
    "a name twice": ([("a", NIL_UUID)] * 2, [("a", NIL_UUID, "INVALID_REQUEST")]),
    "an unknown name twice": ([("x", NIL_UUID)] * 3, [("x", NIL_UUID, "INVALID_REQUEST")]),
    "an id twice": ([(None, topic_id("a"))] * 2, [(None, topic_id("a"), "INVALID_REQUEST")]),
    "a topic by name and by id": (
        [("a", NIL_UUID), (None, topic_id("a"))],
        [("a", topic_id("a"), "INVALID_REQUEST")],
    ),
}


@pytest.mark.parametrize(("asked", "answers"), WRONG.values(), ids=WRONG)
def test_invalid_deletions_are_rejected(asked: list[tuple[str | None, bytes]], answers: list[Answer]) -> None:
    image = three_topics()
    assert delete(image, *asked) == answers
    assert len(image.topics) == 3


def test_an_invalid_deletion_does_not_affect_the_others() -> None:
    image = three_topics()
    answers = delete(image, ("a", NIL_UUID), ("a", NIL_UUID), ("d", NIL_UUID))
    assert sorted(answers, key=str) == [("a", NIL_UUID, "INVALID_REQUEST"), ("d", topic_id("d"), "NONE")]
    assert list(image.topics) == ["a", "b.c"]


def test_old_versions_delete_by_name_only() -> None:
    image = three_topics()
    assert delete_by_names(image, "a", "x", version=4) == [
        ("x", NIL_UUID, "UNKNOWN_TOPIC_OR_PARTITION"),
        ("a", topic_id("a"), "NONE"),
    ]


def test_an_expired_request_deletes_nothing() -> None:
    image = three_topics()
    request = DeleteTopicsRequest(topics=[DeleteTopicState(name="a"), DeleteTopicState(name="x")], timeout_ms=0)
    answers = decided(decide, image, request, version=6).responses
    assert [name_of(one.error_code) for one in answers] == ["REQUEST_TIMED_OUT"] * 2
    twice = DeleteTopicsRequest(topics=[DeleteTopicState(name="a")] * 2, timeout_ms=0)
    assert [name_of(one.error_code) for one in decided(decide, image, twice, version=6).responses] == [
        "INVALID_REQUEST"
    ]
    assert len(image.topics) == 3


def test_all_deletions_fail_if_topic_deletion_is_disabled() -> None:
    image, off = three_topics(), static(delete_topic_enable="false")
    told = delete(image, ("a", NIL_UUID), ("x", NIL_UUID), (None, topic_id("d")), node=off)
    assert {error for _, _, error in told} == {"TOPIC_DELETION_DISABLED"}
    assert [name for name, _, _ in told] == ["a", "x", None]
    assert delete_by_names(image, "a", version=2, node=off) == [("a", NIL_UUID, "INVALID_REQUEST")]
    assert len(image.topics) == 3
