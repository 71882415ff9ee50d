"""The controller of a lone node: order, group commit, subscribers, visibility of changes, a full disk, restarts."""

import contextlib
import errno
from collections.abc import Sequence
from random import Random
from typing import Any

import pytest
import structlog.testing
import trio
import trio.testing
from support.controllers import create, creation, image_of, make_slow, started, submit, until_active, with_controller
from support.quorum import register

from minikafka.controller.decisions.decision import Decision
from minikafka.controller.failures import FAILURES
from minikafka.controller.metadata.image import Image
from minikafka.controller.metadata.records import FeatureRecord, Record, RemoveTopic, TopicRecord
from minikafka.controller.quorum_controller import QuorumController
from minikafka.protocol.errors import (
    ErrorCode,
    InvalidTopicError,
    KafkaStorageError,
    RequestTimedOutError,
    UnknownServerError,
    UnsupportedVersionError,
)
from minikafka.protocol.messages import incremental_alter_configs as incremental
from minikafka.protocol.messages.broker_registration import BrokerRegistrationRequest, Listener
from minikafka.protocol.messages.list_config_resources import ListConfigResourcesRequest
from minikafka.storage.disks.memory_disk import MemoryDisk, PowerLoss


def new_disk() -> MemoryDisk:
    return MemoryDisk(Random(0))


def test_a_new_cluster_has_an_id_and_its_broker() -> None:
    async def use(controller: QuorumController) -> int:
        return controller.broker_epoch

    controller, epoch = with_controller(new_disk(), use)
    assert len(controller.image.cluster_id) == 22
    assert (epoch, controller.image.live_brokers()) == (0, [1])
    assert controller.image.config(4, "") == {"min.insync.replicas": "1"}


def test_a_restart_keeps_the_metadata_and_raises_the_broker_epoch() -> None:
    disk = new_disk()

    async def first(controller: QuorumController) -> list[int]:
        return await create(controller, "a", "b", partitions=3)

    before, codes = with_controller(disk, first)
    assert codes == [0, 0]
    assert image_of(disk) == before.image

    async def second(controller: QuorumController) -> tuple[int, int]:
        return controller.leader_epoch, controller.broker_epoch

    after, epochs = with_controller(disk, second)
    assert epochs == (3, 1)
    partitions = after.image.topics["a"].partitions
    assert [(state.leader, state.leader_epoch) for state in partitions] == [(1, 1)] * 3


def test_no_other_process_takes_the_registration_of_the_broker_over() -> None:
    async def use(controller: QuorumController) -> tuple[int, int]:
        stranger = Listener(name="PLAINTEXT", host="10.1.2.3", port=666)
        request = BrokerRegistrationRequest(
            broker_id=1,
            cluster_id=controller.image.cluster_id,
            incarnation_id=b"x" * 16,
            listeners=[stranger],
            rack=None,
        )
        response = await controller.handle(request, 4)
        return response.error_code, controller.image.brokers[1].epoch

    controller, found = with_controller(new_disk(), use)
    assert found == (ErrorCode.DUPLICATE_BROKER_REGISTRATION, controller.broker_epoch)


def test_subscribers_are_called_after_the_image_changes_and_before_the_reply() -> None:
    seen: list[tuple[list[str], bool]] = []

    async def use(controller: QuorumController) -> None:
        answered = trio.Event()

        async def subscriber(records: Sequence[Record]) -> None:
            names = [record.name for record in records if isinstance(record, TopicRecord)]
            assert all(name in controller.image.topics for name in names)
            seen.append((names, answered.is_set()))

        controller.subscribe(subscriber)
        await create(controller, "a")
        answered.set()

    with_controller(new_disk(), use)
    assert seen == [(["a"], False)]


