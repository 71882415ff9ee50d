"""Every setting with values that no sensible client sends, directly and forwarded: the answers are those of Kafka."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator, Mapping
from functools import partial
from pathlib import Path
from random import Random
from typing import Any, TypeVar

import pytest
from support.controller_process import standalone_node
from support.controllers import with_controller
from support.conversation_player import Connection
from support.conversation_values import API_BY_NAME, to_message
from support.hostile_settings import (
    AT_BROKERS,
    AT_CONTROLLERS,
    CRASHES,
    FILE,
    ROUTES,
    SURROGATE,
    VALUES,
    Asked,
    Route,
    recorded,
    rendered,
    row,
)
from support.oracle import KAFKA_ITSELF, Oracle, needs_oracle
from support.quorum import Controllers, create, register, run

from minikafka.controller.direct_requests import DirectRequests
from minikafka.controller.failures import FAILURES
from minikafka.controller.security.access import UNRESTRICTED
from minikafka.protocol.message import decode, encode
from minikafka.storage.disks.memory_disk import MemoryDisk

T = TypeVar("T")
Ask = Callable[[str, int, dict[str, Any]], Any]
NO_UNICODE = b"\xed\xa0\x80"
KAFKAS = {"num_io_threads": "4", "num_network_threads": "2", "log_cleaner_dedupe_buffer_size": str(8 << 20)}
"""The settings of the node that was recorded, as far as answers depend on them."""
CONTROLLER_ABOVE = 100
"""How far the controller port of Apache Kafka's node is above its client port."""


class Client(Connection):
    """A connection that sends what is no Unicode, and comes back after it was closed."""

    def _send(self, data: bytes) -> None:
        super()._send(data.replace(SURROGATE.encode(), NO_UNICODE))


def asker(address: tuple[str, int]) -> Ask:
    """Asks a node over a socket."""
    connections = [Client(address)]

    def ask(api: str, version: int, body: dict[str, Any]) -> Any:
        response = connections[-1].ask(api, version, body)
        if response is None:
            connections.append(Client(address))
        return response

    return ask


def as_sent(cls: type, version: int, message: Any) -> Any:
    """A message as it is after it was sent."""
    return decode(cls, version, encode(message, version).replace(SURROGATE.encode(), NO_UNICODE))


def over_the_wire(ask: Ask, asking: Generator[Asked, Any, T]) -> T:
    """The result of a generator that a node answers."""
    try:
        asked = next(asking)
        while True:
            asked = asking.send(ask(*asked))
    except StopIteration as done:
        result: T = done.value
        return result


async def in_process(handle: Callable[[Any, int], Awaitable[Any]], asking: Generator[Asked, Any, T]) -> T:
    """The result of a generator that a controller answers."""
    try:
        api, version, body = next(asking)
        while True:
            kind = API_BY_NAME[api]
            sent = as_sent(kind.request, version, to_message(kind.request, version, body))
            response = as_sent(kind.response, version, await handle(sent, version))
            api, version, body = asking.send(response)
    except StopIteration as done:
        result: T = done.value
        return result


def checking(routes: Mapping[str, Route]) -> Generator[Asked, Any, None]:
    """Where Kafka itself crashed any error of a client's making is right."""
    kafkas, different = recorded(), []
    for name, route in routes.items():
        for setting in route.settings:
            ours = yield from row(route, setting)
            for value, expected, answered in zip(VALUES, kafkas[name, setting], ours, strict=True):
                right = answered not in f"{CRASHES}." if expected in CRASHES else answered == expected
                if not right:
                    different.append(f"{name} {setting}={value}: Kafka {expected}, here {answered}")
    assert not different, "\n".join(different)


@pytest.mark.slow
def test_every_setting_and_value_is_answered_as_by_kafka() -> None:
    async def use(controller: Any) -> None:
        failed = FAILURES.total()
        direct = DirectRequests(controller, controller._static, Random(0))
        await in_process(controller.handle, checking(AT_BROKERS))
        await in_process(partial(direct.handle, access=UNRESTRICTED), checking(AT_CONTROLLERS))
        assert FAILURES.total() == failed

    with_controller(MemoryDisk(Random(0)), use, **KAFKAS)


