"""Fetch responses that bring nothing, whatever is wrong with them: the application is told, by an error or by a logged
wait, the broker is not asked without a pause, and reading goes on once the responses are right again."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import trio
from support.fake_network import Later
from support.scripted_cluster import ScriptedCluster, on_virtual_time

from minikafka.client import Consumer, TopicPartition
from minikafka.protocol.error_codes import ErrorCode
from minikafka.protocol.errors import CorruptMessageError, KafkaError, error_for
from minikafka.protocol.messages.fetch import FetchRequest, FetchResponse

TP = TopicPartition("a", 0)
FETCHES_A_SECOND = 15
"""The shortest backoff is 80 ms: the default of 100 ms, with its jitter."""

Change = Callable[[FetchResponse], None]
BASE_OFFSET, LENGTH, MAGIC, COUNT = slice(0, 8), slice(8, 12), slice(16, 17), slice(57, 61)


class Wrong(ScriptedCluster):
    """A broker whose Fetch responses with data are changed."""

    change: Change | None = None

    def _fetch(self, request: FetchRequest, version: int, later: Later | None = None) -> FetchResponse | Later:
        response = super()._fetch(request, version, later)
        if isinstance(response, FetchResponse) and self.change is not None:
            self.change(response)
        return response


def records(change: Callable[[bytearray], bytes | bytearray | None]) -> Change:
    def changed(response: FetchResponse) -> None:
        for topic in response.responses:
            for data in topic.partitions:
                if data.records is not None:
                    data.records = change(bytearray(data.records))

    return changed


def field(at: slice, value: bytes) -> Change:
    def changed(batch: bytearray) -> bytearray:
        batch[at] = value
        return batch

    return records(changed)


def whole(code: ErrorCode) -> Change:
    def changed(response: FetchResponse) -> None:
        response.error_code, response.responses = code, []

    return changed


def of_partition(code: ErrorCode) -> Change:
    def changed(response: FetchResponse) -> None:
        for topic in response.responses:
            for data in topic.partitions:
                data.error_code, data.records = code, None

    return changed


DAMAGED = {
    "crc": field(slice(-3, -2), b"\x99"),
    "negative length": field(LENGTH, b"\xff\xff\xff\xf0"),
    "length 0": field(LENGTH, bytes(4)),
    "incomplete": field(LENGTH, b"\x7f\xff\xff\xf0"),
    "cut": records(lambda batch: batch[:30]),
    "one byte": records(lambda batch: batch[:1]),
    "zeros": records(lambda batch: bytes(200)),
    "magic 0": field(MAGIC, b"\0"),
    "magic 1": field(MAGIC, b"\1"),
    "magic 9": field(MAGIC, b"\x09"),
    "count": field(COUNT, b"\x7f\xff\xff\xf0"),
    "from the middle": records(lambda batch: batch[20:]),
}
LACKING = {
    "no records": records(lambda batch: None),
    "empty": records(lambda batch: b""),
    "records before the position": field(BASE_OFFSET, (-100).to_bytes(8, "big", signed=True)),
}
CODES = [code for code in ErrorCode if code]


async def told(
    consumer: Consumer, caplog: pytest.LogCaptureFixture, for_s: float
) -> tuple[list[KafkaError], list[str]]:
    """The errors that requests for records raise meanwhile, and the waits that are logged."""
    caplog.clear()
    errors: list[KafkaError] = []
    end = trio.current_time() + for_s
    while trio.current_time() < end:
        try:
            assert not await consumer.poll(500)
        except KafkaError as error:
            errors.append(error)
            await trio.sleep(0.5)
    return errors, [one.getMessage() for one in caplog.records if "still waiting" in one.getMessage()]


async def story(change: Change, caplog: pytest.LogCaptureFixture, check: Callable[..., Any], **options: Any) -> None:
    cluster = Wrong(a=1)
    cluster.append(TP, 3)
    async with cluster.consumer(**options) as consumer:
        consumer.assign([TP])
        assert len(await consumer.poll(5_000)) == 3
        cluster.change = change
        cluster.append(TP, 3)
        before = len(cluster.of(FetchRequest))
        errors, waits = await told(consumer, caplog, 5)
        check(errors, waits)
        assert len(cluster.of(FetchRequest)) - before <= 5 * FETCHES_A_SECOND
        cluster.change = None
        read: list[Any] = []
        with trio.fail_after(10):
            while not read or read[-1].offset < 5:
                try:
                    read += await consumer.poll(1_000)
                except KafkaError:
                    continue  # It was found before.
        assert [one.offset for one in read[-3:]] == [3, 4, 5]


@pytest.mark.parametrize("isolation_level", ["read_committed", "read_uncommitted"])
@pytest.mark.parametrize("what", DAMAGED)
def test_damaged_records_are_raised(what: str, isolation_level: str, caplog: pytest.LogCaptureFixture) -> None:
    def check(errors: list[KafkaError], waits: list[str]) -> None:
        assert errors
        assert {type(one) for one in errors} == {CorruptMessageError}
        assert all("a-0: corrupt records at offset 3: " in str(one) and "seek to" in str(one) for one in errors)

    on_virtual_time(lambda: story(DAMAGED[what], caplog, check, isolation_level=isolation_level))


@pytest.mark.parametrize("what", LACKING)
def test_a_wait_for_records_that_the_broker_leaves_out_is_logged(what: str, caplog: pytest.LogCaptureFixture) -> None:
    why = "broker 1 answers without the records of a-0 from offset 3 on"

    def check(errors: list[KafkaError], waits: list[str]) -> None:
        assert not errors
        assert any(why in one for one in waits), waits

    on_virtual_time(story, LACKING[what], caplog, check)


def check_told(code: ErrorCode, errors: list[KafkaError], waits: list[str]) -> None:
    assert any(str(error_for(code)) in one for one in [*map(str, errors), *waits]), (errors, waits)
    assert len(errors) <= 5
    if code is ErrorCode.CORRUPT_MESSAGE:
        assert errors, "as the Java client does"


@pytest.mark.parametrize("of", [whole, of_partition])
def test_every_error_is_raised_or_logged_as_a_wait(
    of: Callable[[ErrorCode], Change], caplog: pytest.LogCaptureFixture
) -> None:
    for code in CODES:
        on_virtual_time(story, of(code), caplog, partial(check_told, code))