def test_queued_decisions_see_each_other_and_share_one_sync() -> None:
    disk = new_disk()
    syncs: list[None] = []

    async def use(controller: QuorumController) -> list[int]:
        run = disk.run

        async def counted(function: Any, *args: object) -> Any:
            syncs.append(None)
            return await run(function, *args)

        disk.run = counted  # type: ignore[method-assign]
        codes: list[int] = []

        async def one() -> None:
            codes.extend(await create(controller, "a"))

        async with trio.open_nursery() as nursery:
            for _ in range(50):
                nursery.start_soon(one)
        return codes

    make_slow(disk, 0.01)
    _, codes = with_controller(disk, use)
    assert sorted(codes) == [0] + [36] * 49  # TOPIC_ALREADY_EXISTS
    assert len(syncs) == 1


def test_the_image_has_no_unsynced_records() -> None:
    disk = new_disk()

    async def use(controller: QuorumController) -> None:
        make_slow(disk, 1)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(create, controller, "a")
            await trio.sleep(0.5)
            assert "a" not in controller.image.topics
            await trio.sleep(1)
            assert "a" in controller.image.topics

    with_controller(disk, use)


def test_a_refused_request_gets_its_error_and_changes_nothing() -> None:
    def refuse(image: Image) -> Decision[None]:
        raise InvalidTopicError("no")

    def broken(image: Image) -> Decision[None]:
        raise ZeroDivisionError

    async def use(controller: QuorumController) -> None:
        before = controller.offset
        with pytest.raises(InvalidTopicError):
            await submit(controller, refuse)
        failed = FAILURES["decision"]
        with structlog.testing.capture_logs() as logs, pytest.raises(UnknownServerError):
            await submit(controller, broken)
        assert [(one["event"], one["exc_info"]) for one in logs] == [("decision failed", True)]
        assert FAILURES["decision"] == failed + 1
        assert controller.offset == before
        assert await create(controller, "a") == [0]

    with_controller(new_disk(), use)


def test_a_read_only_request_is_answered_without_a_decision() -> None:
    async def use(controller: QuorumController) -> Any:
        before = controller.offset
        response = await controller.handle(ListConfigResourcesRequest(resource_types=[4]), 1)
        assert controller.offset == before
        return [(one.resource_name, one.resource_type) for one in response.config_resources]

    assert with_controller(new_disk(), use)[1] == [("1", 4)]


def test_log_levels_change_before_the_reply() -> None:
    changes: list[tuple[str, str]] = []
    change = incremental.AlterableConfig(name="root", config_operation=0, value="DEBUG")
    resource = incremental.AlterConfigsResource(resource_type=8, resource_name="1", configs=[change])

    async def use(controller: QuorumController) -> None:
        controller._set_log_level = lambda logger, level: changes.append((logger, level))
        await controller.handle(incremental.IncrementalAlterConfigsRequest(resources=[resource]), 1)
        assert controller.log_levels["root"] == "DEBUG"

    with_controller(new_disk(), use)
    assert changes == [("root", "DEBUG")]


def test_producer_ids_are_never_allocated_twice_even_after_a_restart() -> None:
    disk = new_disk()

    async def use(controller: QuorumController) -> list[int]:
        return [(await controller.allocate_producer_ids()).first for _ in range(2)]

    assert with_controller(disk, use)[1] == [0, 1000]
    assert with_controller(disk, use)[1] == [2000, 3000]


def test_a_record_that_does_not_fit_stops_the_node() -> None:
    def decide(image: Image) -> Decision[None]:
        return Decision([RemoveTopic(bytes(16))], None)

    async def use(controller: QuorumController) -> None:
        await submit(controller, decide)

    with pytest.raises(ExceptionGroup) as caught:
        with_controller(new_disk(), use)
    assert caught.group_contains(KeyError)


def test_changes_are_refused_while_the_disk_is_full() -> None:
    disk = new_disk()

    async def use(controller: QuorumController) -> None:
        disk.fail("write", path="__cluster_metadata-0/", times=2, code=errno.ENOSPC)
        for name in ("a", "b"):
            with pytest.raises(KafkaStorageError, match="__cluster_metadata-0 cannot be written"):
                await create(controller, name)
        assert not controller.image.topics
        assert await create(controller, "a", "c") == [0, 0]
        assert list(controller.image.topics) == ["a", "c"]

    controller, _ = with_controller(disk, use)
    assert image_of(disk) == controller.image


