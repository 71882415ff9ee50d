"""What a commit says after a record of the transaction was refused: as Kafka's Java client says it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio
import pytest
from support.java_programs import lines_said, why_not_compiled
from support.node import NodeProcess

from minikafka.client import NewTopic, Producer, blocking
from minikafka.client.producer.transaction_state import AbortableTransactionError
from minikafka.protocol.errors import InvalidTopicError, MessageTooLargeError, UnknownTopicOrPartitionError

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(200)]
TIMED_OUT = "TransactionAbortableException of TimeoutException"
JAVA = {
    "too large": ("RecordTooLargeException", "RecordTooLargeException"),
    "beyond the memory": ("RecordTooLargeException", "RecordTooLargeException"),
    "invalid name": ("InvalidTopicException", "InvalidTopicException"),
    "no such topic": ("TimeoutException", f"{TIMED_OUT} of UnknownTopicOrPartitionException"),
    "no such partition": ("TimeoutException", TIMED_OUT),
    "a serializer that raises": ("SerializationException", "nothing"),
    "a partitioner that raises": ("UnsupportedOperationException", "nothing"),
    "refused by the broker": ("RecordTooLargeException", "RecordTooLargeException"),
}
"""The error of `send`, and that of the commit after it."""
AROUND = "KafkaException of "
"""It is around the error of a commit, unless the client's thread has not yet failed the transaction."""


def raises(*_: object) -> Any:
    raise ZeroDivisionError("no")


SMALL: dict[str, Any] = {"topic": "t", "value": b"x"}
OURS: dict[str, tuple[dict[str, Any], dict[str, Any], type[Exception]]] = {
    "too large": (SMALL | {"value": bytes(2_000_000)}, {}, MessageTooLargeError),
    "beyond the memory": (SMALL | {"value": bytes(60_000)}, {"buffer_memory": 50_000}, MessageTooLargeError),
    "invalid name": (SMALL | {"topic": "a b"}, {}, InvalidTopicError),
    "no such topic": (SMALL | {"topic": "u"}, {}, UnknownTopicOrPartitionError),
    "no such partition": (SMALL | {"partition": 7}, {}, ValueError),
    "a serializer that raises": (SMALL | {"value": 1}, {"value_serializer": raises}, ZeroDivisionError),
    "a partitioner that raises": (SMALL, {"partitioner": raises}, ZeroDivisionError),
    "refused by the broker": (SMALL | {"topic": "small", "value": bytes(5_000)}, {}, MessageTooLargeError),
}


@pytest.fixture(scope="module")
def bootstrap(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    settings = {"auto.create.topics.enable": "false"}
    with NodeProcess(tmp_path_factory.mktemp("refused") / "data", settings=settings) as node:
        with blocking.Admin(node.bootstrap) as admin:
            admin.create_topic("t")
            admin.create_topics([NewTopic("small", configs={"max.message.bytes": "1000"})])
        yield node.bootstrap


@pytest.mark.oracle
@pytest.mark.slow
@pytest.mark.skipif(why_not_compiled() is not None, reason=why_not_compiled() or "")
def test_javas_client_says_this(bootstrap: str, tmp_path: Path) -> None:
    said = lines_said(Path(__file__).with_name("RefusedSends.java"), tmp_path, bootstrap, timeout_s=150)
    expected = {f"{name}, send": sent for name, (sent, _) in JAVA.items()}
    expected |= {f"{name}, commit": committed for name, (_, committed) in JAVA.items()}
    assert {name: error.removeprefix(AROUND) for name, error in said.items()} == expected


@pytest.mark.parametrize("name", OURS)
async def test_ours_says_the_same(bootstrap: str, name: str) -> None:
    record, options, refusal = OURS[name]
    async with Producer(bootstrap, transactional_id="x", max_block_ms=1_000, **options) as producer:
        await producer.begin()
        with anyio.fail_after(20), pytest.raises(refusal):
            await producer.send_and_wait(**record)
        with anyio.fail_after(20):
            if JAVA[name][1] == "nothing":
                await producer.commit()
            else:
                with pytest.raises(AbortableTransactionError):
                    await producer.commit()
