"""`minikafka dump-log`: prints the contents of files of a data directory.

The command reads files of Apache Kafka as well, since the formats are the same, and never writes. Each kind of file has
a function below that yields lines. Damage is reported on the line where it is found, and reading continues after it
where possible.
"""

import json
import re
import struct
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import click

from minikafka.cli.arguments.numbers import Whole, whole
from minikafka.cli.commands.record_text import Describe, describer_of, shown
from minikafka.cli.terminal.output import echo
from minikafka.controller.metadata import synced_offset
from minikafka.protocol.counted import counted
from minikafka.protocol.names import TopicPartition
from minikafka.protocol.records.batch import Batch, batches
from minikafka.protocol.records.control import ControlType, control_type
from minikafka.protocol.records.record import CorruptRecords, Record
from minikafka.protocol.visible import visible, visible_json
from minikafka.storage.disks import checkpoint_files
from minikafka.storage.disks.checkpoint_files import BrokenCheckpoint
from minikafka.storage.disks.memory_disk import MemoryDisk
from minikafka.storage.logs.producer_state import CorruptSnapshot, ProducerStates

OFFSET_ENTRY, TIME_ENTRY, TRANSACTION_ENTRY = struct.Struct(">ii"), struct.Struct(">qi"), struct.Struct(">hqqqq")
TIMESTAMP_TYPES = ("CreateTime", "LogAppendTime")


def regular(context: click.Context, argument: click.Parameter, files: tuple[Path, ...]) -> tuple[Path, ...]:
    """Check that the given files are regular files, and return them. Raises click.BadParameter for a directory, and for
    a device or pipe, which may have no end."""
    for file in files:
        if file.is_dir():
            logs = next((one for one in ("*.log", "*/*.log") if any(file.glob(one))), "*.log")
            raise click.BadParameter(f"{str(file)!r} is a directory: give the files in it, such as {file}/{logs}")
        if not file.is_file():
            raise click.BadParameter(f"{str(file)!r} is not a regular file")
    return files


@click.command("dump-log")
@click.argument("files", nargs=-1, required=True, type=click.Path(exists=True, path_type=Path), callback=regular)
@click.option("--headers-only", is_flag=True, help="Print batch headers without records.")
@click.option("--json", "as_json", is_flag=True, help="Print only records, one JSON object per line (.log files only).")
@click.option("--max-bytes", metavar="N", type=Whole(1), help="Read at most N bytes of each file.")
def dump_log(files: tuple[Path, ...], headers_only: bool, as_json: bool, max_bytes: int | None) -> None:
    """Print the contents of segments (.log), indexes, snapshots (also of metadata) and checkpoints.

    The exit code is 1 if a file is damaged or is of another kind. The output says it where it is found.

    \b
    Examples:
      minikafka dump-log /tmp/kafka/flights-0/00000000000000000000.log
      minikafka dump-log --headers-only /tmp/kafka/flights-0/*.log /tmp/kafka/flights-0/*.index
    """
    damaged: dict[Path, None] = {}
    for file in files:
        with file.open("rb") as opened:
            data = opened.read(None if max_bytes is None else min(max_bytes, sys.maxsize))
        if not as_json:
            echo(f"Dumping {file}")
        for line in lines_of(file, data, records=not headers_only, as_json=as_json):
            damaged |= {file: None} if isinstance(line, Damage) else {}
            echo(visible(line), err=as_json and isinstance(line, Damage))
        if max_bytes is not None and len(data) == max_bytes:
            damaged.pop(file, None)  # it ends where reading ended
    if damaged:
        raise click.ClickException(f"damaged, or not what the name says: {', '.join(map(str, damaged))}")


class Damage(str):
    """A line of output that says what is damaged in a file."""

    __slots__ = ()


def lines_of(file: Path, data: bytes, *, records: bool, as_json: bool) -> Iterator[str]:
    """The lines to print for a file.

    Raises:
        click.ClickException: the file is not of a kind that the command reads.
    """
    if file.suffix in (".log", ".checkpoint"):
        describe = describer_of(topic_of(file))
        return json_lines(data) if as_json else batch_lines(data, records=records, describe=describe)
    reader = READERS.get(file.suffix)
    if reader is not None:
        return reader(base_offset_of(file), data)
    parse = TEXTS.get(file.name) or (properties if file.suffix == ".properties" else None)
    if parse is not None:
        return text_lines(parse, file.name, data)
    raise click.ClickException(
        f"{file.name} is not a log file: expected .log, .checkpoint, {', '.join(READERS)}, .properties, "
        + ", ".join(one for one in TEXTS if not one.endswith(".properties"))
    )


def topic_of(file: Path) -> str:
    """The topic in the name of a segment's directory; "" if the name has no topic."""
    return file.absolute().parent.name.rpartition("-")[0]


