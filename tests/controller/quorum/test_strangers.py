"""Which of the connections to a controller listener that are not known yet makes room for another one."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

import pytest
import trio
import trio.testing

from minikafka.controller.quorum import strangers
from minikafka.controller.quorum.strangers import PAUSE_S, SILENT_S, Stranger, Strangers

PLACES = 10


@dataclass(frozen=True)
class End:
    """A connection, of which the address is known."""

    host: str


class Hall:
    """The strangers of a node, and those that have made room, by name."""

    def __init__(self, nursery: trio.Nursery) -> None:
        self.strangers = Strangers(lambda: PLACES)
        self.present: dict[str, Stranger] = {}
        self.gone: list[str] = []
        self._listener = trio.Lock()
        self._nursery = nursery

    async def come(self, name: str, host: str = "", steps: int = 0) -> None:
        """Connect, and take some steps."""
        async with self._listener:
            await self.strangers.room()
            await self._nursery.start(self._stay, name, host)
        for _ in range(steps):
            self.present[name].step()

    async def _stay(self, name: str, host: str, task_status: trio.TaskStatus[None]) -> None:
        with self.strangers.one(End(host)) as stranger:  # type: ignore[arg-type]
            self.present[name] = stranger
            task_status.started()
            await trio.sleep_forever()
        self.gone.append(name)


@pytest.fixture(autouse=True)
def addresses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(strangers, "peer_host", lambda stream: stream.host)


def within(scenario: Callable[[Hall], Awaitable[None]]) -> None:
    async def main() -> None:
        async with trio.open_nursery() as nursery:
            await scenario(Hall(nursery))
            nursery.cancel_scope.cancel()

    trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0))


async def fill(hall: Hall, name: str = "", host: str = "", steps: int = 0, count: int = PLACES) -> None:
    for number in range(count):
        await hall.come(f"{name}{number}", host, steps)


def test_while_there_are_places_nobody_makes_room() -> None:
    async def scenario(hall: Hall) -> None:
        await fill(hall)
        await trio.sleep(10)
        assert hall.gone == []

    within(scenario)


def test_the_silent_make_room_at_once_and_before_those_that_have_sent_something() -> None:
    async def scenario(hall: Hall) -> None:
        await fill(hall, steps=1, count=PLACES - 3)
        await fill(hall, "silent", count=3)
        await trio.sleep(SILENT_S)
        began = trio.current_time()
        await hall.come("a", steps=1)
        await hall.come("b", steps=1)
        assert hall.gone == ["silent0", "silent1"]
        assert trio.current_time() == began

    within(scenario)


def test_who_came_just_now_makes_no_room() -> None:
    """What it sends may not have arrived."""

    async def scenario(hall: Hall) -> None:
        began = trio.current_time()
        await fill(hall)
        await hall.come("more")
        assert SILENT_S <= trio.current_time() - began <= SILENT_S + 2 * PAUSE_S
        assert hall.gone == ["0"]

    within(scenario)


def test_then_those_make_room_whose_last_step_is_the_oldest_at_a_bounded_rate() -> None:
    async def scenario(hall: Hall) -> None:
        for number in range(PLACES):
            await hall.come(f"{number}", steps=1)
            await trio.sleep(1)
        hall.present["0"].step()
        began = trio.current_time()
        for number in range(3):
            await hall.come(f"more{number}", steps=1)
        assert hall.gone == ["1", "2", "3"]
        assert trio.current_time() - began == pytest.approx(3 * PAUSE_S)

    within(scenario)


def test_a_step_during_the_pause_saves_the_place() -> None:
    """As a controller that was stalled reads what has arrived."""

    async def scenario(hall: Hall) -> None:
        await fill(hall, steps=1)

        async def read() -> None:
            hall.present["0"].step()

        async with trio.open_nursery() as nursery:
            nursery.start_soon(hall.come, "more")
            await trio.sleep(PAUSE_S / 2)
            nursery.start_soon(read)
        assert hall.gone == ["1"]

    within(scenario)


def test_the_silent_are_read_before_they_make_room() -> None:
    async def scenario(hall: Hall) -> None:
        await fill(hall)
        await trio.sleep(SILENT_S)
        for name in map(str, range(PLACES - 1)):

            async def read(stranger: Stranger = hall.present[name]) -> None:
                stranger.step()

            hall._nursery.start_soon(read)  # pyright: ignore[reportPrivateUsage]
        await hall.come("more")
        assert hall.gone == [str(PLACES - 1)]

    within(scenario)


@pytest.mark.parametrize("steps", [0, 1])
def test_a_crowd_at_one_address_takes_only_its_own_places(steps: int) -> None:
    async def scenario(hall: Hall) -> None:
        await hall.come("node", "elsewhere")
        await fill(hall, "crowd", "crowd", steps, count=PLACES - 1)
        for number in range(30):
            await trio.sleep(SILENT_S)
            await hall.come(f"more{number}", "crowd", steps)
        assert len(hall.gone) == 30
        assert "node" not in hall.gone

    within(scenario)


def test_few_connections_of_one_address_are_no_crowd() -> None:
    async def scenario(hall: Hall) -> None:
        await fill(hall, "a", "a", steps=1, count=4)
        for number in range(PLACES - 4):
            await hall.come(f"{number}", f"address{number}", steps=1)
            await trio.sleep(0.001)
        for name in map(str, range(4)):
            hall.present[f"a{name}"].step()
        await hall.come("more")
        assert hall.gone == ["0"]

    within(scenario)


def test_who_has_left_is_not_counted_and_makes_no_room() -> None:
    async def scenario(hall: Hall) -> None:
        await fill(hall, steps=1)
        hall.strangers.leave(hall.present["0"])
        await hall.come("more", steps=1)
        assert hall.gone == []
        await hall.come("another")
        assert hall.gone == ["1"]

    within(scenario)


def test_a_node_that_takes_its_steps_outlasts_a_thousand_that_do_not() -> None:
    """They take the first step, and come again."""

    async def scenario(hall: Hall) -> None:
        async def crowd(number: int) -> None:
            for _ in range(5):
                await hall.come(f"stranger{number}", steps=1)

        async with trio.open_nursery() as nursery:
            for number in range(200):
                nursery.start_soon(crowd, number)
            await trio.sleep(PLACES * PAUSE_S)
            await hall.come("node", steps=1)
            while len(hall.gone) < 900:
                await trio.sleep(PLACES * PAUSE_S * 0.7)
                hall.present["node"].step()
            assert "node" not in hall.gone

    within(scenario)
