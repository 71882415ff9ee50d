"""Coroutines run without a task up to their first wait, and only as far."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest
import trio
import trio.testing

from minikafka.storage.waits import IN_TASK, Offered, Rest, Several, begin, completed, in_task, offered, watched


async def at_once() -> str:
    return "done"


async def waits(seen: list[str] | None = None) -> str:
    seen = [] if seen is None else seen
    seen.append("begun")
    try:
        await in_task()
        seen.append("in a task")
        await trio.sleep(1)
        await in_task()
        await trio.sleep(1)
        return "done"
    finally:
        seen.append("ended")


def in_trio(body: Callable[[], Awaitable[None]]) -> None:
    trio.run(body, clock=trio.testing.MockClock(autojump_threshold=0))


def test_a_coroutine_that_does_not_wait_needs_no_event_loop() -> None:
    assert begin(at_once()) == "done"


def test_the_rest_of_a_coroutine_is_awaited_in_any_task() -> None:
    async def body() -> None:
        seen: list[str] = []
        rest = begin(waits(seen))
        assert isinstance(rest, Rest)
        assert rest.wait is IN_TASK
        assert seen == ["begun"]
        found: list[str] = []

        async def other() -> None:
            found.append(await rest)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(other)
        assert found == ["done"]
        assert trio.current_time() == 2

    in_trio(body)


def test_in_a_task_a_coroutine_can_be_awaited_as_it_is() -> None:
    async def body() -> None:
        assert await waits() == "done"
        assert await completed(begin(waits())) == "done"
        assert await completed(begin(at_once())) == "done"

    in_trio(body)


def test_a_begun_coroutine_may_begin_others() -> None:
    async def outer() -> list[str]:
        begun = [begin(waits()), begin(at_once())]
        assert begun[1] == "done"
        return [await completed(one) for one in begun]

    async def body() -> None:
        rest = begin(outer())
        assert isinstance(rest, Rest)
        assert await rest == ["done", "done"]

    in_trio(body)


def test_a_rest_that_is_given_up_ends_the_coroutine() -> None:
    seen: list[str] = []
    rest = begin(waits(seen))
    assert isinstance(rest, Rest)
    rest.close()
    assert seen == ["begun", "ended"]


def test_a_rest_that_is_cancelled_ends_the_coroutine() -> None:
    async def body() -> None:
        seen: list[str] = []
        with trio.move_on_after(0.5):
            await completed(begin(waits(seen)))
        assert seen == ["begun", "in a task", "ended"]

    in_trio(body)


class Poll(Offered):
    pass


@pytest.mark.parametrize("begins", [False, True])
def test_an_offered_wait_is_carried_out_by_whoever_has_begun_the_coroutine_or_by_the_coroutine(begins: bool) -> None:
    async def polls(poll: Poll) -> str:
        await offered(poll)
        await trio.sleep(1)
        return "polled"

    async def body() -> None:
        poll = Poll()
        begun: Any = begin(polls(poll)) if begins else polls(poll)
        assert not begins or begun.wait is poll
        assert await begun == "polled"

    in_trio(body)


@pytest.mark.parametrize("waits", [trio.lowlevel.checkpoint, lambda: trio.sleep(1), lambda: trio.Event().wait()])
def test_a_wait_of_another_kind_is_a_bug_that_ends_the_coroutine(waits: Callable[[], Awaitable[None]]) -> None:
    async def body() -> None:
        ended: list[bool] = []

        async def wrong() -> None:
            try:
                await waits()
            finally:
                ended.append(True)

        with pytest.raises(RuntimeError, match=r"await in_task\(\) first"):
            begin(wrong())
        assert ended == [True]
        await in_task()  # What was begun before has no effect on others.

    in_trio(body)


def test_what_a_wrong_wait_waits_for_may_come_later() -> None:
    async def body() -> None:
        event = trio.Event()
        with pytest.raises(RuntimeError):
            begin(event.wait())
        event.set()
        await trio.lowlevel.checkpoint()

    in_trio(body)


def test_the_exceptions_of_a_coroutine_are_raised_before_and_after_its_wait() -> None:
    async def fails(*, later: bool) -> None:
        if later:
            await in_task()
        raise ZeroDivisionError

    async def body() -> None:
        with pytest.raises(ZeroDivisionError):
            begin(fails(later=False))
        rest = begin(fails(later=True))
        assert isinstance(rest, Rest)
        with pytest.raises(ZeroDivisionError):
            await rest
        await waits()

    in_trio(body)


def test_several_are_awaited_in_the_order_in_which_they_began() -> None:
    async def body() -> None:
        with Several[str]() as several:
            for one in (at_once(), waits(), at_once(), waits()):
                several.begin(one)
            assert trio.current_time() == 0
            assert await several.results() == ["done"] * 4

    in_trio(body)


def test_several_that_are_not_awaited_to_the_end_end_with_the_block() -> None:
    async def fails() -> str:
        await in_task()
        raise ValueError("of the first")

    async def body() -> None:
        seen: list[str] = []
        with Several[str]() as several:
            several.begin(fails())
            several.begin(waits(seen))
            with pytest.raises(ValueError, match="of the first"):
                await several.results()
            assert seen == ["begun"]
        assert seen == ["begun", "ended"]

    in_trio(body)


def watching(seen: list[str]) -> Any:
    return watched(waits(seen), lambda: seen.append("waits"), lambda: seen.append("resumes"))


def test_each_wait_of_a_watched_coroutine_is_reported() -> None:
    seen: list[str] = []

    async def main() -> None:
        assert await completed(begin(watching(seen))) == "done"

    in_trio(main)
    assert seen == ["begun", "waits", "resumes", "in a task", "waits", "resumes", "waits", "resumes", "ended"]


def test_a_watched_coroutine_is_cancelled_and_closed_as_another() -> None:
    seen: list[str] = []

    async def main() -> None:
        with trio.move_on_after(0.5) as scope:
            await watching(seen)
        assert scope.cancelled_caught

    in_trio(main)
    assert seen == ["begun", "in a task", "waits", "resumes", "ended"]
    seen.clear()
    rest = begin(watching(seen))
    rest.close()
    assert seen == ["begun", "waits", "resumes", "ended"]
