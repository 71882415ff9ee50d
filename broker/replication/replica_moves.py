"""`ReplicaMoves`: moves replicas to other data directories of this node, while they are in use (KIP-113, KIP-858).

    request ──► a future log is made ──► copied, throttled ──► caught up: the controller is asked to assign it
                                                           ──► assigned: flushed, the rest copied, swapped in one step

One replica is copied at a time, in the order of the requests, as Kafka's fetcher threads do. Nothing else writes to a
future log, and between the copy of the last records and the swap no other task runs: no lock is needed. The log cleaner
leaves a log alone while the log is copied, since a record that the cleaner removes may be in the copy already. When a
log is truncated, its copy is compared with the log by leader epochs, as a follower's log is with its leader's.

A move ends early with another request for the same replica, with the removal of the replica, or with the failure of a
directory. A restart of the node continues the moves. Uses a trio task. Source: Kafka's
`ReplicaManager.alterReplicaLogDirs`, `ReplicaAlterLogDirsThread`.
"""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

import structlog
import trio

from minikafka.broker.partitions.follower_log import append_fetched, first_batches, truncation_offset
from minikafka.broker.partitions.partition import Partition
from minikafka.broker.partitions.partition_table import Partitions
from minikafka.broker.partitions.request_waiters import steady_ms
from minikafka.broker.replication.replication_throttle import Throttle
from minikafka.controller.metadata.image import Image
from minikafka.protocol.error_codes import ErrorCode
from minikafka.protocol.errors import KafkaError, KafkaStorageError
from minikafka.protocol.names import TopicPartition
from minikafka.protocol.records.record import CorruptRecords
from minikafka.storage.directories.data_directory import DataDirectory
from minikafka.storage.directories.directory_ids import LOST
from minikafka.storage.directories.log_manager import LogManager
from minikafka.storage.directories.renamed_logs import NAME_LENGTH_MAX, future_name
from minikafka.storage.disks.disk import FileSlice
from minikafka.storage.logs.log import Log
from minikafka.storage.logs.log_results import OffsetOutOfRange
from minikafka.storage.logs.recovery import CorruptLog
from minikafka.storage.steps import Pauses

__all__ = ["ReplicaMoves"]

log = structlog.get_logger("minikafka.moves")

CHUNK_BYTES = 1 << 20
"""The most bytes that are read at once, in a worker thread."""
WAIT_S = 0.05
MOVES_AT_ONCE = 1_000
"""Up to this number of waiting moves are looked at every `WAIT_S`, which takes 4 ms; more moves less often."""
RETRY_MS = 1000


@dataclass(slots=True, eq=False)
class Move:
    """The move of one replica.

    Attributes:
        source, future: The log of the replica, and the copy of the log in the other directory.
        truncations: The number of truncations of `source` when `future` was last compared with it; -1 before.
        asked_ms: When the controller was last asked to assign the directory, on a steady clock; None before.
        delayed_until_ms: The move pauses until this time of a steady clock, after an error.
    """

    partition: Partition
    source: Log
    future: Log
    truncations: int = -1
    asked_ms: int | None = None
    delayed_until_ms: int = 0


