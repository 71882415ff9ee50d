"""Records that cannot be sent: refused at `send`, or failing alone, in asyncio, trio and blocking code."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import anyio
import pytest
from support.fake_network import FakeNetwork
from support.no_exceptions import NO_EXCEPTIONS

from minikafka.client import Producer, ProducerInterceptor, ProducerRecord, blocking
from minikafka.client.producer import producer_batch
from minikafka.protocol.errors import InvalidRecordError
from minikafka.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from minikafka.protocol.messages.produce import (
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceResponse,
)
from minikafka.protocol.records.batch import batches
from minikafka.protocol.records.record import Record

pytestmark = pytest.mark.anyio
LONE = "\ud800"


class Int:
    """Like a scalar of numpy."""

    def __init__(self, value: int) -> None:
        self.value = value

    def __index__(self) -> int:
        return self.value


class Text(str):
    """A subclass, as those of enums."""


class Log(FakeNetwork):
    """One broker that appends to two partitions of a topic."""

    def __init__(self) -> None:
        super().__init__({"t": [1, 1]})
        self.records: list[Record] = []
        self.broker(
            "a",
            1,
            {
                ProduceRequest: self.produce,
                InitProducerIdRequest: lambda request, version: InitProducerIdResponse(producer_id=7, producer_epoch=0),
            },
        )

    def produce(self, request: ProduceRequest, version: int) -> ProduceResponse:
        topics = []
        for topic in request.topic_data:
            partitions = []
            for one in topic.partition_data:
                self.records += [record for batch in batches(one.records) for record in batch.records()]
                partitions.append(PartitionProduceResponse(index=one.index, error_code=0, base_offset=0))
            topics.append(
                TopicProduceResponse(name=topic.name, topic_id=topic.topic_id, partition_responses=partitions)
            )
        return ProduceResponse(responses=topics)


def producer(kind: Any, log: FakeNetwork, **options: Any) -> Any:
    return kind("a:1", seams=log.seams(), delivery_timeout_ms=31_000, linger_ms=0, **options)


def last_of(log: Log) -> Record:
    last = log.records[-1]
    return last._replace(offset=0, headers=tuple(last.headers))


def failing() -> Iterator[Any]:
    yield ("a", b"1")
    raise ZeroDivisionError


REFUSED: list[tuple[dict[str, Any], type[Exception], str]] = [
    ({"partition": "0"}, TypeError, r"send\w*\(partition='0'\): must be a whole number"),
    ({"partition": 0.0}, TypeError, r"partition=0\.0"),
    ({"partition": float("nan")}, TypeError, "partition=nan"),
    ({"partition": True}, TypeError, "partition=True"),
    ({"partition": -1}, ValueError, "partition"),
    ({"partition": 2}, ValueError, "it has 0 to 1"),
    ({"partition": 10**5000}, ValueError, "partition"),
    ({"timestamp_ms": "now"}, TypeError, "timestamp_ms='now'.*milliseconds since 1970"),
    ({"timestamp_ms": 1.5}, TypeError, "timestamp_ms"),
    ({"timestamp_ms": -1}, ValueError, "timestamp_ms"),
    ({"timestamp_ms": 1 << 63}, ValueError, "timestamp_ms"),
    ({"headers": "trace"}, TypeError, "headers='trace'.*must be headers: a mapping"),
    ({"headers": 5}, TypeError, "headers=5"),
    ({"headers": ("ab", "cd")}, TypeError, r"headers\[0\]='ab'.*pair"),
    ({"headers": [("a", b"1", 2)]}, TypeError, r"headers\[0\].*pair"),
    ({"headers": [(b"a", b"1")]}, TypeError, r"headers\[0\]=b'a'.*name of a header"),
    ({"headers": [(None, b"1")]}, TypeError, "name of a header"),
    ({"headers": [("a", 1)]}, TypeError, "value of a header: bytes, a string"),
    ({"headers": {"a": 1.5}}, TypeError, "value of a header"),
    ({"headers": [("a", b"1"), (LONE, b"1")]}, ValueError, r"headers\[1\].*lone surrogates"),
    ({"headers": [("a", LONE)]}, ValueError, "lone surrogates"),
    ({"headers": failing()}, ZeroDivisionError, "^$"),
    ({"on_delivery": "print"}, TypeError, "on_delivery='print'.*callable"),
    ({"value": "text"}, TypeError, "value must be bytes or None, not str"),
    ({"key": 5}, TypeError, "key must be bytes or None, not int"),
    ({"topic": b"t"}, TypeError, r"topic=b't'.*a string"),
    ({"topic": None}, TypeError, "topic=None"),
    ({"topic": ["t"]}, TypeError, r"topic=\['t'\]"),
    ({"topic": LONE}, ValueError, "lone surrogates"),
    ({"topic": "t" * 40_000}, ValueError, "32767 bytes"),
]
TAKEN: list[tuple[dict[str, Any], dict[str, Any]]] = [
    ({"partition": Int(1)}, {}),
    ({"timestamp_ms": Int(5)}, {"timestamp": 5}),
    ({"timestamp_ms": (1 << 63) - 1}, {"timestamp": (1 << 63) - 1}),
    ({"topic": Text("t")}, {}),
    ({"value": bytearray(b"x")}, {"value": b"x"}),
    ({"key": memoryview(b"kk")[::2]}, {"key": b"k"}),
    ({"headers": None}, {"headers": ()}),
    ({"headers": {}}, {"headers": ()}),
    ({"headers": {"a": b"1", "b": None}}, {"headers": (("a", b"1"), ("b", None))}),
    ({"headers": [("a", "ü")]}, {"headers": (("a", "ü".encode()),)}),
    ({"headers": [["a", bytearray(b"1")]]}, {"headers": (("a", b"1"),)}),
    ({"headers": lambda: ((name, b"1") for name in "ab")}, {"headers": (("a", b"1"), ("b", b"1"))}),
    ({"headers": lambda: zip(["a"], [b"1"], strict=True)}, {"headers": (("a", b"1"),)}),
    ({"headers": lambda: map(tuple, [["a", b"1"]])}, {"headers": (("a", b"1"),)}),
    ({"headers": lambda: iter([("ä", memoryview(b"1"))])}, {"headers": (("ä", b"1"),)}),
    ({"headers": {Text("a"): Text("1")}.items()}, {"headers": (("a", b"1"),)}),
]


@pytest.mark.parametrize("warm", [False, True])
async def test_what_cannot_be_sent_is_refused_by_send_and_all_else_goes_on(warm: bool) -> None:
    log = Log()
    async with producer(Producer, log) as one:
        if warm:
            await one.send_and_wait("t", b"x")
        for wrong, error, text in REFUSED:
            for send in (one.send, one.send_and_wait):
                with pytest.raises(error, match=text) as raised:
                    await send(**{"topic": "t", **wrong})
                assert len(str(raised.value)) < 2_000
                if error is ZeroDivisionError:
                    wrong["headers"] = failing()
        await one.send_and_wait("t", b"last")
        await one.flush()
    assert log.records[-1].value == b"last"
    assert len(log.records) == 1 + warm


async def test_harmless_forms_are_taken() -> None:
    log = Log()
    async with producer(Producer, log) as one:
        for given, expected in TAKEN:
            arguments = {name: value() if callable(value) else value for name, value in given.items()}
            await one.send_and_wait(**{"topic": "t", **arguments})
            assert last_of(log) == Record(0, 1_700_000_000_000, None, None)._replace(**expected)


@pytest.mark.parametrize("intercepted", [False, True])
def test_the_blocking_producer_refuses_and_takes_the_same(intercepted: bool) -> None:
    log = Log()
    interceptors = [ProducerInterceptor()] if intercepted else []
    with producer(blocking.Producer, log, interceptors=interceptors) as one:
        for wrong, error, text in REFUSED:
            if error is ZeroDivisionError:
                wrong["headers"] = failing()
            if text == "it has 0 to 1":  # Only the number of partitions is not known yet.
                delivery = one.send(**{"topic": "t", **wrong})
                with pytest.raises(error, match=text):
                    delivery.result(timeout_ms=30_000)
                continue
            with pytest.raises(error, match=text):
                one.send(**{"topic": "t", **wrong})
        for given, expected in TAKEN:
            arguments = {name: value() if callable(value) else value for name, value in given.items()}
            one.send(**{"topic": "t", **arguments}).result(timeout_ms=30_000)
            assert last_of(log) == Record(0, 1_700_000_000_000, None, None)._replace(**expected)
        one.flush()
    assert len(log.records) == len(TAKEN)


def broken_partitioner(answer: Any) -> Callable[..., Any]:
    def choose(topic: str, key: bytes | None, value: bytes | None, count: int) -> Any:
        if value != b"bad":
            return 0
        if isinstance(answer, Exception):
            raise answer
        return answer

    return choose


ANSWERS = [ZeroDivisionError("mine"), None, "0", 0.0, -1, 2, 10**5000, KeyError("mine"), StopAsyncIteration()]


@pytest.mark.parametrize("answer", ANSWERS, ids=lambda one: repr(one)[:20] if one != 10**5000 else "huge")
async def test_a_partitioner_fails_its_record_alone(answer: Any) -> None:
    expected = type(answer) if isinstance(answer, Exception) else (TypeError, ValueError)
    if isinstance(answer, StopAsyncIteration):
        expected = (RuntimeError, StopAsyncIteration)
    log = Log()
    async with producer(Producer, log, partitioner=broken_partitioner(answer)) as one:
        with pytest.raises(expected):
            await one.send("t", b"bad")
        await one.send_and_wait("t", b"good")
    with producer(blocking.Producer, log, partitioner=broken_partitioner(answer)) as other:
        bad, good = other.send("t", b"bad"), other.send("t", b"good")
        with pytest.raises(expected):
            bad.result(timeout_ms=30_000)
        assert good.result(timeout_ms=30_000).partition == 0
        other.flush()
    assert [record.value for record in log.records] == [b"good", b"good"]


@pytest.mark.parametrize("broken", ["raises", "awaits"])
async def test_a_broken_on_delivery_is_told_and_changes_nothing(broken: str, caplog: pytest.LogCaptureFixture) -> None:
    async def awaits(metadata: Any, error: Any) -> None:
        raise AssertionError("nobody awaits this")

    def raises(metadata: Any, error: Any) -> None:
        raise KeyError("mine")

    log = Log()
    async with producer(Producer, log) as one:
        bad = await one.send("t", b"1", on_delivery={"raises": raises, "awaits": awaits}[broken])
        await one.send_and_wait("t", b"2")
        assert (await bad).partition in (0, 1)
    assert len(log.records) == 2
    assert "on_delivery callback failed" in caplog.text


@pytest.mark.parametrize("error", NO_EXCEPTIONS, ids=repr)
async def test_what_is_no_exception_ends_no_delivery_either(
    error: BaseException, caplog: pytest.LogCaptureFixture
) -> None:
    def raises(*_: object) -> Any:
        raise error

    class Interceptor(ProducerInterceptor):
        on_send = on_acknowledgement = raises

    log = Log()
    for interceptors in ([], [Interceptor()]):
        async with producer(Producer, log, interceptors=interceptors) as one:
            bad = await one.send("t", b"1", on_delivery=raises)
            with anyio.fail_after(30):
                await one.send_and_wait("t", b"2")
                assert (await bad).partition in (0, 1)
        with producer(blocking.Producer, log, interceptors=interceptors) as other:
            assert other.send("t", b"3", on_delivery=raises).result(timeout_ms=30_000).partition in (0, 1)
    assert len(log.records) == 6
    assert caplog.text.count("on_delivery callback failed") == 4
    assert caplog.text.count("on_send") >= 3
    async with producer(Producer, log, partitioner=raises) as one:
        with pytest.raises(RuntimeError, match="raised"):
            await one.send("t", b"bad")
    with producer(blocking.Producer, log, partitioner=raises) as other, pytest.raises(RuntimeError, match="raised"):
        other.send("t", b"bad").result(timeout_ms=30_000)


@pytest.mark.parametrize("returned", [None, b"x", ("t", b"x"), ZeroDivisionError()], ids=repr)
async def test_an_interceptor_that_returns_something_else_is_passed_over(
    returned: Any, caplog: pytest.LogCaptureFixture
) -> None:
    class Broken(ProducerInterceptor):
        def on_send(self, record: ProducerRecord) -> Any:
            if isinstance(returned, Exception):
                raise returned
            return returned

    log = Log()
    async with producer(Producer, log, interceptors=[Broken()]) as one:
        await one.send_and_wait("t", b"x")
    with producer(blocking.Producer, log, interceptors=[Broken()]) as other:
        other.send_and_wait("t", b"x")
    assert [record.value for record in log.records] == [b"x", b"x"]
    assert "interceptor failed: Broken.on_send" in caplog.text


@pytest.mark.parametrize("options", [{}, {"enable_idempotence": False}, {"acks": 1}])
async def test_records_that_cannot_be_encoded_fail_alone(
    options: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A bug of the checks: the encoder refuses what `send` has let through."""
    encode = producer_batch.encode_columns

    def broken(keys: Any, values: Any, *args: Any, **named: Any) -> bytes:
        if b"bad" in values:
            raise ZeroDivisionError("mine")
        return encode(keys, values, *args, **named)

    monkeypatch.setattr(producer_batch, "encode_columns", broken)
    log = Log()
    async with producer(Producer, log, **options) as one:
        values = [b"1", b"2", b"bad", b"3", b"bad", b"4"]
        deliveries = [await one.send("t", value, partition=0) for value in values]
        other = await one.send("t", b"other", partition=1)
        await one.flush()
        for value, delivery in zip(values, deliveries, strict=True):
            if value == b"bad":
                with pytest.raises(InvalidRecordError, match=r"1 record for t-0 cannot be encoded.*mine") as raised:
                    delivery.result()
                assert isinstance(raised.value.__cause__, ZeroDivisionError)
            else:
                assert delivery.result().partition == 0
        assert other.result().partition == 1
    assert sorted(record.value or b"" for record in log.records) == [b"1", b"2", b"3", b"4", b"other"]


async def test_send_many_takes_any_iterable_and_refuses_what_does_not_fit() -> None:
    log = Log()
    async with producer(Producer, log) as one:
        sent = await one.send_many("t", (value for value in [b"1", bytearray(b"2")]), keys=iter([None, b"k"]))
        for delivery in sent:
            await delivery
        for wrong in ({"values": b"abc"}, {"values": [b"1"], "keys": [b"1", b"2"]}, {"values": [b"1"], "keys": ["a"]},
                      {"values": [b"1", 5]}, {"values": None}, {"values": [b"1"], "partition": "0"}):  # fmt: skip
            with pytest.raises((TypeError, ValueError), match=r"send_many\(|a record's|send\("):
                await one.send_many("t", **wrong)
        await one.send_and_wait("t", b"last")
    assert [record.value for record in log.records][-1] == b"last"
