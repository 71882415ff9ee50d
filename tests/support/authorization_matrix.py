"""A table of requests and of grants, and what a node answers to each request under each grant.

    python -m support.authorization_matrix HOST:PORT REQUESTS FILE

records the answers of Apache Kafka to a file of requests: `tests/broker/apis/authorization_requests.txt`, of those that
brokers answer, or `controller_authorization_requests.txt` beside it, of those that controllers do. It needs a node
with the StandardAuthorizer, whose listener is of protocol SASL_PLAINTEXT with the mechanism PLAIN, the super user
`admin` (password `admin-secret`) and the user `alice` (`alice-secret`), and `delegation.token.secret.key`.
`tests/broker/apis/test_authorization.py` compares them with the answers of minikafka.

An answer is reduced to its error codes, to the names that it shows, and to authorized operations (`summary`). All
requests are repeatable: what they change does not change the answer to another one.
"""

from __future__ import annotations

import base64
import json
import re
import sys
import time
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from minikafka.protocol.acl_codes import CLUSTER_NAME, AclOperation, AclPermission, AclResourceType, PatternType
from minikafka.protocol.errors import ErrorCode
from support.conversation_player import Connection
from support.conversation_values import API_BY_NAME, comparable

NO_PRODUCER = 999_999
"""The producer id of the requests; all other producer ids change from run to run."""
TOPIC, OTHER_TOPIC, GROUP, TRANSACTION = "t-a", "t-b", "g-a", "x-a"
"""What the requests are about; the grants are about all but the other topic."""
OWNER = "User:bob"
"""Whose delegation token the requests are about."""
USER = "User:alice"


class Grant(NamedTuple):
    """An ACL for alice."""

    permission: AclPermission
    operation: AclOperation
    resource_type: AclResourceType
    pattern_type: PatternType
    name: str

    def covers(self, resource_type: AclResourceType, name: str) -> bool:
        if self.resource_type is not resource_type:
            return False
        if self.pattern_type is PatternType.PREFIXED:
            return name.startswith(self.name)
        return self.name in (name, "*")


def _allow(operation: AclOperation, kind: AclResourceType, name: str, pattern: PatternType) -> Grant:
    return Grant(AclPermission.ALLOW, operation, kind, pattern, name)


_T, _G, _C, _X, _D, _U = (
    AclResourceType.TOPIC,
    AclResourceType.GROUP,
    AclResourceType.CLUSTER,
    AclResourceType.TRANSACTIONAL_ID,
    AclResourceType.DELEGATION_TOKEN,
    AclResourceType.USER,
)
_NAMES = {_T: TOPIC, _G: GROUP, _C: CLUSTER_NAME, _X: TRANSACTION, _D: "*", _U: OWNER}
_PREFIXES = {_T: "t-", _G: "g-", _X: "x-", _U: "User:"}
_A = AclOperation
_OPERATIONS = {
    _T: (_A.READ, _A.WRITE, _A.CREATE, _A.DELETE, _A.ALTER, _A.DESCRIBE, _A.DESCRIBE_CONFIGS, _A.ALTER_CONFIGS),
    _G: (_A.READ, _A.DELETE, _A.DESCRIBE, _A.DESCRIBE_CONFIGS),
    _C: (_A.CREATE, _A.ALTER, _A.DESCRIBE, _A.CLUSTER_ACTION, _A.DESCRIBE_CONFIGS, _A.IDEMPOTENT_WRITE),
    _X: (_A.WRITE, _A.DESCRIBE),
    _D: (_A.DESCRIBE,),
    _U: (_A.CREATE_TOKENS, _A.DESCRIBE_TOKENS),
}


def columns() -> dict[str, list[Grant]]:
    """The sets of grants by name: none, each single one, everything by prefix or wildcard, and all but one (DENY)."""
    every = {kind: name if kind is _C else "*" for kind, name in _NAMES.items()}
    everything = [_allow(_A.ALL, kind, name, PatternType.LITERAL) for kind, name in every.items()]
    prefixed = [_allow(_A.ALL, kind, prefix, PatternType.PREFIXED) for kind, prefix in _PREFIXES.items()]
    found: dict[str, list[Grant]] = {"none": [], "prefixes": prefixed, "everything": everything}
    for kind, operations in _OPERATIONS.items():
        for operation in operations:
            label, name = f"{operation.name} {kind.name}", _NAMES[kind]
            found[label] = [_allow(operation, kind, name, PatternType.LITERAL)]
            deny = Grant(AclPermission.DENY, operation, kind, PatternType.LITERAL, name)
            found[f"all but {label}"] = [*everything, deny]
    read = [_allow(_A.READ, kind, _NAMES[kind], PatternType.LITERAL) for kind in (_T, _G)]
    write = [_allow(_A.WRITE, kind, _NAMES[kind], PatternType.LITERAL) for kind in (_T, _X)]
    return found | {"a consumer": read, "a producer": write, "both": read + write}


