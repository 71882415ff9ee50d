"""What each client shows of things that ACLs deny: a table, recorded of Apache Kafka (`make tool-outcomes`).

Bob's things exist, alice asks for them.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from minikafka.client import NewTopic
from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.names import TopicPartition
from support.clients import Client, Outgoing, Reader, Refused, closing, connect, eventually
from support.guarded_nodes import OWN, GuardedNode

BOBS, MISSING, MINE = "bobs", "missing", f"{OWN}mine"
"""A topic of bob, one that does not exist, and one of alice; groups and transactional ids have these names too."""
LISTED = f"{OWN}listed"
"""A group of alice that has no members."""
WAY = "SCRAM-SHA-512"
TABLE = Path(__file__).parents[1] / "compatibility" / "guarded" / "denied_things.json"
RECORDING = "MINIKAFKA_RECORD_TOOLS" in os.environ
NOTHING, NOTHING_FOR_S = "returns []", 10.0 if RECORDING else 2.0
"""What a client shows that keeps an error to itself, and for how long it is asked: only errors are waited for."""
PATIENCE_S = 60.0


def _polled(reader: Reader, patience_s: float) -> object:
    with closing(reader):
        return reader.poll(patience_s)


RECORDS = [Outgoing(b"x", partition=0)]
THINGS: dict[str, Callable[[Client, float], object]] = {
    "write to a topic": lambda client, _: client.produce(BOBS, RECORDS),
    "write to a topic with idempotence": lambda client, _: client.produce(BOBS, RECORDS, idempotent=True),
    "write to a missing topic": lambda client, _: client.produce(MISSING, RECORDS),
    "read a topic": lambda client, patience_s: _polled(client.reader(BOBS), patience_s),
    "read a missing topic": lambda client, patience_s: _polled(client.reader(MISSING), patience_s),
    "join a group": lambda client, patience_s: _polled(client.member(BOBS, [MINE]), patience_s),
    "subscribe to a topic": lambda client, patience_s: _polled(client.member(MINE, [BOBS]), patience_s),
    "use a transactional id": lambda client, _: client.transact(BOBS, MINE, [([b"x"], True)]),
    "write to a topic in a transaction": lambda client, _: client.transact(MINE, BOBS, [([b"x"], True)]),
    "create a topic": lambda client, _: client.create_topic(f"{BOBS}-new"),
    "delete a topic": lambda client, _: client.delete_topic(BOBS),
    "add partitions": lambda client, _: client.add_partitions(BOBS, total=4),
    "describe settings": lambda client, _: client.describe_settings(BOBS),
    "alter settings": lambda client, _: client.alter_settings(BOBS, {"retention.ms": "1000"}),
    "delete records": lambda client, _: client.delete_records(BOBS, before_offset=0),
    "ask for offsets": lambda client, _: client.offsets(BOBS),
    "list topics": lambda client, _: sorted(set(client.topics()) & {BOBS, MINE, MISSING}),
    "list groups": lambda client, _: sorted(client.groups() & {BOBS, LISTED}),
}


def recorded() -> dict[str, dict[str, Any]]:
    """What each client shows of each thing with Apache Kafka."""
    table: dict[str, dict[str, Any]] = json.loads(TABLE.read_text())
    return table


def expected(client: str, shown: Mapping[str, Any], node_kind: str) -> dict[str, Any]:
    """What a client should show: that of the table, where what it shows of Apache Kafka may be recorded."""
    if RECORDING and node_kind == "kafka":
        TABLE.write_text(json.dumps({**recorded(), client: shown}, indent=2) + "\n")
    return recorded()[client]


def outcomes(node: GuardedNode, name: str) -> dict[str, str]:
    """What a client shows of each thing: the error's name, or what it returned.

    Args:
        name: as in `support.clients.CLIENTS`.
    """
    table = {} if RECORDING else recorded()[name]
    options = {**node.options_of(name, WAY), **({"request_timeout_ms": 2_000} if name == "aiokafka" else {})}
    with connect(name, node.address_of(WAY), **options) as client:
        return {
            thing: _outcome(client, ask, NOTHING_FOR_S if table.get(thing, NOTHING) == NOTHING else PATIENCE_S)
            for thing, ask in THINGS.items()
        }


def _outcome(client: Client, ask: Callable[[Client, float], object], patience_s: float) -> str:
    try:
        return f"returns {ask(client, patience_s)}"
    except Refused as refusal:
        return ErrorCode(refusal.code).name if refusal.code > 0 else f"own error: {refusal.text}"


def prepare(node: GuardedNode) -> None:
    """Make what is bob's, and a topic of alice; does nothing if they exist."""
    with node.admin() as admin:
        admin.create_topics([NewTopic(name, partitions=2, replication_factor=1) for name in (BOBS, MINE)])
        eventually(lambda: {BOBS, MINE} <= set(admin.list_topics()))
        for group in (BOBS, LISTED):
            admin.alter_group_offsets(group, {TopicPartition(BOBS, 0): 0})