def test_refusals_are_logged_when_they_begin_once_a_minute_and_when_they_are_over() -> None:
    """Something is refused each second; a disk that is full a second time begins anew."""
    disk = new_disk()

    async def use(controller: QuorumController) -> None:
        for _ in range(2):
            disk.fail("write", path="__cluster_metadata-0/", times=100, code=errno.ENOSPC)
            for _ in range(100):
                with pytest.raises(KafkaStorageError):
                    await create(controller, "a")
                await controller.report_contact()
                await trio.sleep(1)
            assert await create(controller, "b") in ([0], [36])

    with structlog.testing.capture_logs() as logs:
        with_controller(disk, use)
    refusals = [one for one in logs if one["event"].startswith("metadata change")]
    counts = [(one["log_level"], one.get("requests", one.get("refused"))) for one in refusals]
    assert counts[:3] == [("error", 1), ("error", 60), ("info", 39)]
    assert counts[3:5] == counts[:2]


def test_other_decisions_go_on_from_what_is_written_after_a_refusal() -> None:
    """The refused topic is not in the image by which the next decision is made, and one in flight is kept."""
    disk = new_disk()

    async def use(controller: QuorumController) -> None:
        make_slow(disk, 1)
        codes: list[int] = []

        async def first() -> None:
            codes.extend(await create(controller, "a"))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(first)
            await trio.sleep(0.5)
            disk.fail("write", path="__cluster_metadata-0/", times=1, code=errno.ENOSPC)
            with pytest.raises(KafkaStorageError):
                await create(controller, "b")
        assert codes == [0]
        assert await create(controller, "a", "b") == [36, 0]

    controller, _ = with_controller(disk, use)
    assert list(controller.image.topics) == ["a", "b"]


def test_a_disk_that_fails_for_good_stops_the_node() -> None:
    disk = new_disk()

    async def use(controller: QuorumController) -> None:
        disk.fail("write", path="__cluster_metadata-0/", times=1, code=errno.EIO)
        await create(controller, "a")

    with pytest.raises(ExceptionGroup) as caught:
        with_controller(disk, use)
    assert caught.group_contains(KafkaStorageError)


def test_the_broker_of_the_controllers_own_process_needs_no_contact() -> None:
    """A process that stood still for longer than the session timeout goes on, as if nothing had been."""

    async def use(controller: QuorumController) -> None:
        await create(controller, "a")
        await trio.sleep(3600)
        assert controller.image.live_brokers() == [1]

    controller, _ = with_controller(new_disk(), use)
    assert controller.image.topics["a"].partitions[0].leader_epoch == 0


def test_a_failing_subscriber_stops_the_node() -> None:
    def subscriber(records: Sequence[Record]) -> None:
        raise OSError("no directory for the partition")

    async def use(controller: QuorumController) -> None:
        controller.subscribe(subscriber)
        await create(controller, "a")

    with pytest.raises(ExceptionGroup) as caught:
        with_controller(new_disk(), use)
    assert caught.group_contains(OSError)


def test_requests_fail_when_the_controller_has_stopped() -> None:
    async def main() -> None:
        disk = new_disk()
        controller = started(disk)
        outcomes: list[Exception] = []

        async def ask() -> None:
            with pytest.raises(RequestTimedOutError) as caught:
                await create(controller, "a")
            outcomes.append(caught.value)

        async with trio.open_nursery() as askers, trio.open_nursery() as nursery:
            await nursery.start(controller.run)
            await until_active(controller)
            await register(controller, 1)
            make_slow(disk, 10)
            for _ in range(3):
                askers.start_soon(ask)
            await trio.sleep(1)
            nursery.cancel_scope.cancel()
        assert len(outcomes) == 3

    trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0))


