"""Checks the Java producer's settings among the sink's `kafka.*` options, with that producer's error messages. Pure.

Source: ProducerConfig and ConfigDef of Apache Kafka 3.9. Settings that the sink does not use are checked as well: a
value that Spark's own sink refuses is a mistake.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple

from minikafka.protocol.records.compression import Codec
from minikafka.spark_connector.options.source_options import RefusedOption

ACKS = ("all", "-1", "0", "1")
CODECS = tuple(one.name.lower() for one in Codec)
_BITS = {"INT": 31, "LONG": 63}


class Number(NamedTuple):
    """An integer setting: its default, its range and its type in Java."""

    default: int | None
    least: int | None = 0
    most: int | None = None
    kind: str = "INT"


LONG = "LONG"
NUMBERS = {
    "batch.size": Number(None),
    "buffer.memory": Number(None, kind=LONG),
    "compression.gzip.level": Number(None, -1, 9),
    "compression.lz4.level": Number(None, 1, 17),
    "compression.zstd.level": Number(None, -131_072, 22),
    "connections.max.idle.ms": Number(None, None, kind=LONG),
    "delivery.timeout.ms": Number(None),
    "linger.ms": Number(0, kind=LONG),
    "max.block.ms": Number(60_000, kind=LONG),
    "max.in.flight.requests.per.connection": Number(None, 1),
    "max.request.size": Number(1 << 20),
    "metadata.max.age.ms": Number(300_000, kind=LONG),
    "metadata.max.idle.ms": Number(None, 5000, kind=LONG),
    "receive.buffer.bytes": Number(None, -1),
    "reconnect.backoff.max.ms": Number(None, kind=LONG),
    "reconnect.backoff.ms": Number(None, kind=LONG),
    "request.timeout.ms": Number(30_000),
    "retries": Number(None),
    "retry.backoff.max.ms": Number(None, kind=LONG),
    "retry.backoff.ms": Number(None, kind=LONG),
    "send.buffer.bytes": Number(None, -1),
    "socket.connection.setup.timeout.max.ms": Number(None, kind=LONG),
    "socket.connection.setup.timeout.ms": Number(None, kind=LONG),
    "transaction.timeout.ms": Number(None, None),
}
FLAGS = ("enable.idempotence", "partitioner.adaptive.partitioning.enable", "partitioner.ignore.keys")
CHOICES = {"acks": ACKS, "compression.type": CODECS}
_UNSUPPORTED = {
    "key.serializer": "as keys are serialized with ByteArraySerializer.",
    "value.serializer": "as value are serialized with ByteArraySerializer.",
    "transactional.id": "each task has one of its own, which begins with the option 'transactionalIdPrefix'.",
    "partitioner.class": "it names a class of Java; choose partitions with the column 'partition'.",
    "interceptor.classes": "it names classes of Java.",
}
"""Settings and why they are not supported; serializers in the words of Spark's sink."""


class ProducerSettings:
    """The producer settings of a write, without the prefix `kafka.`.

    Raises RefusedOption for a setting that has an invalid value or is not supported.
    """

    def __init__(self, given: Mapping[str, str]) -> None:
        self._given = given
        for name, why in _UNSUPPORTED.items():
            if name in given:
                joint = " " if why.startswith("as ") else ": "
                raise RefusedOption(f"Kafka option '{name}' is not supported{joint}{why}")
        for name, text in given.items():
            _check(name, text)
        self._check_together()

    def number(self, name: str) -> int:
        """The value of a setting that has a default."""
        found = self.number_or_none(name)
        assert found is not None, name
        return found

    def number_or_none(self, name: str) -> int | None:
        """The value of a setting, or its default, which may be None."""
        text = self._given.get(name)
        return NUMBERS[name].default if text is None else int(text)

    def flag(self, name: str) -> bool:
        """The value of a setting that is false by default."""
        return self._given.get(name, "false").strip().lower() == "true"

    def choice(self, name: str, default: str) -> str:
        return self._given.get(name, default)

    @property
    def level(self) -> int | None:
        """The compression level of the chosen codec; None: the codec's default."""
        name = f"compression.{self.choice('compression.type', 'none')}.level"
        return self.number_or_none(name) if name in NUMBERS else None

    def _check_together(self) -> None:
        delivery_ms = self.number_or_none("delivery.timeout.ms")
        if delivery_ms is not None and delivery_ms < self.number("linger.ms") + self.number("request.timeout.ms"):
            raise RefusedOption(
                "delivery.timeout.ms should be equal to or larger than linger.ms + request.timeout.ms"
                f" (kafka.delivery.timeout.ms is {delivery_ms})"
            )
        if self.flag("enable.idempotence") and self.choice("acks", "all") not in ("all", "-1"):
            raise RefusedOption(
                "Must set acks to all in order to use the idempotent producer. Otherwise we cannot guarantee"
                " idempotence."
            )


def _check(name: str, text: str) -> None:
    if (number := NUMBERS.get(name)) is not None:
        wrong = _wrong(number, text.strip())
    elif name in FLAGS:
        wrong = "" if text.strip().lower() in ("true", "false") else "Expected value to be either true or false"
    elif (choices := CHOICES.get(name)) is not None:
        wrong = "" if text in choices else f"String must be one of: {', '.join(choices)}"
    else:
        return
    if wrong:
        raise RefusedOption(f"Invalid value {text} for configuration {name}: {wrong} (kafka.{name})")


def _wrong(number: Number, text: str) -> str:
    """The error message for an invalid number; "" for a valid one."""
    bits = _BITS[number.kind]
    if not re.fullmatch(r"[+-]?\d{1,19}", text) or not -1 << bits <= int(text) < 1 << bits:
        return f"Not a number of type {number.kind}"
    value = int(text)
    if number == NUMBERS["compression.gzip.level"]:
        return "" if value == -1 or 1 <= value <= 9 else "Value must be between 1 and 9 or equal to -1"
    if number.least is not None and value < number.least:
        return f"Value must be at least {number.least}"
    if number.most is not None and value > number.most:
        return f"Value must be no more than {number.most}"
    return ""
