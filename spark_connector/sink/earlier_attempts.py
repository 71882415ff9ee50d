"""Finds rows that earlier attempts of a write have committed, and that other tasks would write again. Blocking.

A task reads its own marker, and its transactional id fences older attempts with the same task number. However, an
earlier attempt may have had other tasks: more tasks, or tasks with rows where this attempt has none. Spark does not
tell a task how many tasks there are. Other tasks are therefore found by their transactional ids, which the coordinators
list (KIP-664). The driver checks them when all tasks of this attempt have finished (`check_other_tasks`), because it
knows these tasks then.

Before that, the driver claims the query for its attempt (`claim`): a task of an earlier attempt may not have sent its
first request yet, so that it cannot be listed and fenced. A task reads the claim after its first request, and writes
only if the claim has not changed since (`check_claim`). So either the driver finds the task, or the task finds the
claim.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Any

from minikafka.protocol.counted import counted
from minikafka.protocol.error_codes import ErrorCode
from minikafka.protocol.errors import UnsupportedVersionError
from minikafka.protocol.messages.find_coordinator import FindCoordinatorRequest
from minikafka.protocol.messages.list_transactions import ListTransactionsRequest
from minikafka.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup
from minikafka.protocol.names import TopicPartition
from minikafka.spark_connector.brokers.offset_reader import GROUP, OffsetReader
from minikafka.spark_connector.brokers.refusals import refusal
from minikafka.spark_connector.sink.replay_check import Content, Marker, NotRepeated
from minikafka.spark_connector.sink.task_transaction import ENDING, OFFSET_FETCH_VERSION_MAX, Transaction, newest_marker

DRIVER = "driver"
"""The last part of the driver's transactional id; in the transactional ids of tasks it is the task number."""
_CLAIM = "run"
"""The last part of the name of the consumer group that stores the claim of a query."""
_PATTERN_VERSION = 2
_RUNS_MAX = 1000
_FIRST_VERSIONS: dict[tuple[str, str], int] = {}
_KNOWN: dict[Write, Earlier] = {}
_SAME_TASKS = (
    "Start the query with the number of tasks that it had (spark.sql.shuffle.partitions, spark.default.parallelism,"
    " minPartitions, repartition, adaptive execution) until this micro-batch is complete, or accept that by the option"
    " replayCheck 'none'. With delivery 'atomic' the number of tasks does not matter; set it when this micro-batch is"
    " complete"
)


@dataclass(frozen=True)
class Write:
    """The write to which a task belongs.

    Attributes:
        name: the part of transactional ids that all tasks of the query have in common.
        version: the number of the micro-batch.
        attempt: identifies the run of the query, or one attempt of a batch write.
        in_order: whether the attempt writes several versions, each after the one before is complete: a stream.
    """

    name: str
    version: int
    attempt: str = ""
    in_order: bool = False

    def transactional_id(self, task: int | str) -> str:
        """The transactional id of a task or an attempt of one, by its number, or of the driver (`DRIVER`)."""
        return f"{self.name}-{task}"


def may_repeat(write: Write) -> bool:
    """Whether an earlier attempt may have written the version: not if this process saw an older one in this attempt."""
    if not write.in_order:
        return True
    if len(_FIRST_VERSIONS) >= _RUNS_MAX:
        _FIRST_VERSIONS.clear()
    return write.version <= _FIRST_VERSIONS.setdefault((write.name, write.attempt), write.version)


@dataclass(frozen=True)
class Earlier:
    """The results of earlier attempts of a write.

    Attributes:
        begun: whether another attempt has claimed this version, or a task of another attempt has committed it.
        complete: whether the driver has committed all rows of this version.
        newest: the newest version of which rows are committed; -1 if there is none.
        claim: the marker of the attempt that has claimed the query, or None.
    """

    begun: bool = False
    complete: bool = False
    newest: int = -1
    claim: Marker | None = None


