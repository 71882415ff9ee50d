"""Clients that run beside a command of a table of tools (`tool_table`): a member of a group, an open transaction."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress

from confluent_kafka import Consumer, KafkaException, Producer

PATIENCE_S = 60.0


@contextmanager
def companions(told: list[str], bootstrap: str) -> Iterator[None]:
    """Those that a step names, until the end of the block."""
    with ExitStack() as stack:
        for sentence in told:
            stack.enter_context(_companion(sentence, bootstrap))
        yield


def _companion(sentence: str, bootstrap: str) -> AbstractContextManager[None]:
    for pattern, start in KINDS:
        if found := re.fullmatch(pattern, sentence):
            return start(bootstrap, *found.groups())
    raise ValueError(f"no client is described so: {sentence}")


@contextmanager
def _member(bootstrap: str, protocol: str, group: str, topic: str) -> Iterator[None]:
    """A member that has its partitions, and commits nothing."""
    assigned, ended = threading.Event(), threading.Event()
    options = {"group.protocol": protocol} if protocol == "consumer" else {"session.timeout.ms": 45_000}
    consumer = Consumer({
        "bootstrap.servers": bootstrap,
        "group.id": group,
        "client.id": "companion",
        "enable.auto.commit": False,
        **options,
    })
    consumer.subscribe([topic], on_assign=lambda *_: assigned.set())

    def poll() -> None:
        while not ended.is_set():
            consumer.poll(0.1)

    thread = threading.Thread(target=poll, daemon=True)
    thread.start()
    try:
        assert assigned.wait(PATIENCE_S), "the member has got no partitions"
        yield
    finally:
        ended.set()
        thread.join(PATIENCE_S)
        consumer.close()


@contextmanager
def _transaction(bootstrap: str, transactional_id: str, topic: str) -> Iterator[None]:
    """An open transaction with a record in partition 0, aborted at the end unless the command has ended it."""
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": transactional_id})
    producer.init_transactions(PATIENCE_S)
    producer.begin_transaction()
    producer.produce(topic, b"open", partition=0)
    assert producer.flush(PATIENCE_S) == 0
    try:
        yield
    finally:
        with suppress(KafkaException):
            producer.abort_transaction(PATIENCE_S)


KINDS: list[tuple[str, Callable[..., AbstractContextManager[None]]]] = [
    (r"(classic|consumer) member of (\S+) on (\S+)", _member),
    (r"transaction of (\S+) on (\S+)", _transaction),
]