def base_offset_of(file: Path) -> int:
    """The offset in a segment file's name; 0 for other files."""
    return whole(file.stem, least=0) or 0


def batch_lines(data: bytes, *, records: bool, describe: Describe) -> Iterator[str]:
    """A line for each batch, followed by its records."""
    position = 0
    try:
        for batch in batches(data):
            yield batch_line(batch, position)
            position += batch.size_bytes
            if records:
                yield from record_lines(batch, describe)
    except CorruptRecords as error:
        yield Damage(f"at position {position}: {error}")
        return
    yield from _incomplete_batch(data, position)


def _incomplete_batch(data: bytes, position: int) -> Iterator[str]:
    if position < len(data):
        yield Damage(f"at position {position}: {counted(len(data) - position, 'byte')} of an incomplete batch")


def batch_line(batch: Batch, position: int) -> str:
    """The line of a batch header, as Kafka's DumpLogSegments prints it."""
    try:
        batch.check_crc()
        valid = "true"
    except CorruptRecords:
        valid = "false"
    codec = batch.attributes & 7
    return (
        f"baseOffset: {batch.base_offset} lastOffset: {batch.last_offset} count: {batch.record_count} "
        f"baseSequence: {batch.base_sequence} lastSequence: {batch.last_sequence} producerId: {batch.producer_id} "
        f"producerEpoch: {batch.producer_epoch} partitionLeaderEpoch: {batch.leader_epoch} "
        f"isTransactional: {str(batch.is_transactional).lower()} isControl: {str(batch.is_control).lower()} "
        f"position: {position} {TIMESTAMP_TYPES[batch.timestamp_type]}: {batch.max_timestamp} "
        f"size: {batch.size_bytes} magic: {batch.magic} "
        f"compresscodec: {batch.codec.name.lower() if codec <= 4 else codec} crc: {batch.crc} isvalid: {valid}"
    )


def record_lines(batch: Batch, describe: Describe) -> Iterator[str]:
    """A line for each record of a batch."""
    try:
        found = batch.records()
    except CorruptRecords as error:
        yield Damage(f"| cannot read the records of this batch: {error}")
        return
    for record in found:
        if batch.is_control:
            yield f"| offset: {record.offset} timestamp: {record.timestamp} {marker_text(record)}"
            continue
        headers = ", ".join(f"{key}={shown(value)}" for key, value in record.headers)
        yield (
            f"| offset: {record.offset} timestamp: {record.timestamp} {describe(record)}"
            + (f" headers: [{headers}]" if headers else "")
        )


def marker_text(record: Record) -> str:
    """A control record as text; a transaction marker with the epoch of the coordinator that wrote it."""
    kind = control_type(record.key)
    text = f"control: {kind.name}"
    if kind in (ControlType.COMMIT, ControlType.ABORT) and record.value is not None:
        text += f" coordinatorEpoch: {int.from_bytes(record.value[2:6], 'big', signed=True)}"
    return text


def json_lines(data: bytes) -> Iterator[str]:
    """Each record as a JSON object, without control records."""
    position = 0
    try:
        for batch in batches(data):
            position += batch.size_bytes
            if not batch.is_control:
                for record in batch.records():
                    yield visible_json(json.dumps(record_object(record), ensure_ascii=False))
    except CorruptRecords as error:
        yield Damage(f"at position {position}: {error}")
        return
    yield from _incomplete_batch(data, position)


def record_object(record: Record) -> dict[str, object]:
    """A record for JSON; bytes that are not UTF-8 in hex."""
    return {
        "offset": record.offset,
        "timestamp": record.timestamp,
        "key": None if record.key is None else shown(record.key),
        "value": None if record.value is None else shown(record.value),
        "headers": [[key, None if value is None else shown(value)] for key, value in record.headers],
    }