def test_one_decision_is_one_batch() -> None:
    disk = new_disk()

    async def use(controller: QuorumController) -> None:
        await create(controller, "a", "b", partitions=100)

    with_controller(disk, use)
    path = "/data/__cluster_metadata-0/00000000000000000000.log"
    file = disk.open(path)
    file.truncate(file.size_bytes - 1)
    disk.remove("/data/__cluster_metadata-0/synced-offset")  # As if the batch had not been on the device.
    cut = image_of(disk)
    assert list(cut.topics) == []
    assert cut.live_brokers() == [1]


def test_a_start_reads_the_snapshot_and_the_log_after_it() -> None:
    disk = new_disk()

    async def use(controller: QuorumController) -> Image:
        for round_ in range(20):
            await create(controller, *[f"t{round_}-{index}" for index in range(20)], partitions=5)
        return controller.image

    bound = "100000"
    _, image = with_controller(disk, use, metadata_log_max_record_bytes_between_snapshots=bound)
    names = disk.list("/data/__cluster_metadata-0")
    snapshots = [name for name in names if name.endswith(".checkpoint")]
    assert len(snapshots) == 2
    logs = [name for name in names if name.endswith(".log")]
    assert int(logs[0][:20]) > 0
    again = image_of(disk)
    assert again == image
    assert list(again.topics) == list(image.topics)


def test_a_failed_snapshot_is_retried_later() -> None:
    disk = new_disk()

    async def use(controller: QuorumController) -> None:
        write, failures = disk.write_atomically, [OSError("no room")]

        def failing(path: str, data: bytes, *, sync: bool = True) -> None:
            if path.endswith(".checkpoint") and failures:
                raise failures.pop()
            write(path, data, sync=sync)

        disk.write_atomically = failing  # type: ignore[method-assign]
        for round_ in range(10):
            assert await create(controller, f"t{round_}", partitions=100) == [0]

    with_controller(disk, use, metadata_log_max_record_bytes_between_snapshots="50000")
    assert any(name.endswith(".checkpoint") for name in disk.list("/data/__cluster_metadata-0"))


def test_acknowledged_changes_survive_a_power_cut() -> None:
    for seed in range(12):
        disk = MemoryDisk(Random(seed))

        async def use(controller: QuorumController) -> list[str]:
            acknowledged: list[str] = []
            for name in "abcdef":
                await create(controller, name, partitions=3)
                acknowledged.append(name)
            return acknowledged

        _, acknowledged = with_controller(disk, use)
        disk.crash()
        again = image_of(disk)
        assert list(again.topics) == acknowledged
        assert all(len(topic.partitions) == 3 for topic in again.topics.values())


def test_any_decision_can_be_submitted() -> None:
    async def use(controller: QuorumController) -> int:
        return await submit(controller, lambda image: Decision([FeatureRecord("x", 5)], len(image.topics)))

    controller, reply = with_controller(new_disk(), use)
    assert (reply, controller.image.features["x"]) == (0, 5)


def test_requests_of_every_kind_have_a_decision() -> None:
    async def use(controller: QuorumController) -> None:
        with pytest.raises(UnsupportedVersionError):
            await controller.handle(object(), 0)
        assert (await controller.handle(creation(), 7)).topics == []

    with_controller(new_disk(), use)


def test_a_power_cut_at_any_disk_operation() -> None:
    """After a power cut at any operation the node starts and has all acknowledged changes."""
    for operations in range(1, 150, 5):
        disk = MemoryDisk(Random(operations))
        acknowledged: list[str] = []

        async def use(controller: QuorumController, acknowledged: list[str] = acknowledged) -> None:
            for name in "abcdefgh":
                if await create(controller, name, partitions=5) == [0]:
                    acknowledged.append(name)

        disk.lose_power_after(operations)
        with contextlib.suppress(PowerLoss, BaseExceptionGroup):
            with_controller(disk, use, metadata_log_max_record_bytes_between_snapshots="2000")
        disk.crash()
        assert list(image_of(disk).topics)[: len(acknowledged)] == acknowledged
