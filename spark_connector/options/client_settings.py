"""The names of all settings of Kafka's consumer and producer, which options may have after the prefix `kafka.`. Pure.

Source: ConsumerConfig and ProducerConfig of Apache Kafka 3.9, 4.3 and 4.4.
"""

from __future__ import annotations

_NAMES = """
    acks allow.auto.create.topics auto.commit.interval.ms auto.include.jmx.reporter auto.offset.reset batch.size
    bootstrap.resolve.timeout.ms bootstrap.servers buffer.memory buffer.memory.allocation.strategy check.crcs
    client.dns.lookup client.id client.rack compression.gzip.level compression.lz4.level compression.type
    compression.zstd.level config.providers connections.max.idle.ms default.api.timeout.ms delivery.timeout.ms
    enable.auto.commit enable.idempotence enable.metrics.push exclude.internal.topics fetch.max.bytes
    fetch.max.wait.ms fetch.min.bytes group.id group.instance.id group.protocol group.remote.assignor
    heartbeat.interval.ms interceptor.classes isolation.level key.deserializer key.serializer linger.ms
    max.block.ms max.in.flight.requests.per.connection max.partition.fetch.bytes max.poll.interval.ms
    max.poll.records max.request.size metadata.cluster.check.enable metadata.max.age.ms metadata.max.idle.ms
    metadata.recovery.rebootstrap.trigger.ms metadata.recovery.strategy metric.reporters metrics.num.samples
    metrics.recording.level metrics.sample.window.ms partition.assignment.strategy
    partitioner.adaptive.partitioning.enable partitioner.availability.timeout.ms partitioner.class
    partitioner.ignore.keys partitioner.rack.aware receive.buffer.bytes reconnect.backoff.max.ms
    reconnect.backoff.ms request.timeout.ms retries retry.backoff.max.ms retry.backoff.ms security.protocol
    security.providers send.buffer.bytes session.timeout.ms share.acknowledgement.mode share.acquire.mode
    socket.connection.setup.timeout.max.ms socket.connection.setup.timeout.ms transaction.timeout.ms
    transaction.two.phase.commit.enable transactional.id value.deserializer value.serializer
"""
NAMES = frozenset(_NAMES.split())
PREFIXES = ("sasl.", "ssl.", "config.providers.")
"""Prefixes of security settings, which are not supported, and of settings whose names contain a name of the user."""


def is_setting(name: str) -> bool:
    """Whether Kafka's clients have a setting with this name, without the prefix `kafka.`."""
    return name in NAMES or name.startswith(PREFIXES)
