"""Every string of every API with texts that no sensible client sends: a node answers, as Kafka does, and goes on."""

from __future__ import annotations

import time
from collections.abc import Generator, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from support.controller_process import standalone_node
from support.conversation_player import ANSWER_TIMEOUT_S, Connection
from support.conversation_values import API_BY_NAME, to_message
from support.hostile_settings import SURROGATE
from support.hostile_strings import FILE, TEXTS, asking, recorded, rendered
from support.oracle import KAFKA_ITSELF, Oracle, needs_oracle
from support.quorum import Controllers, create, register, run

from minikafka.broker.apis.at_controllers import CONTROLLER_HANDLERS
from minikafka.broker.apis.forwarded import HANDLERS as FORWARDED
from minikafka.broker.apis.handler_table import HANDLERS
from minikafka.broker.connections.routes import routes_of
from minikafka.controller.failures import FAILURES
from minikafka.protocol.message import decode, encode

NO_UNICODE = b"\xed\xa0\x80"
SETTINGS = {
    "offsets.topic.num.partitions": 2,
    "transaction.state.log.num.partitions": 2,
    "auto.create.topics.enable": "false",
    "group.initial.rebalance.delay.ms": 0,
}
NOT_OF_KAFKA = {"AddRaftVoter", "RemoveRaftVoter", "UpdateRaftVoter", "ControllerRegistration", "Envelope"}
"""They end the process of Kafka, or are answered by minikafka in its own way: it has to answer."""
LASTS = ("JoinGroup", 0)
"""A rebalance takes as long as the session of the member then, which has to outlast the test."""
KAFKA_WAITS_S = 3
"""Kafka does not answer at all where it cannot encode the answer."""
KAFKA_FAILED = {"closed", "-1"}


class Client(Connection):
    """A connection that sends what is no Unicode."""

    def _send(self, data: bytes) -> None:
        super()._send(data.replace(SURROGATE.encode(), NO_UNICODE))


def versions(modules: list[Any]) -> Iterator[tuple[str, int]]:
    """The first and the last version of each API."""
    for route in routes_of(modules).values():
        both = {(route.name, version) for version in (route.min_version, route.max_version)}
        yield from sorted(both - {LASTS})


def answers_of(
    address: tuple[str, int], apis: Iterator[tuple[str, int]], patience_s: float = ANSWER_TIMEOUT_S
) -> dict[str, list[str]]:
    """The answers of a node, for each string."""
    connections, answers = [Client(address)], dict[str, list[str]]()
    for api, version in apis:
        strings = asking(api, version)
        try:
            asked = next(strings)
            while True:
                connections[-1].send(*asked)
                received = connections[-1].receive(patience_s)
                if isinstance(received, str):
                    connections.append(Client(address))
                asked = strings.send(None if isinstance(received, str) else received[1])
        except StopIteration as done:
            answers |= done.value
    return answers


def coordinators_are_ready(address: tuple[str, int]) -> None:
    """Both kinds, and there are producer ids."""
    connection = Connection(address)
    for kind in (0, 1):
        keys = {"key_type": kind, "coordinator_keys": ["x"]}
        _until_ready(connection, "FindCoordinator", 4, keys, lambda answer: answer.coordinators[0].error_code)
    begin = {"transactional_id": "x", "transaction_timeout_ms": 1_000, "producer_id": -1, "producer_epoch": -1}
    _until_ready(connection, "InitProducerId", 4, begin, lambda answer: answer.error_code)
    _until_ready(connection, "DescribeGroups", 5, {"groups": ["x"]}, lambda answer: answer.groups[0].error_code)


def _until_ready(connection: Connection, api: str, version: int, body: dict[str, Any], code: Any) -> None:
    while code(connection.ask(api, version, body)):
        time.sleep(0.05)


def check(answers: Mapping[str, list[str]]) -> None:
    """Where Kafka itself fails any error of a client's making is right; a bug of minikafka never is."""
    kafkas, different = recorded(), []
    for name, found in answers.items():
        for text, expected, answered in zip(TEXTS, kafkas.get(name, found), found, strict=True):
            bad = set(answered.split("+")) & KAFKA_FAILED
            if bad or (answered != expected and not set(expected.split("+")) & KAFKA_FAILED):
                different.append(f"{name} = {text}: Kafka {expected}, here {answered}")
    assert not different, "\n".join(different)


@pytest.mark.slow
def test_every_string_is_answered_as_by_kafka(tmp_path: Path) -> None:
    node, controller = standalone_node(tmp_path / "data")
    node.settings.update(SETTINGS)
    with node:
        coordinators_are_ready(node.address)
        check(answers_of(node.address, versions(HANDLERS)))
        at_controllers = {name: found for name, found in _at_controllers(controller).items() if "Fetch " not in name}
        assert not [name for name, found in at_controllers.items() if KAFKA_FAILED & set("+".join(found).split("+"))]
        assert node.running
        assert "Traceback" not in node.log_tail(10_000)


def _at_controllers(address: tuple[str, int]) -> dict[str, list[str]]:
    return answers_of(address, versions(CONTROLLER_HANDLERS))


def test_every_string_that_is_forwarded_is_answered() -> None:
    """A node that does not lead the quorum is asked, and all nodes go on."""

    async def scenario(cluster: Controllers) -> None:
        await cluster.start(1, 2, 3)
        leader = await cluster.leader()
        await register(leader.controller, leader.node_id)
        cluster.stay_alive(leader.node_id)
        await cluster.agree()
        failed, follower = FAILURES.total(), leader.node_id % 3 + 1
        for api, version in versions(FORWARDED):
            await _answered(cluster[follower].handle, asking(api, version))
        assert FAILURES.total() == failed
        assert await create(cluster[follower], "afterwards") == [0]
        assert not any(one.ended.is_set() for one in cluster.running.values())

    run(scenario)


async def _answered(handle: Any, strings: Generator[Any, Any, Any]) -> None:
    try:
        api, version, body = next(strings)
        while True:
            kind = API_BY_NAME[api]
            data = encode(to_message(kind.request, version, body), version).replace(SURROGATE.encode(), NO_UNICODE)
            response = await handle(decode(kind.request, version, data), version)
            encode(response, version)
            api, version, body = strings.send(response)
    except StopIteration:
        return


@needs_oracle
class TestTheRecordedAnswers:
    pytestmark = [*KAFKA_ITSELF, pytest.mark.slow, pytest.mark.timeout(300)]

    def test_they_are_those_of_kafka(self, tmp_path: Path) -> None:
        """The file is written anew beside the test's data, to be copied after a change of the texts."""
        with Oracle(tmp_path / "kafka", settings=SETTINGS) as kafka:
            coordinators_are_ready(kafka.address)
            apis = (one for one in versions(HANDLERS) if one[0] not in NOT_OF_KAFKA)
            answers = answers_of(kafka.address, apis, KAFKA_WAITS_S)
            kafka.terminate()
        (tmp_path / FILE.name).write_text(rendered(answers))
        assert rendered(answers) == FILE.read_text(), f"see {tmp_path / FILE.name}"