FORWARDED = [name for name in AT_BROKERS if name not in ("broker", "all brokers")]


@pytest.mark.parametrize("name", FORWARDED)
def test_every_setting_and_value_is_answered_alike_where_it_is_forwarded(name: str) -> None:
    """A node that does not lead the quorum is asked; all nodes go on, and accept the next change."""

    async def scenario(cluster: Controllers) -> None:
        await cluster.start(1, 2, 3)
        leader = await cluster.leader()
        if leader.node_id == 1:
            await cluster[1].resign()
            leader = await cluster.leader((2, 3))
        await register(leader.controller, leader.node_id)
        await cluster.agree()
        cluster.stay_alive(leader.node_id)
        await in_process(cluster[1].handle, checking({name: ROUTES[name]}))
        assert await create(cluster[1], "afterwards") == [0]
        assert len(cluster.running) == 3
        assert not any(one.ended.is_set() for one in cluster.running.values())

    run(scenario, given={key.replace("_", "."): text for key, text in KAFKAS.items()}, seed=1)


SAMPLE = {
    "topic": "retention.ms",
    "topic as a whole": "min.cleanable.dirty.ratio",
    "new topic": "leader.replication.throttled.replicas",
    "broker": "log.cleaner.io.buffer.load.factor",
    "all brokers": "max.connections.per.ip.overrides",
    "group": "consumer.session.timeout.ms",
    "client metrics": "match",
    "level of a logger": "root",
    "logger": "INFO",
}


@pytest.mark.slow
def test_a_node_answers_values_of_each_kind_and_goes_on(tmp_path: Path) -> None:
    """At both listeners; then the values are set, one after the other, and the node still answers."""
    node, controller = standalone_node(tmp_path / "data")
    with node:
        at_broker, at_controller = asker(node.address), asker(controller)
        for name, setting in SAMPLE.items():
            one = {name: _only(name, setting)}
            over_the_wire(at_broker, checking(one))
            if (other := f"{name} at the controller") in AT_CONTROLLERS:
                over_the_wire(at_controller, checking({other: _only(other, setting)}))
        kinds = {2: SAMPLE["new topic"], 4: SAMPLE["all brokers"], 16: "match", 32: SAMPLE["group"]}
        made = {"name": "x", "num_partitions": 1, "replication_factor": 1}
        assert not at_broker("CreateTopics", 7, {"timeout_ms": 9_000, "topics": [made]}).topics[0].error_code
        for ask in (at_broker, at_controller):
            for kind, setting in kinds.items():
                for value in VALUES.values():
                    config = {"name": setting, "value": value}
                    resource = {"resource_type": kind, "resource_name": "x" if kind != 4 else "", "configs": [config]}
                    assert ask("IncrementalAlterConfigs", 1, {"resources": [resource]}) is not None
                    described = {"resource_type": kind, "resource_name": "x" if kind != 4 else "1"}
                    answer = ask("DescribeConfigs", 4, {"resources": [described]})
                    assert answer is not None
                    assert answer.results[0].error_code == 0
        assert node.running
        assert "Traceback" not in node.log_tail(1_000)


def _only(name: str, setting: str) -> Any:
    route = ROUTES[name]
    return type(route)({setting: route.settings[setting]}, route.results, route.alone)


@needs_oracle
class TestTheRecordedAnswers:
    pytestmark = [*KAFKA_ITSELF, pytest.mark.slow, pytest.mark.timeout(300)]

    def test_they_are_those_of_kafka(self, tmp_path: Path) -> None:
        """The file is written anew beside the test's data, to be copied after a change of the values."""
        rows: dict[tuple[str, str], str] = {}
        with Oracle(tmp_path / "kafka") as kafka:
            for name, route in ROUTES.items():
                above = CONTROLLER_ABOVE if name in AT_CONTROLLERS else 0
                ask = asker((kafka.address[0], kafka.port + above))
                rows |= {(name, setting): over_the_wire(ask, row(route, setting)) for setting in route.settings}
            kafka.terminate()
        text = "\n".join([*rendered(rows), ""])
        (tmp_path / FILE.name).write_text(text)
        assert text == FILE.read_text(), f"see {tmp_path / FILE.name}"