@dataclass(frozen=True)
class Row:
    """A request. In its body `$t-a` stands for the id of the topic, and `$hmac` for that of the delegation token."""

    name: str
    api: str
    version: int
    body: dict[str, Any]


APIS = Path(__file__).resolve().parents[1] / "broker" / "apis"
_ROW = re.compile(r"(?P<name>.+?): (?P<api>\w+) v(?P<version>\d+) (?P<body>{.*})")


def rows_of(path: Path) -> Iterator[Row]:
    """The requests in a file."""
    for line in path.read_text().splitlines():
        if not line.startswith("#"):
            found = _ROW.fullmatch(line)
            assert found is not None, line
            yield Row(found["name"], found["api"], int(found["version"]), json.loads(found["body"]))


OF_BROKERS = list(rows_of(APIS / "authorization_requests.txt"))
OF_CONTROLLERS = list(rows_of(APIS / "controller_authorization_requests.txt"))
ROWS = OF_BROKERS + OF_CONTROLLERS
OF_BOB: dict[str, Any] = {"owner_principal_type": "User", "owner_principal_name": "bob"}
A_TOKEN = "CreateDelegationToken", 3, {**OF_BOB, "renewers": [], "max_lifetime_ms": -1}
"""The request of the super user for bob's token."""
_SHOWN = ("name", "topic", "topic_name", "group_id", "transactional_id", "resource_name", "producer_id", "key")
_LEFT_OUT = ("brokers", "configs", "nodes", "current_voters", "observers", "members", "records")


def summary(answer: Any) -> Any:
    """An answer in its comparable form, reduced to error codes, names and authorized operations."""
    if isinstance(answer, list):
        return sorted((summary(one) for one in answer), key=json.dumps)
    if not isinstance(answer, dict):
        return answer
    kept: dict[str, Any] = {}
    for name, value in answer.items():
        if name in _LEFT_OUT:
            continue
        shown_name = name in _SHOWN and value is not None and (name != "producer_id" or value == NO_PRODUCER)
        if isinstance(value, list) and value and isinstance(value[0], dict):
            kept[name] = summary(value)
        elif shown_name or "error_code" in name or name.endswith("authorized_operations"):
            kept[name] = value
        elif name == "topic_id" and value.startswith("00000000-0000-0000-0000"):
            kept[name] = "unknown"
    return kept


def body_of(row: Row, topic_id: bytes, hmac: bytes) -> dict[str, Any]:
    """The request of a row, with the id of the topic and the HMAC of the token."""
    text = json.dumps(row.body).replace(f"${TOPIC}", str(uuid.UUID(bytes=topic_id)))
    text = text.replace("$hmac", f"base64:{base64.b64encode(hmac).decode()}")
    body: dict[str, Any] = json.loads(text)
    return body


def answer_of(row: Row, response: Any) -> Any:
    """The summary of a response."""
    found = summary(shown((row.api, row.version, row.body), response))
    if row.name in ("Metadata of all", "DescribeTopicPartitions of all"):  # a node may have other topics
        found["topics"] = [one for one in found.get("topics", ()) if one["name"].startswith("t-")]
    return found


# -- recording -------------------------------------------------------------------------------------------------


