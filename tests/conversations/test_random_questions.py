"""Sends the same random requests to Apache Kafka and minikafka and compares the responses; seeds reproduce a run."""

from __future__ import annotations

import json
import os
import random
import re
import time
import uuid
import zlib
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from support.conversation_areas import AREAS
from support.conversation_names import Names
from support.conversation_player import ANSWER_TIMEOUT_S, Connection, use_up_producer_id_zero
from support.conversation_questions import Questions
from support.conversation_values import comparable, in_one_order, spell_out
from support.node import NodeProcess, ServerProcess
from support.oracle import Oracle, needs_oracle

pytestmark = [needs_oracle, pytest.mark.oracle, pytest.mark.slow, pytest.mark.timeout(300)]

QUESTIONS = 30
FIRST = int(os.environ.get("MINIKAFKA_QUESTION_FIRST", "0"))
SEEDS = range(FIRST, FIRST + int(os.environ.get("MINIKAFKA_QUESTION_SEEDS", "3")))
UNBOUND = {
    "topic_id": "00000000-0000-0000-0000-0000000000ff",
    "member_id": "nobody",
    "session_id": 0,
}
SETTINGS = {
    "offsets.topic.num.partitions": 5,
    "transaction.state.log.num.partitions": 5,
    "group.consumer.assignment.interval.ms": 0,
}
NAMES = {"name", "topic", "topic_id"}
NOT_READY = re.compile("NOT_LEADER_OR_FOLLOWER|COORDINATOR|LEADER_NOT_AVAILABLE|CONCURRENT_TRANSACTIONS")
READING = re.compile("Metadata|Describe|List")
"""Requests that are repeated while the responses differ: Kafka responds before a change is applied everywhere."""
CHANGING = re.compile("Create|Delete(Topics|Groups)|Alter|EndTxn|InitProducerId|Update")


class Peer:
    """One of the two servers."""

    def __init__(self, server: ServerProcess, run: str) -> None:
        self._server = server
        self._connection = Connection(server.address)
        self._nobody = zlib.crc32(run.encode()) << 16  # a producer id that no other run uses
        self.names = Names(run)

    def ask(self, api: str, version: int, body: dict[str, Any]) -> Any:
        """The response in its comparable form; the request is repeated while the node is not ready."""
        body = self.names.outward(self._bound(body))
        for _ in range(50):
            mark = self.names.mark()
            self._connection.send(api, version, body)
            received = self._connection.receive(ANSWER_TIMEOUT_S)
            if isinstance(received, str):
                self._connection.close()
                self._connection = Connection(self._server.address)
                return received
            answer = _of_this_run(api, comparable(type(received[1]), version, received[1]), self.names.run)
            answer = _gathered(self.names.inward(spell_out(answer)))
            if not NOT_READY.search(json.dumps(answer)):
                return answer
            self.names.reset(mark)
            time.sleep(0.1)
        return answer

    def _bound(self, body: Any) -> Any:
        """The body with values for variables that no response has bound yet."""
        known = self.names.mark()[0]
        unbound = {**UNBOUND, "producer_id": self._nobody}

        def value(found: re.Match[str]) -> str:
            return found[0] if found[1] in known else json.dumps(unbound[found[2]])

        return json.loads(re.sub(r'"(\$([a-z_]+)\.\d+)"', value, json.dumps(body)))

    def close(self) -> None:
        self._connection.close()


def _gathered(answer: Any) -> Any:
    """Merges the entries of a topic and drops empty ones: Kafka returns unknown partitions in extra entries."""
    if not isinstance(answer, dict):
        return answer
    out = dict(answer)
    for array in ("topics", "responses"):
        topics: dict[str, dict[str, Any]] = {}
        for element in out.get(array, []):
            inner = next((key for key in element if key.startswith("partition")), "partitions")
            rest = {key: value for key, value in element.items() if key != inner}
            gathered = topics.setdefault(json.dumps(rest, sort_keys=True), rest)
            gathered[inner] = [*gathered.get(inner, []), *element.get(inner, [])]
        if array in out:
            out[array] = [topic for topic in topics.values() if any(topic[key] for key in set(topic) - NAMES)]
    return in_one_order({name: value for name, value in out.items() if value != []})


def _of_this_run(api: str, answer: dict[str, Any], run: str) -> dict[str, Any]:
    for array, key in (("groups", "group_id"), ("transaction_states", "transactional_id")):
        if api in ("ListGroups", "ListTransactions") and array in answer:
            answer[array] = [element for element in answer[array] if run in element.get(key, "")]
    for group in answer.get("groups", []) if api == "ConsumerGroupDescribe" else []:
        for member in group.get("members", []):
            member.get("subscribed_topic_names", []).sort()  # Kafka has a HashSet
    return answer


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Oracle, NodeProcess]]:
    folder = tmp_path_factory.mktemp("questions")
    with Oracle(folder / "kafka", settings=SETTINGS) as kafka, NodeProcess(folder / "ours", settings=SETTINGS) as ours:
        for server in (kafka, ours):
            use_up_producer_id_zero(server.address)
        yield kafka, ours
        kafka.terminate()


def ask_both(peers: list[Peer], api: str, version: int, body: dict[str, Any]) -> tuple[Any, Any]:
    expected = answered = None
    for _ in range(100):
        marks = [peer.names.mark() for peer in peers]
        with ThreadPoolExecutor(2) as both:
            expected, answered = both.map(lambda peer: peer.ask(api, version, body), peers)
        if expected == answered or not READING.match(api):
            break
        for peer, mark in zip(peers, marks, strict=True):
            peer.names.reset(mark)
        time.sleep(0.3)
    return expected, answered


def prepare(peers: list[Peer]) -> None:
    topics = [{"name": name, "num_partitions": n, "replication_factor": 1} for name, n in (("~a", 1), ("~b", 2))]
    ask_both(peers, "CreateTopics", 7, {"topics": topics})
    for name in ("~a", "~b"):
        partitions = [{"partition_index": 0, "timestamp": -1}]
        wanted = {"replica_id": -1, "isolation_level": 0, "topics": [{"name": name, "partitions": partitions}]}
        for peer in peers:
            while "UNKNOWN_TOPIC" in json.dumps(peer.ask("ListOffsets", 8, wanted)):
                time.sleep(0.05)
    for key_type, keys in ((0, ["~g", "~h"]), (1, ["~t", "~u"])):
        ask_both(peers, "FindCoordinator", 4, {"key_type": key_type, "coordinator_keys": keys})


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("area", AREAS)
def test_random_questions(area: str, seed: int, servers: tuple[Oracle, NodeProcess]) -> None:
    run = f"q{uuid.uuid4().hex[:8]}-"
    peers = [Peer(server, run) for server in servers]
    prepare(peers)
    questions = Questions(random.Random(f"{area} {seed}"), area)
    asked: list[str] = []
    for _ in range(QUESTIONS):
        api, version, body = questions.next()
        expected, answered = ask_both(peers, api, version, body)
        asked.append(f"{api} v{version} {json.dumps(body)}\n  kafka {json.dumps(expected)}")
        assert answered == expected, "\n".join([*asked, f"  here  {json.dumps(answered)}"])
        questions.learn(api, body, expected)
        if CHANGING.match(api):
            time.sleep(0.2)
    for peer in peers:
        peer.close()
