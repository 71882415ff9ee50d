"""Leaves a transaction open, by a client of another project."""

from __future__ import annotations

import confluent_kafka


def open_transaction(bootstrap: str, topic: str) -> None:
    """Begin a transaction with one record, by a client that goes away. The transactional id is the topic's name."""
    producer = confluent_kafka.Producer(
        {"bootstrap.servers": bootstrap, "transactional.id": topic, "transaction.timeout.ms": 600_000}
    )
    producer.init_transactions(30)
    producer.begin_transaction()
    producer.produce(topic, b"open")
    producer.flush(30)