class Recorder:
    """Asks Apache Kafka."""

    def __init__(self, address: tuple[str, int]) -> None:
        self.admin, self.alice = (_logged_in(address, user) for user in ("admin", "alice"))
        self.granted: list[Grant] = []

    def prepare(self) -> tuple[bytes, bytes]:
        """Create what the requests are about; returns the id of the topic, and the HMAC of the token."""
        created = [{"name": name, "num_partitions": 1, "replication_factor": 1} for name in (TOPIC, OTHER_TOPIC)]
        self.admin.ask("CreateTopics", 7, {"topics": created, "timeout_ms": 9000})
        for request in preparations():
            deadline = time.monotonic() + 30
            while has_error(shown(request, self.admin.ask(*request))) and time.monotonic() < deadline:
                time.sleep(0.1)
        topics = self.admin.ask("Metadata", 12, {"topics": [{"name": TOPIC}]}).topics
        hmac = self.admin.ask(*A_TOKEN).hmac
        renewal = {"hmac": f"base64:{base64.b64encode(hmac).decode()}", "renew_period_ms": -1}
        while self.admin.ask("RenewDelegationToken", 2, renewal).error_code == ErrorCode.DELEGATION_TOKEN_NOT_FOUND:
            time.sleep(0.1)
        return topics[0].topic_id, hmac

    def grant(self, grants: list[Grant]) -> None:
        """Replace alice's ACLs."""
        everything = {"resource_type_filter": 1, "pattern_type_filter": 1, "operation": 1, "permission_type": 1}
        everything |= {"resource_name_filter": None, "principal_filter": None, "host_filter": None}
        self.admin.ask("DeleteAcls", 3, {"filters": [everything]})
        self.admin.ask("CreateAcls", 3, {"creations": [_creation(one) for one in grants]})
        while self._granted(everything) != len(grants):
            time.sleep(0.01)

    def _granted(self, everything: dict[str, Any]) -> int:
        resources = self.admin.ask("DescribeAcls", 3, everything).resources
        return sum(len(one.acls) for one in resources)

    def record(self, rows: list[Row]) -> dict[str, Any]:
        topic_id, hmac = self.prepare()
        answers: dict[str, dict[str, Any]] = {row.name: {} for row in rows}
        for label, grants in columns().items():
            self.grant(grants)
            for row in rows:
                response = self.alice.ask(row.api, row.version, body_of(row, topic_id, hmac))
                answers[row.name][label] = answer_of(row, response)
        return compact(answers)


def preparations() -> Iterator[tuple[str, int, dict[str, Any]]]:
    """Requests of the super user, each repeated until it succeeds."""
    yield "FindCoordinator", 4, {"key_type": 0, "coordinator_keys": [GROUP]}
    yield "FindCoordinator", 4, {"key_type": 1, "coordinator_keys": [TRANSACTION]}
    topics = [{"name": name, "partitions": [{"partition_index": 0, "timestamp": -1}]} for name in (TOPIC, OTHER_TOPIC)]
    yield "ListOffsets", 8, {"replica_id": -1, "topics": topics}
    committed = [{"partition_index": 0, "committed_offset": 3}]
    offsets = [{"name": name, "partitions": committed} for name in (TOPIC, OTHER_TOPIC)]
    yield "OffsetCommit", 8, {"group_id": GROUP, "topics": offsets}
    yield "OffsetCommit", 8, {"group_id": "g-b", "topics": offsets}
    yield "InitProducerId", 4, {"transactional_id": TRANSACTION, "transaction_timeout_ms": 60_000}
    yield "ListGroups", 4, {}
    yield "ListTransactions", 1, {}


def shown(request: tuple[str, int, dict[str, Any]], response: Any) -> dict[str, Any]:
    """The response to a request in its comparable form."""
    return comparable(API_BY_NAME[request[0]].response, request[1], response)


def has_error(answer: Any) -> bool:
    """Whether an answer in its comparable form, or a part of it, has an error code."""
    if isinstance(answer, list):
        return any(map(has_error, answer))
    if not isinstance(answer, dict):
        return False
    return any((name.endswith("error_code") and value) or has_error(value) for name, value in answer.items())


def compact(answers: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """Each distinct answer of a row once, with the columns that have it."""
    table: dict[str, Any] = {}
    for row, by_column in answers.items():
        columns_of: dict[str, list[str]] = {}
        for label, answer in by_column.items():
            columns_of.setdefault(json.dumps(answer, sort_keys=True), []).append(label)
        table[row] = [{"answer": json.loads(text), "grants": labels} for text, labels in columns_of.items()]
    return table


def _creation(grant: Grant) -> dict[str, Any]:
    return {
        "resource_type": grant.resource_type, "resource_name": grant.name, "resource_pattern_type": grant.pattern_type,
        "principal": USER, "host": "*", "operation": grant.operation, "permission_type": grant.permission,
    }


def _logged_in(address: tuple[str, int], user: str) -> Connection:
    connection = Connection(address)
    connection.ask("SaslHandshake", 1, {"mechanism": "PLAIN"})
    answer = connection.ask("SaslAuthenticate", 2, {"auth_bytes": f"\0{user}\0{user}-secret"})
    assert answer.error_code == ErrorCode.NONE, answer
    return connection


if __name__ == "__main__":
    host, _, port = sys.argv[1].rpartition(":")
    table = Recorder((host, int(port))).record(list(rows_of(Path(sys.argv[2]))))
    lines = (f"{json.dumps(row)}: {json.dumps(answers)}" for row, answers in table.items())
    Path(sys.argv[3]).write_text("{\n" + ",\n".join(lines) + "\n}\n")
