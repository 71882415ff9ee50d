"""Requests that wait for the active controller, and a broker that stops: what they hear when the controller is gone.

The active controller is paused, so that it decides nothing; then it is killed, or others take its place. The same tests
run against Apache Kafka: `MINIKAFKA_TESTS_ON=kafka`. Kafka sends all requests to the next controller, our brokers only
those that may be carried out twice; for the others they close the connection, so that the client asks again.
"""

from __future__ import annotations

import os
import signal
from typing import Any

import pytest
from support.clusters import ON_KAFKA, PATIENCE_S, Topic, active_controller
from support.conversation_player import CLOSED, NOTHING, Connection

from minikafka.cli.clusters.cluster_layout import HOST
from minikafka.cli.local_cluster import LocalCluster

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600 if ON_KAFKA else 300)]
SOON_S = 30
FOREVER_MS = 120_000

Requests = dict[str, tuple[int, dict[str, Any]]]


def idempotent(topic: str, replicas: list[int]) -> Requests:
    """Forwarded requests that may be carried out twice: they are sent to the next active controller."""
    setting = {"name": "retention.ms", "config_operation": 0, "value": "1000000"}
    changed = {"resource_type": 2, "resource_name": topic}
    moved = [{"partition_index": 0, "replicas": replicas}]
    quota = {
        "entity": [{"entity_type": "client-id", "entity_name": "a client"}],
        "ops": [{"key": "producer_byte_rate", "value": 1e9, "remove": False}],
    }
    return {
        "IncrementalAlterConfigs": (1, {"resources": [{**changed, "configs": [setting]}], "validate_only": False}),
        "AlterPartitionReassignments": (0, {"topics": [{"name": topic, "partitions": moved}]}),
        "AlterClientQuotas": (1, {"entries": [quota], "validate_only": False}),
    }


def others(topic: str) -> Requests:
    """Forwarded requests of which a second one would fail: our brokers leave it to the client to send it."""
    new = {"name": f"{topic}-new", "num_partitions": 1, "replication_factor": 1}
    more = {"name": topic, "count": 2, "assignments": None}
    return {
        "CreateTopics": (5, {"topics": [new], "timeout_ms": FOREVER_MS}),
        "CreatePartitions": (1, {"topics": [more], "timeout_ms": FOREVER_MS, "validate_only": False}),
        "DeleteTopics": (4, {"topic_names": [f"{topic}-old"], "timeout_ms": FOREVER_MS}),
    }


def three_parts(cluster: LocalCluster) -> tuple[int, int, int]:
    """The active controller, and two other nodes."""
    active = active_controller(cluster)
    second, third = (node_id for node_id in cluster.broker_ids if node_id != active)
    return active, second, third


def error_codes(response: Any) -> set[int]:
    """All error codes in a response."""
    values = {name: getattr(response, name) for name in response.__slots__}
    found = {value for name, value in values.items() if name == "error_code"}
    elements = [one for value in values.values() if isinstance(value, list) for one in value]
    return found.union(*(error_codes(one) for one in elements if hasattr(one, "__slots__")))


@pytest.mark.parametrize("event", ["killed", "paused"])
def test_forwarded_requests_are_answered_soon_after_the_active_controller_is_gone(
    three: LocalCluster, name: str, event: str
) -> None:
    if ON_KAFKA and event == "paused":
        pytest.skip("waits for request.timeout.ms before it asks the next controller")
    active, asked, third = three_parts(three)
    topic, old = Topic(three, name, [[active, asked, third]]), Topic(three, f"{name}-old", [[active, asked, third]])
    assert topic.state().replicas == old.state().replicas
    three.pause(active)
    requests = {**idempotent(name, [asked, third, active]), **others(name)}
    waiting = {api: Connection((HOST, three.nodes[asked].port)) for api in requests}
    for api, client in waiting.items():
        client.send(api, *requests[api])
    for number, (api, client) in enumerate(waiting.items()):
        assert client.receive(0 if number else 0.5) == NOTHING, f"{api} does not wait"
    if event == "killed":
        three.kill(active)
    answers = {api: client.receive(SOON_S) for api, client in waiting.items()}
    three.resume()
    for client in waiting.values():
        client.close()
    codes = {api: answer if isinstance(answer, str) else error_codes(answer[1]) for api, answer in answers.items()}
    assert codes == {api: CLOSED if api in others(name) and not ON_KAFKA else {0} for api in requests}


def test_a_broker_stops_soon_although_the_active_controller_dies_meanwhile(three: LocalCluster) -> None:
    active, stopping, _ = three_parts(three)
    three.pause(active)
    os.kill(three.pid(stopping), signal.SIGTERM)
    three.kill(active)
    three.stop(stopping, timeout_s=PATIENCE_S)
    assert three.exit_code(stopping) in (0, 128 + signal.SIGTERM)
