"""A leadership term: replies to pending decisions, and their errors when the term ends."""

from collections.abc import Awaitable, Callable

import pytest
import trio
import trio.testing
from structlog.testing import capture_logs

from minikafka.controller.active.leadership_term import LeadershipTerm, TermEnded
from minikafka.controller.decisions.decision import RECORDS_MAX, Decision
from minikafka.controller.metadata.image import Image, copy_image
from minikafka.controller.metadata.records import ConfigRecord, FeatureRecord, Record, TopicRecord
from minikafka.controller.raft.raft import NotLeader
from minikafka.protocol.errors import InvalidRequestError, KafkaStorageError, UnknownServerError
from minikafka.protocol.records.batch import batches


class Bench:
    """A term with a fake log, and the reply or error of each request by name."""

    def __init__(self, nursery: trio.Nursery) -> None:
        self.nursery = nursery
        self.end_offset = 10
        self.appended = 0
        self.leads = True
        self.image = Image()
        self.term = LeadershipTerm(3, self.image, 10, self.append, lambda: 0)
        self.replies: dict[str, object] = {}

    def append(self, data: bytes) -> int:
        if not self.leads:
            raise NotLeader("no more")
        self.appended += 1
        self.end_offset += sum(batch.record_count for batch in batches(data))
        return self.end_offset

    def submit(self, name: str, decide: Callable[[Image], Decision[str]]) -> None:
        async def wait() -> None:
            try:
                self.replies[name] = (await self.term.submit(decide)).reply
            except TermEnded as error:
                self.replies[name] = error.certain
            except (InvalidRequestError, UnknownServerError) as error:
                self.replies[name] = error

        self.nursery.start_soon(wait)


def run(scenario: Callable[[Bench], Awaitable[None]]) -> None:
    async def main() -> None:
        async with trio.open_nursery() as nursery:
            bench = Bench(nursery)
            nursery.start_soon(bench.term.run)
            await scenario(bench)
            nursery.cancel_scope.cancel()

    trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0))


def level(number: int) -> Callable[[Image], Decision[str]]:
    """A decision that sets a feature, and replies with its value before and after."""

    def decide(image: Image) -> Decision[str]:
        records: list[Record] = [FeatureRecord("x", number)]
        return Decision(records, f"{image.features.get('x', 0)} to {number}")

    return decide


def look(image: Image) -> Decision[str]:
    return Decision([], f"is {image.features.get('x', 0)}")


def test_no_reply_before_the_decision_is_applied() -> None:
    async def scenario(bench: Bench) -> None:
        bench.submit("first", level(1))
        await trio.sleep(1)
        bench.submit("second", level(2))
        await trio.sleep(1)
        bench.submit("look", look)
        await trio.sleep(1)
        assert bench.replies == {}
        assert bench.image.features == {}, "pending decisions are not in the committed image"
        assert bench.term.records_at(10) == [FeatureRecord("x", 1)]
        bench.term.applied(11)
        await trio.sleep(1)
        assert bench.replies == {"first": "0 to 1"}
        bench.term.applied(12)
        await trio.sleep(1)
        assert bench.replies == {"first": "0 to 1", "second": "1 to 2", "look": "is 2"}

    run(scenario)


def test_queued_requests_share_a_write() -> None:
    async def scenario(bench: Bench) -> None:
        for number in range(1, 50):
            bench.submit(str(number), level(number))
        await trio.sleep(1)
        assert bench.appended <= 2
        assert bench.end_offset == 59

    run(scenario)


def test_a_decision_without_records_does_not_wait_for_applied_records() -> None:
    async def scenario(bench: Bench) -> None:
        bench.submit("look", look)
        await trio.sleep(1)
        assert bench.replies == {"look": "is 0"}

    run(scenario)


def test_an_error_of_a_decision_goes_to_its_sender_only() -> None:
    def refuse(image: Image) -> Decision[str]:
        raise InvalidRequestError("no")

    async def scenario(bench: Bench) -> None:
        bench.submit("refused", refuse)
        bench.submit("taken", level(1))
        await trio.sleep(1)
        bench.term.applied(11)
        await trio.sleep(1)
        assert isinstance(bench.replies["refused"], InvalidRequestError)
        assert bench.replies["taken"] == "0 to 1"

    run(scenario)


def test_the_end_of_a_term_reports_which_outcomes_are_certain() -> None:
    async def scenario(bench: Bench) -> None:
        bench.submit("committed", level(1))
        await trio.sleep(1)
        bench.submit("written", level(2))
        await trio.sleep(1)
        bench.submit("looks", look)
        await trio.sleep(1)
        bench.term.end(high_watermark=11)
        bench.submit("late", level(3))
        await trio.sleep(1)
        assert bench.replies == {"written": False, "looks": True, "late": True}
        bench.term.applied(11)
        await trio.sleep(1)
        assert bench.replies["committed"] == "0 to 1"

    run(scenario)


