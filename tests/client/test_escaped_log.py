"""What others have named is escaped in the lines that a client logs: Python prints them to a terminal."""

from __future__ import annotations

import logging
import re
from pathlib import Path

import pytest
import trio
from support.fake_network import FakeNetwork
from trio.testing import MockClock

from minikafka.client import Consumer, KafkaError
from minikafka.client.escaped_log import escaped
from minikafka.protocol.visible import visible

A_LOGGER = r'_logger = escaped\(logging\.getLogger\("minikafka\.client[a-z.]*"\)\)'
CLIENT = Path(__file__).parents[2] / "client"
NASTY = "e\x1b[31mvil\x07\x1b]0;pwn\x07\nFORGED"


def test_every_logger_of_the_client_escapes() -> None:
    for path in CLIENT.rglob("*.py"):
        for line in path.read_text().splitlines():
            if "getLogger" in line:
                assert re.fullmatch(A_LOGGER, line), path


def test_arguments_are_escaped_and_numbers_stay(caplog: pytest.LogCaptureFixture) -> None:
    logger = escaped(escaped(logging.getLogger("minikafka.client.tested")))
    logger.warning("%s: %r, %d of %.1f: %s", NASTY, "a b", 7, 0.25, KafkaError(NASTY))
    (record,) = caplog.records
    assert record.getMessage() == f"{visible(NASTY)}: 'a b', 7 of 0.2: {visible(NASTY)}"
    assert record.msg == "%s: %r, %d of %.1f: %s", "log events are known by it"


def test_a_broker_with_a_nasty_address_is_waited_for(caplog: pytest.LogCaptureFixture) -> None:
    async def story() -> None:
        network = FakeNetwork({"t": [2]})
        network.broker("a", 1, {})
        network.broker(NASTY, 2, {})
        network.brokers[1].alive = False
        async with Consumer("t", bootstrap_servers="a:1", seams=network.seams()) as consumer:
            await consumer.poll(5_000)

    trio.run(story, clock=MockClock(autojump_threshold=0))
    assert any("still waiting" in one and "pwn" in one for one in caplog.messages)
    assert all(visible(one) == one for one in caplog.messages)
