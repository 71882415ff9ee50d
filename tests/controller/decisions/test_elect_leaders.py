"""ElectLeaders: results by partition."""

from typing import Any

from support.images import applied, cluster, decided, name_of, state, three_brokers, topic_id, with_topic

from minikafka.controller.decisions import elect_leaders
from minikafka.controller.metadata.image import Image
from minikafka.controller.metadata.records import BrokerChange, PartitionChange
from minikafka.protocol.messages.elect_leaders import ElectLeadersRequest, TopicPartitions


def elect(image: Image, kind: int, partitions: dict[str, list[int]] | None) -> tuple[str, dict[str, list[str]]]:
    asked = [TopicPartitions(topic=name, partitions=ids) for name, ids in (partitions or {}).items()]
    request: Any = ElectLeadersRequest(election_type=kind, topic_partitions=None if partitions is None else asked)
    response = decided(elect_leaders.decide, image, request)
    results = {
        one.topic: [name_of(partition.error_code) for partition in one.partition_result]
        for one in response.replica_election_results
    }
    return name_of(response.error_code), results


PREFERRED, UNCLEAN = 0, 1


def test_the_preferred_replica_is_elected_if_it_is_unfenced_and_in_sync() -> None:
    image = with_topic(three_brokers(), "t", (1, 2), (1, 2), (2, 1), isr=(2, 1))
    applied([PartitionChange(topic_id("t"), 1, isr=(2,))], image)
    told = elect(image, PREFERRED, {"t": [0, 1, 2, 9], "x": [0]})
    assert told == (
        "NONE",
        {
            "t": ["NONE", "PREFERRED_LEADER_NOT_AVAILABLE", "ELECTION_NOT_NEEDED", "UNKNOWN_TOPIC_OR_PARTITION"],
            "x": ["UNKNOWN_TOPIC_OR_PARTITION"],
        },
    )
    assert (state(image).leader, state(image).leader_epoch, state(image).partition_epoch) == (1, 1, 1)


def test_an_unclean_election_elects_any_unfenced_replica_of_a_leaderless_partition() -> None:
    image = with_topic(three_brokers(), "t", (1, 2), (1, 2), (1, 2))
    for index, isr in enumerate([(1, 2), (2,), (1, 2)]):
        applied([PartitionChange(topic_id("t"), index, isr=isr, leader=-1)], image)
    applied([BrokerChange(2, 0, fenced=True)], image)
    assert elect(image, UNCLEAN, {"t": [0, 1]})[1] == {"t": ["NONE", "NONE"]}
    assert (state(image).leader, state(image).isr) == (1, (1, 2))
    assert (state(image, index=1).leader, state(image, index=1).isr) == (1, (1,))
    applied([BrokerChange(1, 0, fenced=True)], image)
    assert elect(image, UNCLEAN, {"t": [0, 2]})[1] == {"t": ["ELECTION_NOT_NEEDED", "ELIGIBLE_LEADERS_NOT_AVAILABLE"]}


def test_a_request_for_all_partitions_returns_elections_only() -> None:
    image = with_topic(with_topic(three_brokers(), "t", (1, 2), isr=(2, 1)), "u", (1,))
    assert elect(image, PREFERRED, None) == ("NONE", {"t": ["NONE"], "u": []})


def test_an_unknown_election_type_is_rejected() -> None:
    assert elect(with_topic(cluster(), "t", (1,)), 7, {"t": [0]}) == ("INVALID_REQUEST", {"t": ["INVALID_REQUEST"]})
    assert elect(cluster(), 7, None) == ("INVALID_REQUEST", {})
    assert elect(cluster(), 7, {}) == ("NONE", {})