def earlier_attempts(brokers: OffsetReader, write: Write) -> Earlier:
    """Reads the markers of all tasks of all attempts, once in a process for each write.

    Waits for the end of transactions that are being committed, because their markers cannot be read before.

    Raises KafkaError, NotRepeated for a broker before Kafka 3.0.
    """
    if write not in _KNOWN:
        groups = [*transactional_ids(brokers, write.name, ended=True), write.transactional_id(_CLAIM)]
        found = read_markers(brokers, groups, stable=False)
        driver, claim = (found.get(write.transactional_id(one)) for one in (DRIVER, _CLAIM))
        others = [one for one in found.values() if one is not driver and one.attempt != write.attempt]
        found.pop(write.transactional_id(_CLAIM), None)
        _KNOWN.clear()
        _KNOWN[write] = Earlier(
            begun=any(one.version == write.version for one in others),
            complete=driver is not None and driver.version == write.version,
            newest=max([one.version for one in found.values()], default=-1),
            claim=claim,
        )
    return _KNOWN[write]


def claim(brokers: OffsetReader, write: Write, topics: Collection[str]) -> None:
    """Claims a query for the attempt of a write: only its tasks may write from now on.

    The claim must precede the listing of other tasks. It is stored as the committed offset of one partition: of the
    topic that has the previous claim, or else of one of `topics`. Without any topic, no claim is made.

    Raises NotRepeated for a stream, if a later attempt has claimed the query; KafkaError.
    """
    known = Transaction(brokers, write.transactional_id(_CLAIM)).marker()
    if known is not None:
        overtaken(write, known.version)
        topics = known.topics
    mine = Marker(write.version, Content(), write.attempt)
    if topics:
        place = TopicPartition(min(topics), 0)
        brokers.commit(write.transactional_id(_CLAIM), {place: mine.version + 1}, mine.metadata())


def check_claim(brokers: OffsetReader, write: Write, before: Earlier | None) -> None:
    """Checks that no later attempt has claimed the query, after the first request of a transaction and before writing.

    Args:
        before: the earlier attempts as read before that request; None if this attempt has claimed the query itself.

    Raises NotRepeated if a later attempt has claimed the query, KafkaError.
    """
    now = Transaction(brokers, write.transactional_id(_CLAIM)).marker()
    if now is None or now.attempt == write.attempt or (before is not None and now == before.claim):
        return
    raise NotRepeated(
        f"another run of {write.name} has begun with micro-batch {now.version} meanwhile: this run, which is to write"
        f" micro-batch {write.version}, is over, or two queries use one checkpoint. Nothing is written. Stop all of"
        " them but one"
    )


def overtaken(write: Write, newest: int) -> bool:
    """Whether a version newer than the write's is committed, so that the write must be skipped.

    Raises NotRepeated for a stream: micro-batches after its checkpoint have been written before.
    """
    if newest > write.version and write.in_order:
        raise NotRepeated(
            f"{write.name} has committed micro-batch {newest}, and is to write micro-batch {write.version} now: its"
            " checkpoint is older than what it has written. It was restored from a copy, or two queries use copies of"
            " one checkpoint. Use the newest checkpoint; or set the option transactionalIdPrefix to another name, and"
            " everything from this checkpoint on is written (again)"
        )
    return newest > write.version


def check_other_tasks(
    brokers: OffsetReader, write: Write, tasks: Collection[int], timeout_ms: int, remedy: str = _SAME_TASKS
) -> None:
    """Fences all tasks of the query except those with rows in this attempt, and reads what they have committed.

    The attempt must have claimed the query before, because of tasks that cannot be fenced yet.

    Args:
        tasks: the numbers of the tasks with rows in this attempt.
        timeout_ms: the transaction time-out of the producers that fence the other tasks.
        remedy: advice to the user, for the error message.

    Raises NotRepeated if a fenced task has committed rows of the version, KafkaError.
    """
    own = {write.transactional_id(task) for task in [DRIVER, *map(str, tasks)]}
    others = [one for one in transactional_ids(brokers, write.name) if one not in own]
    fence(brokers, others, timeout_ms)
    found = read_markers(brokers, others, stable=True)
    rows = {
        int(one.removeprefix(f"{write.name}-")): marker.content.rows
        for one, marker in found.items()
        if marker.version == write.version and marker.content.rows
    }
    if rows:
        raise NotRepeated(
            f"micro-batch {write.version} of {write.name} is repeated with other tasks: an earlier attempt has"
            f" committed {counted(sum(rows.values()), 'row')} in {_tasks(rows)}, and this attempt has its rows in"
            f" {_tasks(tasks)}: they would be written twice. {remedy}"
        )


