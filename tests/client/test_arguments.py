"""Each parameter of each public method of each client, with values of all kinds: refused by name, or carried out."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator
from fractions import Fraction
from typing import Any

import anyio
import pytest

from minikafka import client
from minikafka.client import (
    Acl,
    AclFilter,
    Admin,
    Consumer,
    ConsumerRecord,
    GroupMetadata,
    KafkaError,
    NewTopic,
    OffsetAndMetadata,
    Producer,
    TopicPartition,
    blocking,
)
from minikafka.client.argument_checks import checks_arguments

pytestmark = pytest.mark.anyio
TOPIC = "arguments"
TP = TopicPartition(TOPIC, 0)
KINDS: list[Any] = [Producer, Consumer, Admin]


class Int:
    def __init__(self, value: int) -> None:
        self.value = value

    def __index__(self) -> int:
        return self.value


class Text(str):
    """A subclass, as those of enums."""


class Hostile:
    """Nothing about it works."""

    def __repr__(self) -> str:
        raise ZeroDivisionError

    def __eq__(self, other: object) -> bool:
        raise ZeroDivisionError


def no_partitioner(*args: Any) -> None:
    """A function."""


NASTY: list[Callable[[], Any]] = [
    lambda: None,
    lambda: True,
    lambda: 0,
    lambda: -1,
    lambda: 7,
    lambda: 1 << 15,
    lambda: 1 << 31,
    lambda: 1 << 63,
    lambda: 10**5000,
    lambda: Int(7),
    lambda: 1.5,
    lambda: float("nan"),
    lambda: float("inf"),
    lambda: 1e300,
    lambda: Fraction(1, 3),
    lambda: 1j,
    lambda: "",
    lambda: "x",
    lambda: "ü" * 20_000,
    lambda: "\ud800",
    lambda: "(" * 3_000,
    lambda: Text("x"),
    lambda: b"x",
    lambda: bytearray(b"x"),
    lambda: memoryview(b"xyz")[::2],
    lambda: [],
    lambda: ("x", 0),
    lambda: ("x", "0"),
    lambda: ("x", -1),
    lambda: ["x", 1 << 31],
    lambda: ("\ud800", 0),
    lambda: {},
    lambda: {"x": "y"},
    lambda: {1: 2},
    lambda: {("x", 0): 5},
    lambda: {("x", 0): "5"},
    lambda: {TP: -1},
    lambda: {TP: OffsetAndMetadata("5")},  # type: ignore[arg-type]
    lambda: {TP: [7, "x"]},
    lambda: {TP: None},
    lambda: {"x", "y"},
    lambda: (one for one in "xy"),
    lambda: ((one, 0) for one in "xy"),
    lambda: map(str, [1]),
    lambda: zip("x", "y", strict=True),
    lambda: iter([b"x"]),
    lambda: range(3),
    lambda: object,
    lambda: object(),
    lambda: no_partitioner,
    lambda: re.compile("x"),
    Hostile,
    lambda: NewTopic("x", partitions="1"),  # type: ignore[arg-type]
    lambda: NewTopic(None),  # type: ignore[arg-type]
    lambda: NewTopic("x", assignments={0: ["1"]}),  # type: ignore[list-item]
    lambda: NewTopic("x", configs={"retention.ms": 5}),  # type: ignore[dict-item]
    lambda: OffsetAndMetadata(-1),
    lambda: OffsetAndMetadata(5, None, 1 << 31),  # type: ignore[arg-type]
    lambda: GroupMetadata("x", generation="1"),  # type: ignore[arg-type]
    lambda: ConsumerRecord(TOPIC, "0", None, 0, None, None),  # type: ignore[arg-type]
    lambda: blocking.Listener(),
    lambda: Acl("x", TOPIC, "User:x", "read"),
    lambda: Acl(None, None, None, None),  # type: ignore[arg-type]
    lambda: AclFilter(operation="x"),
]
NEVER_RIGHT = (complex, Hostile, re.Pattern)
GOOD: dict[str, Callable[[], Any]] = {
    "Any": lambda: b"x",
    "str": lambda: TOPIC,
    "bytes": lambda: b"x",
    "TopicName": lambda: TOPIC,
    "int": lambda: 0,
    "Int16": lambda: 0,
    "Int32": lambda: 9,
    "Natural": lambda: 0,
    "Timestamp": lambda: 0,
    "float": lambda: 0,
    "bool": lambda: False,
    "PartitionArgument": lambda: TP,
    "Iterable[str]": lambda: ["x"],
    "Iterable[Acl]": lambda: [Acl("topic", TOPIC, "User:x", "read")],
    "Iterable[AclFilter]": lambda: [AclFilter()],
    "Iterable[PartitionArgument]": lambda: [TP],
    "Iterable[NewTopic]": lambda: [NewTopic(TOPIC)],
    "Sequence[Any]": lambda: [b"x"],
    "Mapping[str, str]": lambda: {"x": "y:1"},
    "Mapping[str, Int16]": lambda: {"x": 1},
    "Mapping[str, str | None]": lambda: {"user": "x"},
    "Mapping[TopicPartition, Timestamp]": lambda: {TP: 0},
    "Mapping[TopicPartition, int]": lambda: {TP: 0},
    "Mapping[TopicPartition, Natural | OffsetAndMetadata]": lambda: {TP: 0},
    "Mapping[TopicPartition, Sequence[Int32] | None]": lambda: {TP: None},
    "GroupMetadata | str": lambda: "x",
}
"""By annotation, of parameters without a default. A new annotation belongs here."""
EXCEPTIONS = {("Admin", "unregister_broker", "node_id"): "unregisters the broker of the test"}
UNCLEAR = re.compile(r"\w+Request v\d|struct|no attribute|unhashable|unpack|not supported|is not iterable|argument of")


def parameters(kind: Any) -> Iterator[tuple[str, inspect.Parameter]]:
    for name, method in inspect.getmembers(kind, callable):
        if not name.startswith("_"):
            for one in list(inspect.signature(method).parameters.values())[1:]:
                yield name, one


def calls(kind: Any) -> Iterator[tuple[str, str, list[Any], dict[str, Any]]]:
    """Each parameter of each method with each value, and good values for the others."""
    for method, parameter in parameters(kind):
        if (kind.__name__, method, parameter.name) in EXCEPTIONS:
            continue
        needed = [
            one
            for one in list(inspect.signature(getattr(kind, method)).parameters.values())[1:]
            if one.default is one.empty and one.kind is not one.VAR_POSITIONAL and one.name != parameter.name
        ]
        for value in NASTY:
            named = {one.name: GOOD[one.annotation]() for one in needed}
            if parameter.kind is not parameter.VAR_POSITIONAL:
                yield method, parameter.name, [], {**named, parameter.name: value()}
            elif not needed:
                yield method, parameter.name, [value()], named
            else:
                yield method, parameter.name, [*named.values(), value()], {}


def check_refusal(method: str, parameter: str, error: Exception) -> None:
    """An error names what it is about, in the words of users."""
    text = str(error)
    assert len(text) < 3_000
    assert not UNCLEAR.search(text), f"{method}({parameter}): {text}"
    if isinstance(error, TypeError):
        assert re.match(rf"{method}\(|send\(|a record's", text), f"{method}({parameter}): {text}"
        assert parameter in text or "must be bytes or None" in text, f"{method}({parameter}): {text}"


@pytest.mark.parametrize("kind", KINDS)
async def test_a_closed_client_refuses_by_name_what_it_could_not_carry_out(kind: Any) -> None:
    """The checks come first, before anything is sent."""
    one = kind(bootstrap_servers="x:1", **quick(kind))
    for method, parameter, args, named in calls(kind):
        given = named.get(parameter, args[-1] if args else None)
        try:
            await settled(getattr(one, method)(*args, **named))
            is_refused = False
        except (TypeError, ValueError) as error:
            check_refusal(method, parameter, error)
            is_refused = isinstance(error, TypeError)
        except RuntimeError:  # It is not open.
            is_refused = False
        if isinstance(given, NEVER_RIGHT) and parameter not in ("key", "value"):
            assert is_refused, f"{method}({parameter}={type(given).__name__})"


async def settled(result: Any) -> None:
    if inspect.isawaitable(result):
        await result


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
async def test_an_open_client_goes_on_after_every_call(kind: Any, minikafka_bootstrap: str) -> None:
    await make_topic(minikafka_bootstrap)
    async with kind(bootstrap_servers=minikafka_bootstrap, **quick(kind)) as one:
        if kind is Consumer:
            one.assign([TP])
        for method, parameter, args, named in calls(kind):
            with anyio.move_on_after(0.3):
                try:
                    await settled(getattr(one, method)(*args, **named))
                except (TypeError, ValueError, RuntimeError, KafkaError) as error:
                    check_refusal(method, parameter, error)
            if kind is Consumer and method in ("subscribe", "assign"):
                await one.unsubscribe()
                one.assign([TP])
        await use(one)


@pytest.mark.slow
@pytest.mark.parametrize("kind", [blocking.Producer, blocking.Consumer, blocking.Admin])
def test_an_open_blocking_client_goes_on_after_every_call(kind: Any, minikafka_bootstrap: str) -> None:
    with blocking.Admin(minikafka_bootstrap) as admin:
        admin.create_topics([NewTopic(TOPIC, 1)])
    sent = []
    with kind(bootstrap_servers=minikafka_bootstrap, **quick(kind)) as one:
        if kind is blocking.Consumer:
            one.assign([TP])
        for method, parameter, args, named in calls(kind):
            if (method, parameter) == ("poll", "timeout_ms"):
                continue  # It would wait as long as it is told.
            try:
                found = getattr(one, method)(*args, **named)
            except (TypeError, ValueError, RuntimeError, KafkaError) as error:
                check_refusal(method, parameter, error)
            else:
                sent += [found] if method == "send" else []
            if method in ("subscribe", "assign"):
                one.unsubscribe()
                one.assign([TP])
        use_blocking(one)
        if kind is blocking.Producer:
            one.flush()
        assert all(delivery.done for delivery in sent)


def use_blocking(one: Any) -> None:
    if isinstance(one, blocking.Producer):
        assert one.send(TOPIC, b"last", partition=0).result(timeout_ms=30_000).partition == 0
    elif isinstance(one, blocking.Consumer):
        assert one.end_offsets([TP])[TP] >= 0
    else:
        assert one.describe_topic(TOPIC).name == TOPIC


def quick(kind: Any) -> dict[str, Any]:
    times = {"request_timeout_ms": 300, "default_api_timeout_ms": 300, "retry_backoff_ms": 300}
    extra = {"Producer": {"max_block_ms": 300}, "Consumer": {"group_id": "x"}, "Admin": {}}
    return times | extra[kind.__name__]


async def use(one: Any) -> None:
    if isinstance(one, Producer):
        assert (await one.send_and_wait(TOPIC, b"last", partition=0)).partition == 0
    elif isinstance(one, Consumer):
        assert (await one.end_offsets([TP]))[TP] >= 0
    else:
        assert (await one.describe_topic(TOPIC)).name == TOPIC


async def make_topic(bootstrap: str) -> None:
    async with Admin(bootstrap) as admin:
        await admin.create_topics([NewTopic(TOPIC, 1)])


def test_every_annotation_has_a_kind() -> None:
    """A method with a parameter that cannot be checked is an error when its class is made."""
    with pytest.raises(TypeError, match="no Kind for the annotation <class 'complex'>"):

        @checks_arguments()
        class Other:
            def method(self, one: complex) -> None:
                """Not checked."""


def test_the_pattern_of_a_subscription_is_a_regular_expression(minikafka_bootstrap: str) -> None:
    with blocking.Consumer(bootstrap_servers=minikafka_bootstrap, group_id="y") as consumer:
        for pattern in ("(" * 3_000, "[", "a{2,1}", "(?P<1>)", "a" * 200 + "{99999999999999999999}"):
            with pytest.raises(ValueError, match=r"subscribe\(pattern=.*regular expression"):
                consumer.subscribe(pattern=pattern)


def test_topics_of_a_consumer_are_names() -> None:
    for wrong in (["a"], b"a", 5, None, ("a", 0)):
        for module in (client, blocking):
            with pytest.raises(TypeError, match=r"Consumer\(topics\[1\]="):
                module.Consumer("t", wrong)  # type: ignore[arg-type]


async def test_partitions_are_tuples_as_well(minikafka_bootstrap: str) -> None:
    await make_topic(minikafka_bootstrap)
    async with Consumer(bootstrap_servers=minikafka_bootstrap, group_id="z") as consumer:
        consumer.assign([(TOPIC, 0)])
        assert await consumer.position((TOPIC, 0)) >= 0
        await consumer.commit({(TOPIC, 0): Int(0)})  # type: ignore[dict-item]
        assert (await consumer.committed((TOPIC, 0)))[TP].offset == 0
        consumer.pause((TOPIC, 0))
        consumer.seek((TOPIC, 0), 0)
        await consumer.seek_to_time(0, (TOPIC, 0))
        assert consumer.lag((TOPIC, 0)) in (None, 0)


async def test_the_methods_of_a_listener_fit_the_consumer(minikafka_bootstrap: str) -> None:
    """A plain method cannot be awaited, and nobody awaits a coroutine function of a blocking listener."""

    class Plain(client.Listener):
        def on_partitions_lost(self, partitions: Any) -> None:  # type: ignore[override]
            """Not called."""

    class Async(blocking.Listener):
        async def on_partitions_lost(self, partitions: Any) -> None:  # type: ignore[override]
            """Not called."""

    async with Consumer(bootstrap_servers=minikafka_bootstrap, group_id="l") as consumer:
        with pytest.raises(TypeError, match=r"subscribe\(listener=.*coroutine function.* as on_partitions_lost"):
            await consumer.subscribe([TOPIC], listener=Plain())
        assert consumer.assignment() == []
    with blocking.Consumer(bootstrap_servers=minikafka_bootstrap, group_id="l") as other:
        for wrong in (Plain(), Async()):
            with pytest.raises(TypeError, match=r"subscribe\(listener=.* as on_partitions_lost"):
                other.subscribe([TOPIC], listener=wrong)
