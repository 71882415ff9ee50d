"""A program that deletes a topic and creates it again under the same name, with records that must not be mixed up."""

from __future__ import annotations

from chaos.workload.process import ClientProcess, live_on
from chaos.workload.producers import RecordingProducer
from chaos.workload.recording_consumer import RecordingConsumer, poll_or_reset
from minikafka.client import Admin, Consumer, Producer
from minikafka.protocol.errors import TopicAlreadyExistsError, UnknownTopicOrPartitionError
from minikafka.protocol.names import TopicPartition

PROGRAM = "recreator"
PARTITIONS = 2
RECORDS = 12


class _Moved(Exception):
    """The topic has another id than expected: an earlier request has taken effect late."""


async def recreator(process: ClientProcess) -> None:
    """Creates its topic, writes and reads records of this incarnation, and deletes the topic."""
    await live_on(process, PROGRAM, _live)


async def _live(process: ClientProcess) -> None:
    name = f"again-{process.stable_name}"
    async with process.admin() as admin:
        await _delete(process, admin, name)
        topic_id = await _create(process, admin, name)
    named = {name: f"{name}@{topic_id.hex()}"}
    process.plan.incarnations[name] = named[name]
    try:
        await _write(process, named, topic_id)
        await _read(process, named, topic_id)
    except _Moved:
        process.count(PROGRAM, "moved")


async def _delete(process: ClientProcess, admin: Admin, name: str) -> None:
    """Delete the topic until a broker says that it is unknown. Raises other KafkaErrors."""
    process.plan.incarnations.pop(name, None)
    try:
        await admin.delete_topic(name)
        process.count(PROGRAM, "delete")
    except UnknownTopicOrPartitionError:
        pass


async def _create(process: ClientProcess, admin: Admin, name: str) -> bytes:
    """Create the topic; its id. Raises KafkaError."""
    configs = {"min.insync.replicas": str(process.plan.min_insync[0])}
    try:
        await admin.create_topic(
            name, partitions=PARTITIONS, replication_factor=process.plan.replicas, configs=configs
        )
        process.count(PROGRAM, "create")
    except TopicAlreadyExistsError:
        process.count(PROGRAM, "exists")  # created by an attempt without an answer, or not deleted
    return (await admin.cluster.retry(lambda: admin.describe_topic(name), "describing")).topic_id


class _Watch:
    """Collects every id that a topic has in a client's metadata from now on."""

    def __init__(self, client: Producer | Consumer, name: str, topic_id: bytes) -> None:
        self._topic_id = topic_id
        self._ids: dict[bytes, None] = {}
        cluster = client.cluster
        update = cluster.on_update

        def updated() -> None:
            self._ids[cluster.metadata.topic_id(name)] = None
            update()

        cluster.on_update = updated

    def unmoved(self) -> bool:
        """Whether the topic never had another id."""
        return list(self._ids) in ([], [self._topic_id])

    def check(self) -> None:
        """Raises _Moved."""
        if not self.unmoved():
            raise _Moved


async def _write(process: ClientProcess, named: dict[str, str], topic_id: bytes) -> None:
    """Write records, one at a time, as long as the producer knows no other incarnation. Raises _Moved, KafkaError.

    The producer names the topic by the id in its metadata, so that records can only get into the incarnation meant.
    """
    (name,) = named
    sending = RecordingProducer(process, PROGRAM, named, retries=0, enable_idempotence=False, linger_ms=0)
    async with sending.producer as producer:
        await producer.partitions_for(name)
        watch = _Watch(producer, name, topic_id)
        sending.trusted = watch.unmoved
        await producer.cluster.refresh()
        for _ in range(RECORDS):
            watch.check()
            await sending.send(name, key=f"key-{process.random.randrange(3)}")
            await producer.flush()
            await process.rest(0.3)
    sending.check()


async def _read(process: ClientProcess, named: dict[str, str], topic_id: bytes) -> None:
    """Read this incarnation for a while. Raises _Moved, KafkaError."""
    (name,) = named
    it = RecordingConsumer(process, PROGRAM, named, auto_offset_reset="earliest", enable_auto_commit=False)
    async with it.consumer:
        watch = _Watch(it.consumer, name, topic_id)
        it.trusted = watch.unmoved
        partitions = [TopicPartition(name, index) for index in range(PARTITIONS)]
        it.consumer.assign(partitions)
        it.moved(dict.fromkeys(partitions, None), "assign")
        await it.consumer.cluster.refresh()
        for _ in range(4):
            watch.check()
            await poll_or_reset(it)
            await process.rest()