def offset_index_lines(base_offset: int, data: bytes) -> Iterator[str]:
    """The entries of an offset index, without the preallocated zeros after the last entry."""
    last = (-1, -1)
    for relative, position in OFFSET_ENTRY.iter_unpack(data[: len(data) // 8 * 8]):
        if relative == 0 and position == 0:
            return
        yield _ordered(last, (relative, position), f"offset: {base_offset + relative} position: {position}")
        last = relative, position
    yield from _incomplete(data, OFFSET_ENTRY)


def time_index_lines(base_offset: int, data: bytes) -> Iterator[str]:
    """Entries of a time index."""
    last = (-2, -1)
    for timestamp, relative in TIME_ENTRY.iter_unpack(data[: len(data) // 12 * 12]):
        if timestamp == 0 and relative == 0:
            return
        yield _ordered(last, (timestamp, relative), f"timestamp: {timestamp} offset: {base_offset + relative}")
        last = timestamp, relative
    yield from _incomplete(data, TIME_ENTRY)


def _ordered(last: tuple[int, int], entry: tuple[int, int], line: str) -> str:
    """The line of an index entry; `Damage` if one of its numbers is below that of the entry before."""
    return line if entry[0] >= last[0] and entry[1] >= last[1] else Damage(f"{line} (below the entry before)")


def _incomplete(data: bytes, entry: struct.Struct) -> Iterator[str]:
    if left := len(data) % entry.size:
        yield Damage(f"{counted(left, 'byte')} of an incomplete entry")


def transaction_index_lines(base_offset: int, data: bytes) -> Iterator[str]:
    """Entries of a transaction index: aborted transactions."""
    size = TRANSACTION_ENTRY.size
    for version, producer, first, last, stable in TRANSACTION_ENTRY.iter_unpack(data[: len(data) // size * size]):
        yield (
            f"version: {version} producerId: {producer} firstOffset: {first} lastOffset: {last} "
            f"lastStableOffset: {stable}"
        )
    yield from _incomplete(data, TRANSACTION_ENTRY)


def snapshot_lines(base_offset: int, data: bytes) -> Iterator[str]:
    """Producer states of a snapshot."""
    producers = ProducerStates(TopicPartition("", 0))
    try:
        producers.load_snapshot(data, base_offset, expired_ms=-(2**62))
    except CorruptSnapshot as error:
        yield Damage(f"cannot read the snapshot: {error}")
        return
    for producer in producers:
        yield (
            f"producerId: {producer.producer_id} producerEpoch: {producer.epoch} "
            f"coordinatorEpoch: {producer.coordinator_epoch} currentTxnFirstOffset: "
            f"{producer.transaction_first_offset} lastSequence: {producer.last_sequence} "
            f"lastOffset: {producer.last_offset} timestamp: {producer.last_timestamp}"
        )


Parse = Callable[[MemoryDisk, str], object]


def text_lines(parse: Parse, name: str, data: bytes) -> Iterator[str]:
    """The lines of a text file, followed by a `Damage` if it cannot be parsed. An empty checkpoint is not damaged,
    since Kafka creates checkpoints empty."""
    if not data and name.endswith("checkpoint"):
        return
    yield from data.decode(errors="replace").splitlines()
    disk = MemoryDisk()
    disk.write_atomically(name, data)
    try:
        parse(disk, name)
    except BrokenCheckpoint as error:
        yield Damage(f"cannot read the file: {error}")


def properties(disk: MemoryDisk, name: str) -> None:
    """Raise BrokenCheckpoint if a file has no properties, or a property name with characters that names cannot have."""
    found = checkpoint_files.read_properties(disk, name)
    wrong = [one for one in found or {"": ""} if not re.fullmatch(r"[\w.:-]+", one, re.ASCII)]
    if wrong:
        raise BrokenCheckpoint(f"{name} has no properties, or one without a good name: {wrong[0]!r}")


def json_object(disk: MemoryDisk, name: str) -> None:
    """Raise BrokenCheckpoint if a file is not a JSON object."""
    try:
        found = json.loads(disk.read_bytes(name))
    except (ValueError, RecursionError) as error:
        raise BrokenCheckpoint(f"{name} is not JSON: {error}") from None
    if not isinstance(found, dict):
        raise BrokenCheckpoint(f"{name} is not a JSON object")


def synced(disk: MemoryDisk, name: str) -> None:
    """Raise BrokenCheckpoint if a file has no offset with its checksum."""
    if synced_offset.decode_synced_offset(disk.read_bytes(name)) is None:
        raise BrokenCheckpoint(f"{name} has no offset with a checksum")


TEXTS: dict[str, Parse] = {
    checkpoint_files.RECOVERY_POINTS: checkpoint_files.read_offsets,
    checkpoint_files.HIGH_WATERMARKS: checkpoint_files.read_offsets,
    checkpoint_files.LOG_START_OFFSETS: checkpoint_files.read_offsets,
    checkpoint_files.CLEANER_OFFSETS: checkpoint_files.read_offsets,
    checkpoint_files.EPOCHS: checkpoint_files.read_epochs,
    checkpoint_files.PARTITION_METADATA: checkpoint_files.read_topic_id,
    checkpoint_files.CLEAN_SHUTDOWN: json_object,
    "quorum-state": json_object,
    synced_offset.FILE_NAME: synced,
}
"""The function with which a node reads a text file, by the name of the file."""
READERS: dict[str, Callable[[int, bytes], Iterator[str]]] = {
    ".index": offset_index_lines,
    ".timeindex": time_index_lines,
    ".txnindex": transaction_index_lines,
    ".snapshot": snapshot_lines,
}
