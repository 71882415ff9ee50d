"""Async clients used like blocking ones, blocking ones like async ones, and both like those of other libraries."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from typing import Any

import pytest

from minikafka import client
from minikafka.client import blocking, mixups
from minikafka.client.blocking.producer import BlockingDelivery

pytestmark = pytest.mark.anyio
NOWHERE = "127.0.0.1:1"
NAMES = ["Producer", "Consumer", "Admin"]
OTHERS = ["close", "aclose", "stop", "start", "open", "shutdown"]


def made(package: Any, name: str) -> Any:
    return getattr(package, name)(bootstrap_servers=NOWHERE)


def with_block(one: Any) -> None:
    with one:
        pass


async def async_with_block(one: Any) -> None:
    async with one:
        pass


@pytest.mark.parametrize("name", NAMES)
async def test_the_wrong_block_names_the_right_one(name: str) -> None:
    with pytest.raises(TypeError, match=rf"async: use it inside `async with {name}.*client.blocking.{name}$"):
        with_block(made(client, name))
    with pytest.raises(TypeError, match=rf"blocking: use it inside `with {name}.* minikafka.client.{name}$"):
        await async_with_block(made(blocking, name))


async def test_the_wrong_loop_names_the_right_one() -> None:
    with pytest.raises(TypeError, match=r"with `async for`, or use minikafka.client.blocking\.Consumer$"):
        list(made(client, "Consumer"))
    with pytest.raises(TypeError, match=r"with `for`, or use minikafka.client\.Consumer$"):
        [one async for one in made(blocking, "Consumer")]


async def test_a_delivery_that_is_awaited_names_its_result() -> None:
    with pytest.raises(TypeError, match=r"wait for a delivery with `\.result\(\)`"):
        await BlockingDelivery(made(blocking, "Producer"))  # type: ignore[misc]


@pytest.mark.parametrize("method", OTHERS)
@pytest.mark.parametrize("name", NAMES)
def test_a_method_that_opens_or_closes_clients_elsewhere_is_answered_with_the_block(name: str, method: str) -> None:
    with pytest.raises(AttributeError, match=rf"{name} has no {method}\(\): `async with .* contextlib.AsyncExitStack"):
        getattr(made(client, name), method)
    with pytest.raises(AttributeError, match=rf"{name} has no {method}\(\): `with .* contextlib.ExitStack"):
        getattr(made(blocking, name), method)


@pytest.mark.parametrize("package", [client, blocking])
@pytest.mark.parametrize("name", NAMES)
def test_what_does_not_exist_is_missing_as_usual(package: Any, name: str) -> None:
    one = made(package, name)
    assert not hasattr(one, "closed")
    with pytest.raises(AttributeError, match=f"'{name}' object has no attribute 'clse'"):
        one.clse()


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, pickle.dumps, lambda one: pickle.dumps({"kept": [one]})])
@pytest.mark.parametrize("package", [client, blocking])
@pytest.mark.parametrize("name", NAMES)
def test_a_client_is_neither_copied_nor_pickled(package: Any, name: str, copied: Callable[[Any], Any]) -> None:
    with pytest.raises(TypeError, match=rf"^a {name} cannot be pickled or copied.* create a {name} where it is used"):
        copied(made(package, name))


@pytest.mark.parametrize("call", [lambda one: one.send("t", b"x"), lambda one: one.flush()])
def test_a_forgotten_await_is_warned_of_by_name(call: Callable[[Any], Any]) -> None:
    forgotten = [call(made(client, "Producer"))]
    with pytest.warns(RuntimeWarning, match=r"Producer\.(send|flush)' was never awaited"):
        forgotten.clear()


@pytest.mark.parametrize("package", [client, blocking])
@pytest.mark.parametrize("name", NAMES)
def test_no_access_to_an_attribute_is_slower_than_plain(package: Any, name: str) -> None:
    """CPython specializes no access to the attributes of a class with one of these."""
    classes = getattr(package, name).__mro__[:-1]
    assert not [one for one in classes if {"__getattr__", "__getattribute__"} & vars(one).keys()]


async def test_a_transaction_in_the_wrong_block_names_the_right_one() -> None:
    with pytest.raises(TypeError, match=r"async: begin it with `async with producer.transaction\(\):`$"):
        with_block(made(client, "Producer").transaction())


@pytest.mark.parametrize(("timeout_ms", "warned"), [(0.5, True), (1.0, True), (1, False), (0.0, False), (10.0, False)])
async def test_seconds_as_the_timeout_of_a_poll_are_warned_of_once(
    timeout_ms: float, warned: bool, caplog: pytest.LogCaptureFixture
) -> None:
    mixups._warn_of_milliseconds.cache_clear()
    for _ in range(3):
        with pytest.raises(RuntimeError, match="not open"):
            await made(client, "Consumer").poll(timeout_ms)
    assert len(caplog.messages) == warned
