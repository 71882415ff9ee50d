"""The controller of a standalone node, without a quorum: one task decides, appends, commits, applies and replies.

A decision is made against the effects of all earlier decisions, committed or not, in an image private to the
controller. All other code reads `image`, which has committed records only. Requests that arrive while the device syncs
therefore share the next write and sync, and no reader sees a record that could be lost. A trio task.
"""

from collections.abc import Callable, Sequence
from random import Random
from typing import Any, TypeVar

import structlog
import trio

from minikafka.controller.active.leadership_term import copy_image
from minikafka.controller.active.request_queue import Decide, PendingDecision, RequestQueue
from minikafka.controller.decisions import producer_id_blocks, standalone_registration
from minikafka.controller.decisions.bootstrap_records import bootstrap
from minikafka.controller.decisions.decision import Context
from minikafka.controller.decisions.producer_id_blocks import ProducerIdBlock
from minikafka.controller.decisions.request_table import DESCRIPTIONS, IN_STEPS, elements_decided_about
from minikafka.controller.decisions.standalone_registration import Registration
from minikafka.controller.metadata.change_log import MetadataChanges
from minikafka.controller.metadata.cluster_ids import (
    check_metadata_directory,
    known_cluster_id,
    new_cluster_id,
    new_id,
)
from minikafka.controller.metadata.image import Image
from minikafka.controller.metadata.records import Endpoint, Record
from minikafka.controller.metadata.snapshot_encoding import records_of, snapshot_content
from minikafka.controller.metadata.snapshot_schedule import SnapshotSchedule
from minikafka.controller.metadata.steps import ELEMENTS_IN_A_STEP, Pauses
from minikafka.controller.metadata.subscribers import Subscriber, notify
from minikafka.controller.settings.metadata_log_settings import (
    data_directories,
    metadata_directory,
    metadata_log_config,
)
from minikafka.controller.settings.static_settings import StaticSettings
from minikafka.controller.standalone_log import StandaloneLog
from minikafka.controller.steps import in_steps
from minikafka.protocol.errors import KafkaStorageError, NotControllerError
from minikafka.storage.directories.data_directory import WrongDirectory
from minikafka.storage.disks.disk import Disk

__all__ = ["StandaloneController"]

log = structlog.get_logger("minikafka.controller")

Reply = TypeVar("Reply")
REFUSALS_LOGGED_S = 60.0


