"""The hash of a group's topics is that which Apache Kafka 4.3.1 wrote for the same topics."""

from __future__ import annotations

from minikafka.broker.coordinator.groups.consumer.topic_hash import NO_TOPIC, group_hash, topic_hash

TOPIC_ID = bytes.fromhex("49d56a82329f49a3be438dfa518859e3")
NAME = "c82e05661-t"


def test_the_hash_of_one_topic_is_kafkas() -> None:
    assert group_hash({NAME: topic_hash(TOPIC_ID, NAME, [[], []])}) == 257390299848768309


def test_every_part_of_a_topic_changes_its_hash() -> None:
    racks = [["a", "bc"], []]
    assert topic_hash(TOPIC_ID, NAME, racks) == topic_hash(TOPIC_ID, NAME, [["bc", "a"], []])
    others = [
        topic_hash(bytes(16), NAME, racks),
        topic_hash(TOPIC_ID, NAME + "x", racks),
        topic_hash(TOPIC_ID, NAME, racks[:1]),
        topic_hash(TOPIC_ID, NAME, [["ab", "c"], []]),
        topic_hash(TOPIC_ID, NAME, [[], ["a", "bc"]]),
    ]
    assert len({topic_hash(TOPIC_ID, NAME, racks), *others}) == 6


def test_the_hash_of_a_group_has_the_order_of_names() -> None:
    assert group_hash({"a": 1, "b": -2}) == group_hash({"b": -2, "a": 1}) != group_hash({"a": -2, "b": 1})
    assert group_hash({}) == NO_TOPIC