class ReplicaMoves:
    """Moves replicas of this node to other data directories, one at a time; `run` is the task that copies them.

    Args:
        node_id: This node.
        image: The metadata.
        logs: The logs of this node.
        partitions: The replicas of this node.
        throttle: `replica.alter.log.dirs.io.max.bytes.per.second`.
        placed: Has the controller assign a directory: topic id, partition, directory id.
    """

    def __init__(
        self,
        node_id: int,
        image: Image,
        logs: LogManager,
        partitions: Partitions,
        throttle: Throttle,
        placed: Callable[[bytes, int, bytes], None],
    ) -> None:
        self._node_id = node_id
        self._image = image
        self._logs = logs
        self._partitions = partitions
        self._throttle = throttle
        self._placed = placed
        self._moves: dict[TopicPartition, Move] = {}
        self._wakeup = trio.Event()

    # -- requests ------------------------------------------------------------------------------------------------

    def request(self, key: TopicPartition, path: str) -> ErrorCode:
        """Move a replica to a data directory; a replica that this node does not have yet will be created there.

        Args:
            path: The path of the data directory.

        Returns:
            NONE if the move has begun, goes on, or there is nothing to do; otherwise the error of the replica.
        """
        logs, partition = self._logs, self._partitions.get(*key)
        if len(future_name(key, "0" * 32)) > NAME_LENGTH_MAX:
            return ErrorCode.INVALID_TOPIC_EXCEPTION
        directory = next((one for one in logs.directories if path in (one.path, one.path.rstrip("/"))), None)
        if directory is None:
            return ErrorCode.LOG_DIR_NOT_FOUND
        if directory.failure is not None:
            return ErrorCode.KAFKA_STORAGE_ERROR
        if directory.cordoned:
            return ErrorCode.INVALID_REPLICA_ASSIGNMENT
        if partition is not None and partition.log.failure is not None:
            return ErrorCode.KAFKA_STORAGE_ERROR
        if partition is None:
            logs.placement.prefer(key, directory.path)
            topic = self._image.topics.get(key.topic)
            known = topic is not None and 0 <= key.partition < len(topic.partitions)
            return ErrorCode.REPLICA_NOT_AVAILABLE if known else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        if logs.futures.directory_of(key) is directory:
            return ErrorCode.NONE
        try:
            if key not in directory.logs:
                self._check_directories()
            self._cancel(partition)
            if key not in directory.logs:
                self._begin(partition, directory)
        except KafkaError as error:
            log.warning("replica not moved", partition=str(partition), error=str(error))
            return ErrorCode(error.code)
        return ErrorCode.NONE

    def _check_directories(self) -> None:
        """Check that no data directory is offline, before an earlier copy is discarded. Raises KafkaStorageError."""
        if len(self._logs.healthy) < len(self._logs.directories):
            raise KafkaStorageError("no replica is moved while a data directory is offline")

    def _begin(self, partition: Partition, directory: DataDirectory) -> None:
        logs, key = self._logs, partition.topic_partition
        logs.futures.create(directory, key, partition.topic_id)
        source = partition.log.directory
        log.info("replica move begun", partition=str(partition), source=source, directory=directory.path)
        self.resume(partition)

    def resume(self, partition: Partition) -> None:
        """Continue the move of a replica that was opened, if the replica has a copy in another directory.

        A corrupt copy is made anew, and so is a copy whose topic id was lost in a power failure. A copy in the
        directory of the replica itself is discarded. A copy that cannot be opened now stays: see `resume_waiting`.
        """
        logs, key = self._logs, partition.topic_partition
        directory = logs.futures.directory_of(key)
        if directory is None or key in logs.futures.waiting:
            return
        future = logs.futures.logs.get(key)
        if future is None or future.topic_id != partition.topic_id or key in directory.logs:
            self._begin_again(partition, directory)
            return
        self._moves[key] = Move(partition, partition.log, future)
        self._wakeup.set()

    def resume_waiting(self) -> None:
        """Try again the moves whose copies could not be opened, as on a full disk."""
        futures = self._logs.futures
        for key in futures.waiting:
            partition, directory = self._partitions.get(*key), futures.directory_of(key)
            if partition is None or directory is None or directory.room.is_full:
                continue
            with suppress(CorruptLog, KafkaStorageError):  # Logged.
                futures.reopen(key)
            self.resume(partition)

    def _begin_again(self, partition: Partition, directory: DataDirectory) -> None:
        key = partition.topic_partition
        try:
            is_wanted = self._logs.futures.is_of(key, partition.topic_id) and key not in directory.logs
            if is_wanted:
                self._check_directories()
            self._cancel(partition)
            if is_wanted:
                self._begin(partition, directory)
        except KafkaError as error:
            log.warning("replica not moved", partition=str(partition), error=str(error))

    def _cancel(self, partition: Partition) -> None:
        """Discard the copy of a replica, if there is one, and end its move. Raises KafkaError."""
        key = partition.topic_partition
        move = self._moves.pop(key, None)
        if self._logs.futures.directory_of(key) is not None:
            log.info("replica move cancelled", partition=str(partition))
            self._logs.futures.discard(key, partition.log.config.file_delete_delay_ms)
        if move is not None:
            self._assign_current(move)

    def directory_failed(self) -> None:
        """End the moves from or to a data directory that has failed."""
        for key, move in list(self._moves.items()):
            self._is_current(key, move)

    def target_of(self, key: TopicPartition) -> bytes | None:
        """Return the id of the directory to which a replica is being moved; None if the replica is not being moved.

        The metadata may name this directory already, although the replica is not in it yet.
        """
        directory = self._logs.futures.directory_of(key)
        return directory.id if directory is not None and key in self._moves else None

    # -- the task ------------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Move replicas until cancelled. Moves that are not finished then can be continued."""
        while True:
            self._wakeup = trio.Event()
            await self._advance_all()
            wait_s = WAIT_S * (1 + len(self._moves) // MOVES_AT_ONCE) if self._moves else float("inf")
            with trio.move_on_after(wait_s):
                await self._wakeup.wait()

    async def _advance_all(self) -> None:
        """Advance each move in turn until it has to wait; stop when the throttle's limit is exceeded."""
        pause = Pauses()
        for key, move in list(self._moves.items()):
            await pause()
            while self._moves.get(key) is move and move.delayed_until_ms <= steady_ms():
                if self._throttle.wait_ms(steady_ms()):
                    return
                try:
                    if not await self._advance(key, move):
                        break
                    await trio.lowlevel.checkpoint()
                except (KafkaError, OSError, CorruptRecords, OffsetOutOfRange) as error:
                    log.warning("replica move interrupted", partition=str(move.partition), error=str(error))
                    move.truncations, move.delayed_until_ms = -1, steady_ms() + RETRY_MS

    def _is_current(self, key: TopicPartition, move: Move) -> bool:
        """Whether a move is still valid; an invalid move is ended here."""
        if self._moves.get(key) is not move:
            return False
        logs = self._logs
        served = self._partitions.get(*key) is move.partition and move.partition.log is move.source
        copied = logs.futures.logs.get(key) is move.future
        if served and copied and move.source.failure is None:
            return True
        del self._moves[key]
        log.warning("replica move ended", partition=str(move.partition))
        if served:
            self._assign_current(move)
        return False

    def _assign_current(self, move: Move) -> None:
        """Have the controller assign the replica's current directory, or `LOST`, if it may have assigned the other."""
        partition, directory = move.partition, self._logs.directory_id(move.partition.topic_partition)
        if self._assigned(partition) != directory or move.asked_ms is not None:
            self._placed(partition.topic_id, partition.topic_partition.partition, directory or LOST)

    def _assigned(self, partition: Partition) -> bytes | None:
        topic = self._image.topics_by_id.get(partition.topic_id)
        return None if topic is None else topic.partitions[partition.topic_partition.partition].directory(self._node_id)

    async def _advance(self, key: TopicPartition, move: Move) -> bool:
        """Do one step of a move; returns False if the move has to wait.

        Raises KafkaError, OSError, CorruptRecords, OffsetOutOfRange.
        """
        if not self._is_current(key, move):
            return True
        self._compare(move)
        if move.future.end_offset < move.source.end_offset:
            await self._copy(key, move)
            return True
        directory = self._logs.futures.directory_of(key)
        assert directory is not None, "the move is current"
        if self._assigned(move.partition) == directory.id:
            return await self._swap(key, move)
        if move.asked_ms is None or steady_ms() - move.asked_ms > RETRY_MS:
            move.asked_ms = steady_ms()
            self._placed(move.partition.topic_id, key.partition, directory.id)
        return False

    def _compare(self, move: Move) -> None:
        """Truncate the copy after the log was truncated, to the records that both have. Raises KafkaError.

        The copy's log start offset follows the log's.
        """
        source, future = move.source, move.future
        if move.truncations != source.truncations:
            while future.epochs.latest is not None:
                epoch, end = source.epochs.end_offset_for(future.epochs.latest, source.end_offset)
                if not future.truncate_to(min(truncation_offset(future, epoch, end), source.end_offset)):
                    break
            future.truncate_to(source.end_offset)
            move.truncations = source.truncations
        if future.end_offset < source.start_offset:
            future.truncate_fully_and_start_at(source.start_offset)
        elif future.start_offset < source.start_offset:
            future.advance_start_offset(source.start_offset)

    async def _copy(self, key: TopicPartition, move: Move) -> None:
        source, future = move.source, move.future
        found = source.read(future.end_offset, max_bytes=CHUNK_BYTES)
        if found is None:
            return
        position, truncations = future.end_offset, source.truncations
        found.file.hold()
        try:
            data = memoryview(await source.disk.run(found.read))
        except OSError as error:
            if source.truncations == truncations:  # Otherwise the records may have been truncated.
                raise source.fail(error) from error
            return
        finally:
            found.file.release()
        while data and self._is_current(key, move):
            if source.truncations != truncations or future.end_offset != position:
                return
            size = first_batches(data).size_bytes
            self._append(move, data[:size])
            position, data = future.end_offset, data[size:]
            if not size:
                return
            await trio.lowlevel.checkpoint()

    def _append_now(self, move: Move, found: FileSlice | None) -> None:
        try:
            data = memoryview(b"" if found is None else found.read())
        except OSError as error:
            raise move.source.fail(error) from error
        self._append(move, data[: first_batches(data).size_bytes])

    def _append(self, move: Move, data: memoryview) -> None:
        source = move.source
        epoch = -1 if source.epochs.latest is None else source.epochs.latest
        append_fetched(move.future, data, leader_epoch=epoch, leader_start_offset=source.start_offset)
        self._throttle.record(source.topic_partition, len(data), steady_ms())

    async def _swap(self, key: TopicPartition, move: Move) -> bool:
        """Flush the copy, and let it take the place of the log, unless the copy has fallen behind meanwhile.

        Returns True: there is something to do at once, or the move has ended.
        """
        logs, source, future = self._logs, move.source, move.future
        await future.flush_async()
        if not self._is_current(key, move):
            return True
        await logs.futures.checkpoint(key)
        if not self._is_current(key, move):
            return True
        self._compare(move)
        if future.end_offset < source.end_offset:
            found = source.read(future.end_offset, max_bytes=CHUNK_BYTES)
            self._append_now(move, found)
        if future.end_offset < source.end_offset or future.recovery_point < source.recovery_point:
            return True
        if not self._is_current(key, move):
            return True
        swap = logs.futures.swap(key)
        move.partition.switch_log(future)
        del self._moves[key]
        log.info("replica moved", partition=str(move.partition), directory=future.directory)
        try:
            await source.disk.run(swap.settle)
        except OSError as error:
            raise future.fail(error) from error
        logs.futures.settled(key, swap)
        return True
