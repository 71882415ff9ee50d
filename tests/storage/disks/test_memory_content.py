"""Files of `MemoryDisk`: what is kept in runs and holes reads and crashes like single writes of all bytes."""

from __future__ import annotations

from random import Random

from minikafka.storage.disks.memory_content import Content
from minikafka.storage.disks.memory_disk import MemoryDisk

Write = tuple[int, bytes | None]
"""A write of bytes at a position, or a truncation or extension to a size."""


def apply(target: bytearray, write: Write) -> None:
    position, data = write
    if len(target) < position:
        target.extend(bytes(position - len(target)))
    if data is None:
        del target[position:]
    else:
        target[position : position + len(data)] = data


def some_write(random: Random, size: int) -> Write:
    kind = random.choice(["append", "append", "append", "overwrite", "truncate", "extend"])
    if kind == "append":
        return size, random.randbytes(random.randint(1, 900))
    if kind == "overwrite":
        return random.randint(0, size + 50), random.randbytes(random.randint(1, 300))
    return (random.randint(0, size) if kind == "truncate" else size + random.randint(0, 500)), None


def test_writes_truncations_syncs_and_crashes_are_those_of_plain_bytes() -> None:
    for seed in range(1000):
        random, content = Random(seed), Content()
        current, durable = bytearray(), bytearray()
        pending: list[Write] = []
        for _ in range(random.randint(1, 25)):
            if random.random() < 0.1:
                content.sync()
                for write in pending:
                    apply(durable, write)
                pending.clear()
            write = some_write(random, len(current))
            position, data = write
            if data is None:
                content.truncate(position)
            else:
                content.write(position, data)
            apply(current, write)
            pending.append(write)
            start = random.randint(0, len(current) + 5)
            assert content.current.read(start, 77) == current[start : start + 77]
        for write in pending:
            apply(durable, write)
        assert content.current.read(0, 1 << 20) == current == durable
        content.crash(Everything())
        assert content.current.read(0, 1 << 20) == content.durable.read(0, 1 << 20) == current, seed


class Everything(Random):
    """A crash that keeps all writes."""

    def randrange(self, *limits: int) -> int:  # type: ignore[override]
        return 1


def test_a_preallocated_file_takes_the_memory_of_its_entries() -> None:
    disk = MemoryDisk()
    file = disk.open("/index", create=True)
    file.truncate(1 << 40)
    file.pwrite(0, b"12345678")
    file.sync()
    assert file.pread(4, 8) == b"5678\0\0\0\0"
    assert file.pread((1 << 40) - 3, 8) == bytes(3)
    disk.sync_directory("/")
    disk.crash()
    assert disk.file_size("/index") == 1 << 40


def test_appends_that_are_never_synced_are_kept_as_one_run_and_torn_at_their_ends() -> None:
    sizes: set[int] = set()
    for seed in range(200):
        content = Content()
        for _ in range(50):
            content.write(content.current.size_bytes, b"x" * 10)
        assert len(content.pending) == 1
        content.crash(Random(seed))
        sizes.add(len(content.durable.data))
    assert {0, 500} < sizes
    assert any(size % 10 for size in sizes), "torn"
