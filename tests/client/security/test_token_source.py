"""Providers of tokens in careless hands: what they raise or return is the error of the login; a late one is named."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Any

import anyio
import pytest
from support.secured_nodes import SecuredNode

from minikafka.client import Admin, blocking
from minikafka.client.connections.broker_troubles import BrokerTroubles
from minikafka.client.security.token_source import LATE, TokenSource
from minikafka.protocol.errors import RequestTimedOutError
from minikafka.protocol.sasl.message_sizes import TOKEN_BYTES_MAX

pytestmark = pytest.mark.anyio


class NoExceptionOfPython(BaseException):
    """What pytest.fail raises, say."""


def raising(error: BaseException) -> Callable[[], str]:
    def provider() -> str:
        raise error

    return provider


def raising_later(error: BaseException) -> Callable[[], Any]:
    async def provider() -> str:
        raise error

    return provider


async def given(token: Any) -> Any:
    return token


async def never() -> str:
    await anyio.sleep_forever()
    raise AssertionError


@pytest.mark.parametrize(
    "provider",
    [lambda: "abc", partial(given, "abc"), lambda: given("abc"), iter(["abc", "abc"]).__next__],
    ids=["function", "partial of a coroutine function", "function that returns a coroutine", "next of an iterator"],
)
async def test_functions_that_return_a_token(provider: Any) -> None:
    source = TokenSource(provider)
    assert await source.token() == "abc"
    assert not source.is_awaited


@pytest.mark.parametrize(
    ("provider", "error", "message"),
    [
        (lambda: None, TypeError, "it returned a value of type NoneType"),
        (lambda: b"abc", TypeError, "it returned a value of type bytes"),
        (partial(given, 5), TypeError, "it returned a value of type int"),
        (lambda: "x" * (TOKEN_BYTES_MAX + 1), ValueError, "a token has at most 65536"),
        (raising(KeyError("k")), KeyError, "k"),
        (raising_later(KeyError("k")), KeyError, "k"),
        (raising(StopIteration()), RuntimeError, "StopIteration"),
        (raising(NoExceptionOfPython("odd")), RuntimeError, "it raised NoExceptionOfPython"),
        (raising_later(NoExceptionOfPython("odd")), RuntimeError, "it raised NoExceptionOfPython"),
        (raising(asyncio.CancelledError()), RuntimeError, "it raised CancelledError"),
        (raising_later(asyncio.CancelledError()), RuntimeError, "it raised CancelledError|but not by this client"),
    ],
)
async def test_what_is_no_token_is_an_error(provider: Any, error: type[Exception], message: str) -> None:
    source = TokenSource(provider)
    with pytest.raises(error, match=message):
        await source.token()
    assert not source.is_awaited


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit])
async def test_what_ends_the_program_is_raised(error: type[BaseException]) -> None:
    with pytest.raises(error):
        await TokenSource(raising(error())).token()


async def test_a_cancelled_login_leaves_a_late_provider() -> None:
    source = TokenSource(never)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(source.token)
        await anyio.wait_all_tasks_blocked()
        tasks.cancel_scope.cancel()
    assert source.is_awaited


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_a_task_that_is_cancelled_by_asyncio_stays_cancelled() -> None:
    task = asyncio.create_task(TokenSource(never).token())
    await anyio.wait_all_tasks_blocked()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_a_late_provider_is_told_from_a_broker_that_does_not_answer() -> None:
    source = TokenSource(never)
    troubles = BrokerTroubles(source)
    with troubles.connecting("a:1"):
        assert troubles.explain(None, ["a:1"]) == "a:1 does not answer"
        with anyio.move_on_after(0):
            await source.token()
        assert troubles.explain(None, ["a:1"]) == LATE
    with troubles.connecting("a:1"):
        assert troubles.explain(None, ["a:1"]) == "a:1 does not answer"


async def test_a_login_whose_provider_hangs_names_it(secured_by_minikafka: SecuredNode) -> None:
    login = {"sasl_mechanism": "OAUTHBEARER", "socket_connection_setup_timeout_ms": 1_500}
    options = secured_by_minikafka.options("LOGIN", **login, sasl_oauth_token_provider=never)
    with pytest.raises(RequestTimedOutError, match=LATE):
        async with Admin(**options):
            pass


def test_a_blocking_login_whose_provider_hangs_names_it(secured_by_minikafka: SecuredNode) -> None:
    login = {"sasl_mechanism": "OAUTHBEARER", "socket_connection_setup_timeout_ms": 1_500}
    options = secured_by_minikafka.options("LOGIN", **login, sasl_oauth_token_provider=never)
    with pytest.raises(RequestTimedOutError, match=LATE), blocking.Admin(**options):
        pass
