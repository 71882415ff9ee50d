"""A client whose opening is cancelled while an address accepts: the connection is closed, not lost."""

from __future__ import annotations

from typing import Any, cast

import anyio
import pytest

from minikafka.client.connections.bootstrap import connect_to_first
from minikafka.client.connections.connection import Connection

pytestmark = pytest.mark.anyio


class Recorded:
    closed = False

    def close(self) -> None:
        self.closed = True


@pytest.mark.parametrize("addresses", [1, 2])
async def test_a_connection_that_is_made_as_the_caller_is_cancelled_is_closed(addresses: int) -> None:
    made: list[Recorded] = []

    async def connect(host: str, port: int) -> Connection:
        await anyio.lowlevel.checkpoint()
        caller.cancel()
        made.append(Recorded())
        return cast(Any, made[-1])

    with anyio.CancelScope() as caller:
        await connect_to_first([("a", port) for port in range(addresses)], connect, lambda failed: 0.0)
    assert caller.cancelled_caught
    assert [one.closed for one in made] == [True] * len(made)
    assert made
