"""What the source and the sink say where an authorizer refuses them: the name, the reason, and the right to give."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from support.guarded_nodes import GuardedNode, guarded_node

pytest.importorskip("pyspark")
pytest.importorskip("pyarrow")
from minikafka.protocol.error_codes import ErrorCode
from minikafka.protocol.errors import (
    ClusterAuthorizationFailedError,
    GroupAuthorizationFailedError,
    TransactionalIdAuthorizationFailedError,
)
from minikafka.spark_connector.brokers.offset_reader import OffsetReader
from minikafka.spark_connector.options.source_options import parse
from minikafka.spark_connector.sink.earlier_attempts import read_markers
from minikafka.spark_connector.sink.task_transaction import Transaction

pytestmark = pytest.mark.timeout(300)


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GuardedNode]:
    with guarded_node("minikafka", tmp_path_factory.mktemp("guarded")) as running:
        yield running


ASKED = [
    (
        lambda reader: Transaction(reader, "not hers").begin(60_000),
        TransactionalIdAuthorizationFailedError,
        r"^the coordinator of transactional id 'not hers': .* \(it needs WRITE on the transactional id\)$",
    ),
    (
        lambda reader: reader.commit("not hers", {}),
        GroupAuthorizationFailedError,
        r"^the coordinator of group 'not hers': .* \(it needs READ on the group\)$",
    ),
    (
        lambda reader: read_markers(reader, ["not hers"], stable=False),
        GroupAuthorizationFailedError,
        r"^FindCoordinator of not hers: .* \(it needs READ on the group\)$",
    ),
]


@pytest.mark.parametrize(("ask", "kind", "said"), ASKED, ids=["transaction", "progress", "markers"])
def test_a_refusal_names_the_right_that_is_missing(
    node: GuardedNode, ask: Callable[[OffsetReader], object], kind: type[Exception], said: str
) -> None:
    given = {f"kafka.{name}": value for name, value in node.properties("SCRAM-SHA-512").items()}
    bootstrap = node.address_of("SCRAM-SHA-512")
    reader = OffsetReader(parse({"kafka.bootstrap.servers": bootstrap, "subscribe": "t", **given}).kafka)
    with pytest.raises(kind, match=said):
        ask(reader)
    reader.close()


def test_a_producer_without_transactions_has_no_name() -> None:
    reader = OffsetReader(parse({"kafka.bootstrap.servers": "a:1", "subscribe": "t"}).kafka)
    with pytest.raises(ClusterAuthorizationFailedError) as raised:
        Transaction(reader, None)._check(ErrorCode.CLUSTER_AUTHORIZATION_FAILED, "InitProducerId")
    needed = "(it needs WRITE on a topic, or IDEMPOTENT_WRITE on the cluster)"
    assert str(raised.value) == f"InitProducerId: cluster authorization failed {needed}"
