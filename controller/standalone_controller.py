"""The controller of a node alone: one queue, one task. Decide, append, commit, apply, reply.

A decision is made against what all earlier decisions will have done, committed or not; that image is the
controller's own. Everybody else reads `image`, which only knows what is committed. So whatever waits in the
queue while the device syncs goes into one write and one sync together, and still nobody sees what might be
lost.
"""

from collections.abc import Callable, Sequence
from random import Random
from typing import Any, TypeVar

import structlog
import trio

from minikafka.controller.active.request_queue import Asked, Decide, Inbox
from minikafka.controller.decisions import lone_broker, producer_ids
from minikafka.controller.decisions.decision import Context
from minikafka.controller.decisions.first_records import bootstrap
from minikafka.controller.decisions.lone_broker import Registration
from minikafka.controller.decisions.producer_ids import ProducerIds
from minikafka.controller.decisions.routing import DECISIONS, DESCRIPTIONS
from minikafka.controller.metadata.cluster_ids import (
    data_directories,
    known_cluster_id,
    metadata_directory,
    new_cluster_id,
    new_id,
)
from minikafka.controller.metadata.image import Image
from minikafka.controller.metadata.records import Endpoint, Record
from minikafka.controller.metadata.snapshot_encoding import encode_snapshot, records_of
from minikafka.controller.settings.static_settings import StaticSettings
from minikafka.controller.standalone_log import LocalLog, metadata_log_config
from minikafka.protocol.errors import NotControllerError
from minikafka.storage.data_directory import WrongDirectory
from minikafka.storage.disk import Disk

__all__ = ["StandaloneController"]

log = structlog.get_logger("minikafka.controller")

Reply = TypeVar("Reply")
Subscriber = Callable[[Sequence[Record]], None]


