"""Programs that read offsets of partitions and of groups, and that delete records."""

from __future__ import annotations

from collections.abc import Collection

from chaos.history import DeleteRecords, FetchOffsets, LogStart, Outcome
from chaos.workload.process import ClientProcess, live_on
from minikafka.client import EARLIEST, LATEST, MAX_TIMESTAMP, Admin
from minikafka.protocol.errors import KafkaError, OffsetOutOfRangeError
from minikafka.protocol.names import TopicPartition

READER = "offset reader"
DELETER = "record deleter"
STEPS = 40


async def offset_reader(process: ClientProcess) -> None:
    """Lists offsets of partitions, and fetches committed offsets of groups."""

    async def life(_: ClientProcess) -> None:
        client = process.client_name()
        async with process.admin() as admin:
            for _step in range(STEPS):
                if process.chance(0.5):
                    await _list_offsets(process, admin, client)
                else:
                    await fetch_offsets(process, admin, client, process.random.choice(list(process.plan.groups)))
                await process.rest(2)

    await live_on(process, READER, life)


async def record_deleter(process: ClientProcess) -> None:
    """Deletes records of shrinking topics now and then."""

    async def life(_: ClientProcess) -> None:
        client = process.client_name()
        async with process.admin() as admin:
            for _step in range(STEPS // 4):
                await process.rest(5)
                await _delete_records(process, admin, client)

    await live_on(process, DELETER, life)


async def partitions_of(admin: Admin, name: str) -> list[TopicPartition]:
    """The partitions of a topic. Raises KafkaError."""
    return [TopicPartition(name, one.index) for one in (await admin.describe_topic(name)).partitions]


async def _list_offsets(process: ClientProcess, admin: Admin, client: str) -> None:
    """List offsets of a partition, and check those that one answer must have in order. Raises KafkaError."""
    random = process.random
    tp = random.choice(await partitions_of(admin, random.choice(list(process.plan.topics))))
    first = (await admin.list_offsets({tp: EARLIEST}))[tp].offset
    process.note(client, LogStart(tp, first))
    isolation = random.choice(("read_committed", "read_uncommitted"))
    time = random.choice((LATEST, MAX_TIMESTAMP, max(process.seams.now_ms() - random.randrange(30_000), 0)))
    found = (await admin.list_offsets({tp: time}, isolation_level=isolation))[tp]
    assert found.offset >= -1, f"{tp} has the offset {found} at {time}"
    process.count(READER, "list offsets")


async def fetch_offsets(
    process: ClientProcess, admin: Admin, client: str, group: str, *, final: Collection[TopicPartition] = ()
) -> None:
    """Read the committed offsets of a group for the history. Raises KafkaError.

    Args:
        final: At the end of a run: all partitions of the plan.
    """
    topics = process.plan.topics_of(group)
    partitions = [tp for tp in final if tp.topic in topics]
    if not final:
        partitions = [tp for name in topics for tp in await partitions_of(admin, name)]
    recorded = bool(final) or process.plan.committed_offsets_are_fresh
    asked = FetchOffsets(group, tuple((tp, None) for tp in partitions))
    invocation = process.invoke(client, asked) if recorded else None
    try:
        found = await admin.list_group_offsets(group, partitions)
    except KafkaError as error:
        process.complete(invocation, Outcome.FAIL, error=error)
        raise
    offsets = tuple((tp, found[tp].offset if tp in found else None) for tp in partitions)
    process.complete(invocation, Outcome.OK, FetchOffsets(group, offsets))
    process.count(READER, "fetch offsets")


async def _delete_records(process: ClientProcess, admin: Admin, client: str) -> None:
    """Delete some records of a partition. Raises KafkaError."""
    random = process.random
    tp = random.choice(await partitions_of(admin, random.choice(_shrinking(process))))
    first = (await admin.list_offsets({tp: EARLIEST}))[tp].offset
    end = (await admin.list_offsets({tp: LATEST}))[tp].offset
    before = random.randint(first, max(first, end))
    invocation = process.invoke(client, DeleteRecords(tp, before))
    try:
        found = (await admin.delete_records({tp: before}))[tp]
    except KafkaError as error:
        found = error
    if isinstance(found, KafkaError):
        outcome = Outcome.FAIL if isinstance(found, OffsetOutOfRangeError) else Outcome.UNKNOWN
        process.complete(invocation, outcome, error=found)
        process.count(DELETER, "delete records", found)
        return
    process.complete(invocation, Outcome.OK, DeleteRecords(tp, found))
    process.count(DELETER, "delete records")


def _shrinking(process: ClientProcess) -> list[str]:
    return [name for name, topic in process.plan.topics.items() if topic.shrinking]