def fence(brokers: OffsetReader, ids: Iterable[str], timeout_ms: int) -> None:
    """Starts producers of transactional ids: fences all older ones, and aborts their transactions. Raises KafkaError.

    Args:
        timeout_ms: the transaction time-out of these producers, which write nothing.
    """
    for one in ids:
        Transaction(brokers, one).begin(timeout_ms)


def _tasks(numbers: Iterable[int]) -> str:
    found = sorted(numbers)
    if not found:
        return "no task of its own"
    shown = ", ".join(map(str, found[:10])) + (f" and {len(found) - 10} more" if len(found) > 10 else "")
    return f"task {shown}" if len(found) == 1 else f"tasks {shown}"


def transactional_ids(brokers: OffsetReader, name: str, *, ended: bool = False) -> list[str]:
    """The transactional ids of a query's tasks and driver, sorted.

    All brokers are asked; an id whose coordinator moves between brokers at this moment may be missed.

    Args:
        ended: whether to wait for the end of transactions that are being committed or aborted.

    Raises KafkaError, NotRepeated for a broker before Kafka 3.0.
    """
    pattern = re.compile(f"{re.escape(name)}-(?:[0-9]+|{DRIVER})")

    def attempt() -> set[str]:
        brokers.refresh([])
        found: set[str] = set()
        for node_id in brokers.metadata.brokers:
            request = ListTransactionsRequest()
            if brokers.connection_to(node_id).version_for(ListTransactionsRequest) >= _PATTERN_VERSION:
                request.transactional_id_pattern = pattern.pattern
            response = brokers.request(request, node_id)
            _check(response.error_code, "ListTransactions")
            for one in response.transaction_states:
                if pattern.fullmatch(one.transactional_id):
                    if ended and one.transaction_state.startswith(ENDING):
                        _check(ErrorCode.CONCURRENT_TRANSACTIONS, f"ListTransactions: {one.transactional_id}")
                    found.add(one.transactional_id)
        return found

    try:
        listed = brokers.retry(attempt, "listing transactions")
    except UnsupportedVersionError as error:
        raise NotRepeated(
            f"the broker cannot list transactions (Kafka 3.0), so that rows which {name} wrote before with another"
            f" number of tasks would not be found; accept that by the option replayCheck 'none': {error}"
        ) from error
    return sorted(listed)


def read_markers(brokers: OffsetReader, ids: Iterable[str], *, stable: bool) -> dict[str, Marker]:
    """Reads the markers of transactional ids; ids without a marker are omitted. Raises KafkaError.

    Args:
        stable: whether to wait for open transactions that contain markers.
    """
    wanted = list(ids)

    def attempt() -> dict[str, Marker]:
        found: dict[str, Marker] = {}
        for node_id, some in _coordinators(brokers, wanted).items():
            groups = [OffsetFetchRequestGroup(group_id=one, topics=None) for one in some]
            request = OffsetFetchRequest(require_stable=stable, groups=groups)
            for group in brokers.request(request, node_id, highest=OFFSET_FETCH_VERSION_MAX).groups:
                _check(group.error_code, f"OffsetFetch of {group.group_id}")
                for one in (one for topic in group.topics for one in topic.partitions):
                    _check(one.error_code, f"OffsetFetch of {group.group_id}")
                marker = newest_marker(group.topics)
                if marker is not None:
                    found[group.group_id] = marker
        return found

    return brokers.retry(attempt, "reading the markers of all tasks") if wanted else {}


def _coordinators(brokers: OffsetReader, groups: list[str]) -> dict[int, list[str]]:
    found: dict[int, list[str]] = {}
    response: Any = brokers.request(FindCoordinatorRequest(key_type=GROUP, coordinator_keys=groups))
    for one in response.coordinators:
        _check(one.error_code, f"FindCoordinator of {one.key}")
        found.setdefault(one.node_id, []).append(one.key)
    if not brokers.metadata.brokers.keys() >= found.keys():
        brokers.refresh([])
    return found


def _check(error_code: int, action: str) -> None:
    if error_code:
        raise refusal(error_code, action)