class StandaloneController:
    """The cluster's decisions, as long as one node is the whole quorum.

    Made, it has read the log and its image is complete; a first start formats the data directory by itself.

    Args:
        static: what the node was started with.
        disk: where the metadata log is kept.
        now_ms: the wall clock.
        random: the source of ids and places.
        log_levels: level by logger of this node; changed in place.
        set_log_level: called with logger and level when one is changed.

    Attributes:
        image: the cluster, as committed.
        offset: what is applied to it: everything before.
        broker_epoch: of this node's registration, -1 before.

    Raises:
        WrongDirectory: the data belongs to another node or cluster.
        UnreadableRecord: the log is damaged or of a newer minikafka.
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
        self._log = _local_log(static, disk, now_ms, random)
        for records in self._log.replay():
            self._apply(self._decided, records)
            self._apply(self.image, records)
        self.offset = self._log.end_offset
        self._check_cluster(known_cluster_id(disk, data_directories(static), static.node_id))
        self._snapshot_bytes = static.number("metadata.log.max.record.bytes.between.snapshots")
        self._bytes_at_failure = 0
        self._inbox = Inbox(_stopped)

    @property
    def cluster_id(self) -> str:
        """Written down at the first start."""
        return self.image.cluster_id

    @property
    def leader_epoch(self) -> int:
        """Of the quorum's leader, which is this node."""
        return self._log.leader_epoch

    def subscribe(self, subscriber: Subscriber) -> None:
        """Have `subscriber` called with the records of each committed decision, after the image has changed and
        before the decision is answered. What it raises ends the node."""
        self._subscribers.append(subscriber)

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Decide until cancelled. An exception while applying or committing is fatal: it ends the node."""
        decided: list[Asked[Any]] = []
        try:
            task_status.started()
            while True:
                decided = self._inbox.decide(await self._inbox.first(), self._decided)
                await self._carry_out(decided)
        finally:  # Nobody must wait for a controller that has ended. What was decided may last, or not.
            for asked in decided + self._inbox.close():
                if not asked.done.is_set():
                    asked.fail(_stopped())

    async def submit(self, decide: Decide[Reply]) -> Reply:
        """The reply to a decision, once it is committed and applied.

        Cancelled, it may be carried out or not. A full queue makes this wait.

        Raises:
            KafkaError: what `decide` raised; NOT_CONTROLLER after the controller has ended.
        """
        return (await self._inbox.ask(decide)).decided.reply

    async def handle(self, request: Any, version: int) -> Any:
        """The response to a request message; one that only asks is answered from the image at once.

        Raises:
            KafkaError: for the request as a whole.
            KeyError: no decision is made about such messages.
        """
        describe = DESCRIPTIONS.get(type(request))
        if describe is not None:
            return describe(self.image, request, version)
        decide = DECISIONS[type(request)]
        context = Context(self._static, self._random, version, self.log_levels)
        return await self.submit(lambda image: decide(image, request, context))

    async def register(self, endpoints: Sequence[Endpoint], *, clean: bool = False) -> int:
        """Take this node into the cluster, alive and leading what it led; returns its broker epoch.

        Args:
            endpoints: where clients and brokers reach it.
            clean: whether all its logs were closed by a clean shutdown; else it leads in new leader epochs.
        """
        rack = self._static.value("broker.rack")
        registration = Registration(
            node_id=self._static.node_id,
            incarnation_id=new_id(self._random),
            endpoints=tuple(endpoints),
            rack=rack if isinstance(rack, str) else None,
            clean=clean,
        )
        self.broker_epoch = await self.submit(lambda image: lone_broker.decide(image, registration))
        return self.broker_epoch

    async def allocate_producer_ids(self) -> ProducerIds:
        """The next block of producer ids for this node."""
        return await self.submit(
            lambda image: producer_ids.decide(image, node_id=self._static.node_id, broker_epoch=self.broker_epoch)
        )

    def close(self) -> None:
        """Close the log. Everything in it is on the device already."""
        self._log.close()

    async def _carry_out(self, decided: list[Asked[Any]]) -> None:
        """Append, commit, apply, reply."""
        changes = [asked.records for asked in decided if asked.records]
        if changes:
            end = self._log.append(changes)
            await self._log.commit(end)
            self.offset = end
        for asked in decided:
            self._finish(asked)
        if changes:
            await self._snapshot_if_due()

    def _finish(self, asked: Asked[Any]) -> None:
        if asked.records:
            self._apply(self.image, asked.records)
            for subscriber in self._subscribers:
                subscriber(asked.records)
        for logger, level in asked.decided.log_levels.items():
            self.log_levels[logger] = level
            self._set_log_level(logger, level)
        asked.done.set()

    @staticmethod
    def _apply(image: Image, records: Sequence[Record]) -> None:
        for record in records:
            image.apply(record)

    async def _snapshot_if_due(self) -> None:
        """Write a snapshot so that the next start need not read everything."""
        if self._log.bytes_since_snapshot - self._bytes_at_failure < self._snapshot_bytes:
            return
        try:
            await self._log.write_snapshot(encode_snapshot(records_of(self.image)), self.offset)
            self._bytes_at_failure = 0
        except OSError as error:
            self._bytes_at_failure = self._log.bytes_since_snapshot
            log.error("the metadata snapshot could not be written", error=str(error))

    def _check_cluster(self, told: str | None) -> None:
        if told is not None and told != self.image.cluster_id:
            raise WrongDirectory(
                f"the data directories belong to cluster {told}, the metadata log to {self.image.cluster_id}: "
                "set other log.dirs or metadata.log.dir"
            )


def _stopped() -> NotControllerError:
    return NotControllerError("the controller has stopped")


def _local_log(static: StaticSettings, disk: Disk, now_ms: Callable[[], int], random: Random) -> LocalLog:
    """The log on this node's disk; a new one begins with the first records of a new cluster."""
    known = known_cluster_id(disk, data_directories(static), static.node_id)
    opened = LocalLog.open(disk, metadata_directory(static), metadata_log_config(static), now_ms=now_ms)
    if opened.end_offset == 0:
        cluster_id = known or new_cluster_id(random)
        opened.append([bootstrap(cluster_id, static)])
        opened.commit_now()
        log.info("a new cluster", cluster_id=cluster_id, directory=metadata_directory(static))
    return opened