def test_the_term_ends_between_a_request_and_its_turn() -> None:
    """In any order in which trio runs the tasks: a controller that was paused (SIGSTOP) finds requests and the end of
    its term at the same time; it once crashed on that."""

    async def scenario(bench: Bench) -> None:
        await trio.sleep(1)
        bench.submit("asks", look)
        await trio.lowlevel.checkpoint()
        bench.term.end(high_watermark=10)
        await trio.sleep(1)
        assert bench.replies["asks"] in ("is 0", True)

    for _ in range(50):
        run(scenario)


def test_a_decision_that_could_not_be_appended_is_certainly_not_carried_out() -> None:
    async def scenario(bench: Bench) -> None:
        bench.leads = False
        bench.submit("too late", level(1))
        await trio.sleep(1)
        assert bench.replies == {"too late": True}

    run(scenario)


def test_a_decision_after_a_record_of_the_voters_has_the_offset_of_its_batch() -> None:
    """Raft appends records of the voters between decisions (KIP-853)."""

    async def scenario(bench: Bench) -> None:
        bench.end_offset += 1
        bench.submit("one", level(1))
        await trio.testing.wait_all_tasks_blocked()
        bench.term.applied(11)
        await trio.testing.wait_all_tasks_blocked()
        assert bench.replies == {}
        assert bench.term.records_at(10) is None
        assert bench.term.records_at(11) is not None
        bench.term.applied(12)
        await trio.testing.wait_all_tasks_blocked()
        assert list(bench.replies) == ["one"]

    run(scenario)


def test_a_leader_that_cannot_append_stops_unless_it_may_refuse() -> None:
    async def main() -> None:
        def full(data: bytes) -> int:
            raise KafkaStorageError("full")

        term = LeadershipTerm(3, Image(), 10, full, lambda: 0)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(term.run)
            await term.submit(level(1))

    with pytest.raises(ExceptionGroup) as caught:
        trio.run(main)
    assert caught.group_contains(KafkaStorageError)


LARGE = 3 << 20


def large(number: int, size: int = LARGE) -> Record:
    return ConfigRecord(2, f"t{number}", "name", "x" * size)


@pytest.mark.parametrize(
    ("records", "text", "events"),
    [
        ([FeatureRecord("fine", 1), TopicRecord(bytes(16), "\ud800")], "", ["decision failed"]),
        ([large(number) for number in range(3)], "have more than 8388608 bytes together", []),
    ],
    ids=["text", "size"],
)
def test_a_decision_that_cannot_be_encoded_fails_alone_and_changes_nothing(
    records: list[Record], text: str, events: list[str]
) -> None:
    async def scenario(bench: Bench) -> None:
        seen: list[Image] = []

        def decide(name: str, records: list[Record]) -> Callable[[Image], Decision[str]]:
            def decide(image: Image) -> Decision[str]:
                seen.append(copy_image(image))
                return Decision(records, name)

            return decide

        with capture_logs() as lines:
            for name, changes in (("before", [FeatureRecord("a", 1)]), ("bad", records), ("after", [])):
                bench.submit(name, decide(name, [*changes]))
                await trio.testing.wait_all_tasks_blocked()
        assert isinstance(bench.replies["bad"], UnknownServerError)
        assert text in str(bench.replies["bad"])
        assert [line["event"] for line in lines] == events
        assert seen[2] == seen[1], "the next decision is made as if the bad one had never been"
        assert seen[2].features == {"a": 1}
        bench.term.applied(bench.end_offset)
        bench.submit("later", decide("later", [FeatureRecord("b", 1)]))
        await trio.testing.wait_all_tasks_blocked()
        bench.term.applied(bench.end_offset)
        await trio.testing.wait_all_tasks_blocked()
        assert {name for name, reply in bench.replies.items() if reply == name} == {"before", "after", "later"}
        assert bench.end_offset == 12

    run(scenario)


def test_one_write_has_the_bytes_of_one_large_decision_at_most_and_of_another() -> None:
    async def scenario(bench: Bench) -> None:
        for number in range(9):
            bench.submit(f"{number}", lambda image, number=number: Decision([large(number)], f"{number}"))
        await trio.testing.wait_all_tasks_blocked()
        assert bench.appended == 3
        assert bench.end_offset == 19

    run(scenario)


def test_the_controllers_own_decisions_of_many_records_are_not_limited_in_bytes() -> None:
    records: list[Record] = [large(number, size=1000) for number in range(RECORDS_MAX + 1)]

    async def scenario(bench: Bench) -> None:
        bench.submit("fencing", lambda image: Decision(records, "fencing"))
        await trio.testing.wait_all_tasks_blocked()
        assert bench.appended == 1

    run(scenario)
