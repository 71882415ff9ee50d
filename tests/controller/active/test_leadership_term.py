"""A term as the active controller: who waits for what, and what they learn when it ends."""

from collections.abc import Awaitable, Callable

import pytest
import trio
import trio.testing

from minikafka.controller.active.leadership_term import LeadershipTerm, TermEnded, copy_image
from minikafka.controller.decisions.decision import Decision
from minikafka.controller.metadata.image import Image
from minikafka.controller.metadata.records import FeatureRecord, Record
from minikafka.controller.raft.raft import NotLeader
from minikafka.protocol.errors import InvalidRequestError
from minikafka.protocol.records.batch import batches


class Bench:
    """A term that appends to nowhere, and what became of those who asked."""

    def __init__(self, nursery: trio.Nursery) -> None:
        self.nursery = nursery
        self.end_offset = 10
        self.appended = 0
        self.leads = True
        self.image = Image()
        self.term = LeadershipTerm(3, self.image, 10, self.append, lambda: 0)
        self.told: dict[str, object] = {}

    def append(self, data: bytes) -> int:
        if not self.leads:
            raise NotLeader("no more")
        self.appended += 1
        self.end_offset += sum(batch.record_count for batch in batches(data))
        return self.end_offset

    def ask(self, name: str, decide: Callable[[Image], Decision[str]]) -> None:
        async def wait() -> None:
            try:
                self.told[name] = (await self.term.submit(decide)).reply
            except TermEnded as error:
                self.told[name] = error.certain
            except InvalidRequestError as error:
                self.told[name] = error

        self.nursery.start_soon(wait)


def run(story: Callable[[Bench], Awaitable[None]]) -> None:
    async def main() -> None:
        async with trio.open_nursery() as nursery:
            bench = Bench(nursery)
            nursery.start_soon(bench.term.run)
            await story(bench)
            nursery.cancel_scope.cancel()

    trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0))


def level(number: int) -> Callable[[Image], Decision[str]]:
    """Sets a feature, and says what it was by all earlier decisions."""

    def decide(image: Image) -> Decision[str]:
        records: list[Record] = [FeatureRecord("x", number)]
        return Decision(records, f"{image.features.get('x', 0)} to {number}")

    return decide


def look(image: Image) -> Decision[str]:
    return Decision([], f"is {image.features.get('x', 0)}")


def test_nobody_is_answered_before_it_is_applied() -> None:
    async def story(bench: Bench) -> None:
        bench.ask("first", level(1))
        await trio.sleep(1)
        bench.ask("second", level(2))
        await trio.sleep(1)
        bench.ask("look", look)
        await trio.sleep(1)
        assert bench.told == {}
        assert bench.image.features == {}, "what is decided shows nowhere else"
        assert bench.term.records_at(10) == [FeatureRecord("x", 1)]
        bench.term.applied(11)
        await trio.sleep(1)
        assert bench.told == {"first": "0 to 1"}
        bench.term.applied(12)
        await trio.sleep(1)
        assert bench.told == {"first": "0 to 1", "second": "1 to 2", "look": "is 2"}

    run(story)


def test_what_waits_is_written_together() -> None:
    async def story(bench: Bench) -> None:
        for number in range(1, 50):
            bench.ask(str(number), level(number))
        await trio.sleep(1)
        assert bench.appended <= 2
        assert bench.end_offset == 59

    run(story)


def test_who_changes_nothing_need_not_wait_for_what_is_applied_already() -> None:
    async def story(bench: Bench) -> None:
        bench.ask("look", look)
        await trio.sleep(1)
        assert bench.told == {"look": "is 0"}

    run(story)


def test_what_a_decision_raises_is_for_whoever_asked() -> None:
    def refuse(image: Image) -> Decision[str]:
        raise InvalidRequestError("no")

    async def story(bench: Bench) -> None:
        bench.ask("refused", refuse)
        bench.ask("taken", level(1))
        await trio.sleep(1)
        bench.term.applied(11)
        await trio.sleep(1)
        assert isinstance(bench.told["refused"], InvalidRequestError)
        assert bench.told["taken"] == "0 to 1"

    run(story)


def test_at_the_end_of_a_term_it_is_told_what_is_certain() -> None:
    async def story(bench: Bench) -> None:
        bench.ask("committed", level(1))
        await trio.sleep(1)
        bench.ask("written", level(2))
        await trio.sleep(1)
        bench.ask("looks", look)
        await trio.sleep(1)
        bench.term.end(high_watermark=11)
        bench.ask("late", level(3))
        await trio.sleep(1)
        assert bench.told == {"written": False, "looks": True, "late": True}
        bench.term.applied(11)
        await trio.sleep(1)
        assert bench.told["committed"] == "0 to 1"

    run(story)


def test_the_term_ends_between_a_request_and_its_turn() -> None:
    """In whichever order trio runs who asks, who decides and who ends the term: a controller that was stopped and goes
    on finds requests and the news of its successor waiting together, and died of it."""

    async def story(bench: Bench) -> None:
        await trio.sleep(1)
        bench.ask("asks", look)
        await trio.lowlevel.checkpoint()
        bench.term.end(high_watermark=10)
        await trio.sleep(1)
        assert bench.told["asks"] in ("is 0", True)

    for _ in range(50):
        run(story)


def test_what_could_not_be_written_is_certainly_not_carried_out() -> None:
    async def story(bench: Bench) -> None:
        bench.leads = False
        bench.ask("too late", level(1))
        await trio.sleep(1)
        assert bench.told == {"too late": True}

    run(story)


def test_a_copy_of_an_image_goes_its_own_way() -> None:
    image = Image()
    image.apply(FeatureRecord("x", 1))
    other = copy_image(image)
    other.apply(FeatureRecord("x", 2))
    assert (image.features, other.features) == ({"x": 1}, {"x": 2})
    with pytest.raises(AssertionError):
        image.apply(object())  # type: ignore[arg-type]
