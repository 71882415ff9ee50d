"""The only error of a task group is raised as it was: with its cause, and without a word about the group."""

from __future__ import annotations

import traceback
from collections.abc import Awaitable, Callable

import pytest
from support.fake_network import FakeNetwork

from minikafka.client import Admin
from minikafka.client.connections.exception_groups import task_group
from minikafka.protocol.errors import NetworkError

pytestmark = pytest.mark.anyio


async def with_cause() -> None:
    raise NetworkError("broken") from OSError("why")


async def with_context() -> None:
    try:
        raise OSError("why")
    except OSError:
        raise NetworkError("broken")  # noqa: B904 (its context is what is tested)


async def with_hidden_context() -> None:
    try:
        raise OSError("why")
    except OSError:
        raise NetworkError("broken") from None


async def in_a_task_group(fail: Callable[[], Awaitable[None]]) -> None:
    async with task_group() as tasks:
        tasks.start_soon(fail)


async def in_a_client(fail: Callable[[], Awaitable[None]]) -> None:
    network = FakeNetwork({"t": [1]})
    network.broker("a", 1)
    async with Admin("a:1", seams=network.seams()) as admin:
        assert admin._tasks is not None
        admin._tasks.start_soon(fail)


@pytest.mark.parametrize("place", [in_a_task_group, in_a_client])
@pytest.mark.parametrize("fail", [with_cause, with_context, with_hidden_context])
async def test_the_only_error_keeps_what_it_knows(
    place: Callable[[Callable[[], Awaitable[None]]], Awaitable[None]], fail: Callable[[], Awaitable[None]]
) -> None:
    with pytest.raises(NetworkError) as alone:
        await fail()
    with pytest.raises(NetworkError) as raised:
        await place(fail)
    before, after = alone.value, raised.value
    assert repr(after.__cause__) == repr(before.__cause__)
    assert repr(after.__context__) == repr(before.__context__)
    assert after.__suppress_context__ == before.__suppress_context__
    shown = "".join(traceback.format_exception(after))
    assert "ExceptionGroup" not in shown
    assert ("why" in shown) == (fail is not with_hidden_context)
