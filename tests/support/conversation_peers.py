"""Two servers that are sent the same random requests, and their responses in a comparable form."""

from __future__ import annotations

import json
import re
import time
import zlib
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from support.conversation_names import Names
from support.conversation_player import ANSWER_TIMEOUT_S, Connection
from support.conversation_values import comparable, in_one_order, spell_out

UNBOUND = {
    "topic_id": "00000000-0000-0000-0000-0000000000ff",
    "member_id": "nobody",
    "session_id": 0,
}
NAMES = {"name", "topic", "topic_id"}
NOT_READY = re.compile("NOT_LEADER_OR_FOLLOWER|COORDINATOR|LEADER_NOT_AVAILABLE|CONCURRENT_TRANSACTIONS")
READING = re.compile("Metadata|Describe|List")
"""Requests that are repeated while the responses differ: Kafka responds before a change is applied everywhere."""


class Peer:
    """One of the two servers.

    Args:
        address: of a server, or of one of several nodes.
    """

    def __init__(self, address: tuple[str, int], run: str, *, several_nodes: bool = False) -> None:
        self._address = address
        self._connection = Connection(address)
        self._nobody = zlib.crc32(run.encode()) << 16  # a producer id that no other run uses
        self.names = Names(run, several_nodes=several_nodes)

    def ask(self, api: str, version: int, body: dict[str, Any]) -> Any:
        """The response in its comparable form; the request is repeated while the node is not ready."""
        body = self.names.outward(self._bound(body))
        for _ in range(50):
            mark = self.names.mark()
            self._connection.send(api, version, body)
            received = self._connection.receive(ANSWER_TIMEOUT_S)
            if isinstance(received, str):
                self._connection.close()
                self._connection = Connection(self._address)
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


def ask_both(peers: list[Peer], api: str, version: int, body: dict[str, Any]) -> tuple[Any, Any]:
    """The responses of both; requests that only read are repeated while these differ."""
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
