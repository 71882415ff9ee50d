"""Every exception that the client, the protocol and the connector raise survives `pickle`, `copy` and `deepcopy`."""

from __future__ import annotations

import copy
import importlib
import inspect
import json
import pickle
import pkgutil
from collections.abc import Callable, Iterator
from typing import Any

import minikafka.client
import minikafka.protocol
import minikafka.spark_connector
from minikafka.client import Consumer, LogTruncationError, Producer, TopicPartition
from minikafka.client.argument_kinds import Refused
from minikafka.client.consumer.deserialization import RecordDeserializationError
from minikafka.client.producer.arrow_encoding import NullHeaderKey
from minikafka.client.producer.transaction_state import FatalTransactionError
from minikafka.client.security.sasl_login import InvalidLogin
from minikafka.client.security.security_options import InvalidSecurity
from minikafka.client.security.tls_settings import InvalidTlsSetting
from minikafka.client.user_code import NoException
from minikafka.protocol.error_codes import ErrorCode
from minikafka.protocol.errors import KafkaError, error_for
from minikafka.protocol.sasl.scram import ProofLengthError
from minikafka.protocol.settings.declaration import InvalidSetting

TP = TopicPartition("t", 1)
ARGUMENTS: dict[type[BaseException], Callable[[], BaseException]] = {
    RecordDeserializationError: lambda: RecordDeserializationError(
        TP, 7, "value", json.JSONDecodeError("no json", "x", 0), key=b"k", value=None, timestamp=5, headers=[("a", b"")]
    ),
    LogTruncationError: lambda: LogTruncationError(TP, 7, 5),
    NullHeaderKey: lambda: NullHeaderKey(3),
    InvalidSetting: lambda: InvalidSetting("retention.ms", "x", "is not a number", "a number"),
    InvalidLogin: lambda: InvalidLogin("sasl.mechanism", "is missing"),
    InvalidSecurity: lambda: InvalidSecurity("sasl_mechanism", "is missing"),
    InvalidTlsSetting: lambda: InvalidTlsSetting("ssl.keystore.location", "is missing"),
}
"""Of those whose constructors take something else than a message."""
INTERNAL = (Refused, NoException, ProofLengthError)
"""These never leave a call."""


def exceptions() -> Iterator[type[BaseException]]:
    for package in (minikafka.client, minikafka.protocol, minikafka.spark_connector):
        for module in pkgutil.walk_packages(package.__path__, package.__name__ + "."):
            for one in vars(importlib.import_module(module.name)).values():
                is_exception = inspect.isclass(one) and issubclass(one, BaseException)
                if is_exception and one.__module__ == module.name and one not in INTERNAL:
                    yield one


def instances() -> Iterator[BaseException]:
    yield from (ARGUMENTS.get(kind, lambda kind=kind: kind("a message"))() for kind in exceptions())
    yield from (error_for(code) for code in ErrorCode if code)
    yield error_for(12345)
    yield KafkaError("x" * 5_000)
    for call in (
        lambda: Producer("nowhere"),
        lambda: Producer(linger_ms="x"),  # type: ignore[arg-type]
        lambda: Consumer(group_idd="x"),  # type: ignore[call-arg]
    ):
        try:
            call()
        except ValueError as error:
            yield error


def attributes(error: BaseException) -> dict[str, Any]:
    return {
        name: repr(value)
        for name, value in inspect.getmembers(error)
        if not name.startswith("_") and not callable(value)
    }


WAYS: list[Callable[[Any], Any]] = [
    copy.copy,
    copy.deepcopy,
    *(lambda error, number=number: pickle.loads(pickle.dumps(error, number)) for number in range(6)),
]


def test_all_exceptions_are_the_same_afterwards() -> None:
    found = list(instances())
    assert len(found) > 250
    for error in found:
        for way in WAYS:
            other = way(error)
            assert type(other) is type(error)
            assert (str(other), repr(other), other.args) == (str(error), repr(error), error.args)
            assert attributes(other) == attributes(error)


def test_notes_survive() -> None:
    error = FatalTransactionError("the producer has failed")
    error.add_note("aborting failed as well")
    other = pickle.loads(pickle.dumps(error))
    assert other.__notes__ == ["aborting failed as well"]