class StandaloneController:
    """The controller of a cluster that consists of this node alone.

    The constructor reads the log, so the image is complete; on the first start it formats the data directory.

    Args:
        static: the settings that the node was started with.
        disk: the disk of the metadata log.
        now_ms: returns the time of the wall clock in milliseconds.
        random: the source of ids and replica placement.
        log_levels: level by logger of this node; changed in place.
        set_log_level: called with logger and level when a level is changed.

    Attributes:
        image: the committed metadata.
        offset: the offset before which every record is applied to `image`.
        broker_epoch: the epoch of this node's registration; -1 before it is registered.

    Raises:
        WrongDirectory: the data belongs to another node or cluster, or the metadata log is missing beside it.
        UnreadableRecord: the log is damaged or written by a newer minikafka.
        BlockingIOError: another process has it open.
    """

    def __init__(
        self,
        static: StaticSettings,
        *,
        disk: Disk,
        now_ms: Callable[[], int],
        random: Random,
        log_levels: dict[str, str] | None = None,
        set_log_level: Callable[[str, str], None] = lambda logger, level: None,
    ) -> None:
        self.image = Image()
        self.broker_epoch = -1
        self.log_levels = {"root": "INFO"} if log_levels is None else log_levels
        self._static = static
        self._random = random
        self._set_log_level = set_log_level
        self._decided = Image()
        self._subscribers: list[Subscriber] = []
        self._pauses = Pauses()
        self._refusals = _Refusals()
        known = known_cluster_id(disk, data_directories(static), static.node_id)
        self._log = _open_log(static, disk, now_ms, random, known)
        for records in self._log.replay():
            self._apply(self._decided, records)
            self._apply(self.image, records)
        self.offset = self._log.end_offset
        self._check_cluster(known)
        self._schedule = SnapshotSchedule(static.number("metadata.log.max.record.bytes.between.snapshots"))
        self._queue = RequestQueue(_stopped)

    @property
    def cluster_id(self) -> str:
        """The cluster id, which is generated at the first start."""
        return self.image.cluster_id

    @property
    def leader_epoch(self) -> int:
        """The leader epoch of the metadata log; it grows with every start."""
        return self._log.leader_epoch

    def subscribe(self, subscriber: Subscriber) -> None:
        """Call `subscriber` with the records of each committed decision, after the image has changed and before the
        request is answered. It may let other tasks run; the next decision is applied when it has returned. For its
        exceptions see `notify`."""
        self._subscribers.append(subscriber)

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Decide until cancelled. An exception while applying or committing is fatal: the node stops."""
        batch: list[PendingDecision[Any]] = []
        try:
            task_status.started()
            while True:
                first = await self._queue.next()
                batch = await in_steps(self._queue.deciding(first, self._decided))
                await self._commit(batch)
        finally:  # Fail every request that still waits. Decisions that were appended may be durable or not.
            for pending in batch + self._queue.close():
                if not pending.done.is_set():
                    pending.fail(_stopped())

    async def submit(self, decide: Decide[Reply], elements: int = ELEMENTS_IN_A_STEP) -> Reply:
        """Queue a decision, first waiting while the queue is full; return its reply once it is committed and applied.

        After cancellation the decision may be carried out or not.

        Raises:
            KafkaError: raised by `decide`; NOT_CONTROLLER after the controller has stopped.
        """
        return (await self._queue.submit(decide, elements)).decided.reply

    async def handle(self, request: Any, version: int) -> Any:
        """The response to a request message. A read-only request is answered from the image without waiting.

        Raises:
            KafkaError: the request fails as a whole.
            KeyError: the controller has no decision for this message.
        """
        return await self._handle(request, Context(self._static, self._random, version, self.log_levels))

    async def handle_here(self, request: Any, version: int) -> Any:
        """Answer a request that was sent to the controller itself, like `handle`, but for the configs of any broker."""
        return await self._handle(
            request, Context(self._static, self._random, version, self.log_levels, forwarded=True)
        )

    async def _handle(self, request: Any, context: Context) -> Any:
        describing = DESCRIPTIONS.get(type(request))
        if describing is not None:
            return await in_steps(describing(self.image, request, context.version))
        decide = IN_STEPS[type(request)]
        return await self.submit(lambda image: decide(image, request, context), elements_decided_about(request))

    async def register(
        self,
        endpoints: Sequence[Endpoint],
        *,
        clean: bool = False,
        log_dirs: Sequence[bytes] = (),
        cordoned: Sequence[bytes] = (),
    ) -> int:
        """Register this node as a broker, unfenced and leading its partitions; returns its broker epoch.

        Args:
            endpoints: the addresses for clients and brokers.
            clean: whether all its logs were closed by a clean shutdown; otherwise its leader epochs are raised.
            log_dirs: the ids of the data directories that this node can use.
            cordoned: the ids of the data directories in which no new replicas are to be placed.
        """
        rack = self._static.value("broker.rack")
        registration = Registration(
            node_id=self._static.node_id,
            incarnation_id=new_id(self._random),
            endpoints=tuple(endpoints),
            rack=rack if isinstance(rack, str) else None,
            clean=clean,
            log_dirs=tuple(sorted(log_dirs)),
            cordoned=tuple(sorted(cordoned)),
        )
        self.broker_epoch = await self.submit(lambda image: standalone_registration.decide(image, registration))
        return self.broker_epoch

    async def allocate_producer_ids(self) -> ProducerIdBlock:
        """The next block of producer ids for this node."""
        return await self.submit(
            lambda image: producer_id_blocks.decide(image, node_id=self._static.node_id, broker_epoch=self.broker_epoch)
        )

    def close(self) -> None:
        """Close the log. All its records are on the device already."""
        self._log.close()

    async def _commit(self, batch: list[PendingDecision[Any]]) -> None:
        """Append, commit and apply the decisions, and reply. If the disk is full, nothing is appended and they fail."""
        changes = [pending.records for pending in batch if pending.records]
        if changes:
            encoded = await in_steps(self._log.encoding(changes))
            try:
                end = self._log.append_batches(encoded)
            except KafkaStorageError as error:
                if self._log.is_offline:
                    raise
                self._refuse(batch, error)
                return
            await self._log.commit(end)
            self.offset = end
            self._refusals.over()
        for pending in batch:
            await self._finish(pending)
        if changes:
            await self._snapshot_if_due()

    def _refuse(self, batch: list[PendingDecision[Any]], error: KafkaStorageError) -> None:
        """Take decisions back that could not be written."""
        self._decided = copy_image(self.image)
        self._refusals.refused(error, len(batch))
        for pending in batch:
            pending.fail(error)

    async def _finish(self, pending: PendingDecision[Any]) -> None:
        if pending.records:
            changes = MetadataChanges(self.image, pending.records)
            if self._pauses.due(len(pending.records)):
                await trio.lowlevel.checkpoint()
            self._apply(self.image, pending.records)
            await in_steps(changes.logging())
            await notify(self._subscribers, pending.records)
        for logger, level in pending.decided.log_levels.items():
            self.log_levels[logger] = level
            self._set_log_level(logger, level)
        pending.done.set()

    @staticmethod
    def _apply(image: Image, records: Sequence[Record]) -> None:
        for record in records:
            image.apply(record)

    async def _snapshot_if_due(self) -> None:
        """Write a snapshot from time to time, so that a start need not replay the whole log."""
        if not self._schedule.is_due(self._log.bytes_since_snapshot):
            return
        content = await in_steps(snapshot_content(records_of(self.image)))  # This task alone changes the image.
        try:
            await self._log.write_snapshot(content, self.offset)
            self._schedule.written()
        except (OSError, KafkaStorageError) as error:
            self._schedule.failed(self._log.bytes_since_snapshot)
            log.error("metadata snapshot failed", error=str(error), offset=self.offset)

    def _check_cluster(self, cluster_id: str | None) -> None:
        if cluster_id is not None and cluster_id != self.image.cluster_id:
            raise WrongDirectory(
                f"the data directories belong to cluster {cluster_id}, the metadata log to {self.image.cluster_id}: "
                "set other log.dirs or metadata.log.dir"
            )


class _Refusals:
    """Logs that changes are refused: when that begins, then once a minute, and when it is over."""

    def __init__(self) -> None:
        self._count = 0
        self._logged_at: float | None = None

    def refused(self, error: KafkaStorageError, requests: int) -> None:
        """Note that requests were refused."""
        now = trio.current_time()
        self._count += requests
        if self._logged_at is None or now >= self._logged_at + REFUSALS_LOGGED_S:
            log.error("metadata change refused", error=str(error), requests=self._count)
            self._count, self._logged_at = 0, now

    def over(self) -> None:
        """Note that a change was written, so that changes are accepted again."""
        if self._logged_at is not None:
            log.info("metadata changes accepted again", refused=self._count)
            self._count, self._logged_at = 0, None


def _stopped() -> NotControllerError:
    return NotControllerError("the controller has stopped")


def _open_log(
    static: StaticSettings, disk: Disk, now_ms: Callable[[], int], random: Random, known: str | None
) -> StandaloneLog:
    """The log on this node's disk. A new log gets the first records of a new cluster."""
    check_metadata_directory(disk, metadata_directory(static), data_directories(static))
    opened = StandaloneLog.open(disk, metadata_directory(static), metadata_log_config(static), now_ms=now_ms)
    if opened.end_offset == 0:
        cluster_id = known or new_cluster_id(random)
        opened.append([bootstrap(cluster_id, static)])
        opened.commit_now()
        log.info("cluster created", cluster_id=cluster_id, directory=metadata_directory(static))
    return opened
