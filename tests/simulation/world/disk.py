"""The disk of a simulated machine: it outlives the processes that use it, and has faults.

A machine has one disk for all its data directories; a fault concerns a directory and what lies in it, as if each were a
device of its own. A process gets its own view of the disk by `attach`, which ends with the process: what runs on after
`process_killed` or `power_failure` can do no harm. The two differ: the page cache survives the end of a process.

The methods of `SimulatedDisk` that it has as a `Disk` are free of faults: they are for the scenario and its checks.
"""

from __future__ import annotations

import errno
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from random import Random
from zlib import crc32

from minikafka.storage.disks.memory_content import Content, Directory, FileBytes
from minikafka.storage.disks.memory_disk import MemoryDisk
from simulation.world import rot
from simulation.world.descriptors import Descriptors
from simulation.world.disk_faults import CHANGES, EVERYTHING, READ_ONLY, READS, Delay, DiskFaults, Fault
from simulation.world.process_disk import ProcessDisk

FAILING = {"all": EVERYTHING, "writes": CHANGES, "syncs": frozenset({"sync"}), "reads": READS}
_NAMES = {"all": "failing directory", "writes": "failing writes", "syncs": "failing syncs", "reads": "failing reads"}

Tree = dict[str, "FileBytes | Tree"]


@dataclass(frozen=True, slots=True)
class DiskCopy:
    """An older durable state of a directory."""

    path: str
    tree: Tree


class SimulatedDisk(MemoryDisk):
    """The disk of a machine.

    Args:
        random: decides what survives a power failure, which operations fail, and delays.
        now_ms: the machine's wall clock.
        directories: exist from the beginning, durably: the data directories, or what they are created in.

    Attributes:
        effects: how often each fault had an effect on a process.
        evict_lost: the probability, for each file, that pages lost by a failed write leave the page cache before the
            next process starts. Where they stay, it reads, and may trust, what is gone after the next power failure
            (Rebello et al., USENIX ATC 2020).
    """

    def __init__(
        self, random: Random, *, now_ms: Callable[[], int] = lambda: 0, directories: Iterable[str] = ()
    ) -> None:
        super().__init__(random, now_ms=now_ms)
        self._in_force = DiskFaults(random)
        self.effects: Counter[str] = self._in_force.effects
        self.evict_lost = 1.0
        self._processes: list[ProcessDisk] = []
        self._locks: dict[Content, ProcessDisk] = {}
        self._unmounted: dict[str, Directory] = {}
        self._mount_points: dict[str, Directory] = {}
        for path in directories:
            self.make_directory(path)
        for _, entry in self._entries("/"):
            if isinstance(entry, Directory):
                entry.sync()

    # -- processes -----------------------------------------------------------------------------------------------

    def attach(
        self, *, descriptors_max: int | None = None, descriptors_used_elsewhere: Callable[[], int] = lambda: 0
    ) -> ProcessDisk:
        """Returns the disk as a new process sees it, until its `kill`.

        Args:
            descriptors_max: the limit of open descriptors (RLIMIT_NOFILE); None for no limit.
            descriptors_used_elsewhere: returns how many the process uses for connections.
        """
        for _, content in _files("", self._root):
            if content.lost and not content.pending and self._random.random() < self.evict_lost:
                content.lose(evict=True)
        descriptors = None
        if descriptors_max is not None:
            descriptors = Descriptors(descriptors_max, descriptors_used_elsewhere, self.effects)
        process = ProcessDisk(
            root=self._root, known=self._known, locks=self._locks, faults=self._in_force, descriptors=descriptors,
            now_ms=self.now_ms,
        )  # fmt: skip
        self._processes = [*[one for one in self._processes if one.alive], process]
        return process

    def process_killed(self) -> None:
        """Ends the processes, as `kill -9` does: what they wrote stays in the page cache, their locks are released."""
        for process in self._processes:
            process.kill()
        self._processes.clear()

    def power_failure(self) -> None:
        """Ends the processes and drops or tears what was not synced."""
        self.process_killed()
        self.generation += 1
        self._known.clear()
        for directory in (self._root, *self._hidden()):
            before = [(content, content.current) for _, content in _files("", directory)]
            directory.crash(self._random)
            left = {content for _, content in _files("", directory)}
            if any(content not in left or content.current != image for content, image in before):
                self.effects["power failure with loss"] += 1

    crash = power_failure

    def call(self, kind: str, path: str) -> None:
        """Counts a call of the scenario."""
        self.calls[kind] += 1

    def on_operation(self, hook: Callable[[str, str], None] | None) -> None:
        """Calls `hook` with kind and path before each operation of a process, e.g. to stall the machine; None ends
        it."""
        self._in_force.watch(hook)

    # -- slow and full -------------------------------------------------------------------------------------------

    def latency(self, delay: Delay | None) -> None:
        """Sets how long every `run` takes, in seconds; this is not counted as a fault."""
        self._in_force.latency = delay

    def slow(self, path: str, delay: Delay) -> None:
        """Makes `run` of functions on files in this directory take longer, by `delay` seconds."""
        self._in_force.delays[path] = delay

    def fast(self, path: str) -> None:
        """Ends `slow`."""
        self._in_force.delays.pop(path, None)

    def full(self, path: str, bytes_left: int = 0) -> None:
        """Leaves this many bytes to a directory. Deleted files give theirs back."""
        self._in_force.limits[path] = bytes_left

    def free(self, path: str) -> None:
        """Ends `full`."""
        self._in_force.limits.pop(path, None)

    # -- failing -------------------------------------------------------------------------------------------------

    def fail_directory(
        self, path: str, what: str = "all", *, probability: float = 1.0, times: int = -1, evict: float = 0.5
    ) -> None:
        """Makes operations in a directory raise EIO until `repair_directory`.

        If all writes fail, what is not synced is lost at once, as background writes fail too: the pages count as
        clean, and the next sync of the file reports it, once. A sync that fails loses the pages of its file.

        Args:
            what: `all`, `writes` (with syncs and changes of names), `syncs` or `reads`.
            probability: of a failure, for each operation.
            times: how many operations fail; -1 for no limit.
            evict: the probability, for each file, that lost pages also leave the page cache, so that the old content
                is read.
        """
        self._in_force.begin(Fault(_NAMES[what], path, FAILING[what], errno.EIO, probability, times))
        if what in {"all", "writes"} and probability >= 1 and times < 0:
            self._lose(path, evict)

    def _lose(self, path: str, evict: float) -> None:
        for _, entry in self._entries(path):
            if not entry.pending:
                continue
            self.effects["lost pages"] += 1
            entry.failed = True
            if isinstance(entry, Content):
                entry.lose(evict=self._random.random() < evict)
            else:
                entry.lose()

    def repair_directory(self, path: str) -> None:
        """Ends `fail_directory`. What was lost stays lost."""
        self._in_force.end(lambda fault: fault.path == path and fault.name in _NAMES.values())

    def mount_again(self, path: str) -> None:
        """Forgets lost pages and errors that no sync has reported yet. No process may use the disk."""
        if any(process.alive for process in self._processes):
            raise RuntimeError("a file system is mounted again while its machine is down")
        self._known.clear()
        for _, entry in self._entries(path):
            if isinstance(entry, Directory):
                entry.forget_lost()
                continue
            if entry.failed:
                entry.lose(evict=True)
            entry.failed = False

    def read_only(self, path: str) -> None:
        """Makes every change in a directory raise EROFS until `writable`; files are not even opened for writing."""
        self._in_force.begin(Fault("read only", path, READ_ONLY, errno.EROFS))

    def writable(self, path: str) -> None:
        """Ends `read_only`."""
        self._in_force.end(lambda fault: fault.path == path and fault.name == "read only")

    # -- missing, wiped, old, rotten -----------------------------------------------------------------------------

    def unmount(self, path: str, *, missing: bool = False) -> None:
        """Hides the content of a directory until `mount`: it is an empty mount point, or does not exist (`missing`).

        Files that are open stay usable, as with `umount -l`; what is not synced is written back.
        """
        if path in self._unmounted:
            return
        hidden = self._directory(path)
        for _, entry in [("", hidden), *_entries("", hidden)]:
            if not entry.failed:
                entry.sync()
        self._unmounted[path] = hidden
        self._place(path, None if missing else self._mount_points.pop(path, None) or Directory())
        self._in_force.begin(Fault("missing directory", path, EVERYTHING))

    def mount(self, path: str) -> None:
        """Brings the content of an unmounted directory back; what was written there meanwhile is hidden."""
        hidden = self._unmounted.pop(path, None)
        if hidden is None:
            return
        below = self._find(path)
        if isinstance(below, Directory):
            self._mount_points[path] = below
        self._place(path, hidden)
        self._in_force.end(lambda fault: fault.path == path and fault.name == "missing directory")

    @property
    def unmounted(self) -> list[str]:
        """The directories that are hidden now."""
        return list(self._unmounted)

    def wipe(self, path: str) -> None:
        """Empties a directory for good. Files that are open stay usable, but nobody else can find them."""
        self._place(path, Directory())
        self._in_force.begin(Fault("wiped directory", path, EVERYTHING, times=1))

    def copy(self, path: str) -> DiskCopy:
        """Returns a copy of what is durable in a directory now."""
        return DiskCopy(path, _copy_of(self._directory(path)))

    def restore(self, copy: DiskCopy) -> None:
        """Puts a directory back to an older state. No process may use the disk."""
        if any(process.alive for process in self._processes):
            raise RuntimeError("a disk is restored while its machine is down")
        self._place(copy.path, _directory_of(copy.tree))
        self._in_force.begin(Fault("restored directory", copy.path, EVERYTHING, times=1))

    def rot(
        self,
        path: str,
        random: Random,
        *,
        kinds: Sequence[str] = tuple(rot.KINDS),
        concerns: Callable[[str], bool] = lambda path: True,
    ) -> rot.Rot | None:
        """Damages durable bytes of a file; counted at the next read of the file.

        Args:
            random: chooses the kind of file, the file, the position and the damage.
            kinds: of `rot.KINDS`.
            concerns: returns whether a file may be damaged.

        Returns:
            What was damaged; None if there is no such file with content.
        """
        files = {at: entry for at, entry in _files(path, self._directory(path)) if not entry.failed and concerns(at)}
        for entry in files.values():
            if entry.pending:
                entry.sync()  # The kernel writes back at any time.
        found = rot.places(files, kinds)
        if not found:
            return None
        place = rot.choose(found, random)
        self._in_force.begin(Fault(f"rot: {place.kind}", place.path, frozenset({"read"}), times=1))
        return rot.damage(files[place.path], place, random)

    def heal(self) -> None:
        """Ends all faults that can end: nothing is full, slow, failing, read only or unmounted any more."""
        self._in_force.limits.clear()
        self._in_force.delays.clear()
        self._in_force.end(lambda fault: fault.code != 0)
        for path in list(self._unmounted):
            self.mount(path)

    def fingerprint(self) -> int:
        """Returns a checksum of all that is durable: names and contents."""
        found = 0
        for directory in (self._root, *self._hidden()):
            found = _checksum(directory, found)
        return found

    def _hidden(self) -> list[Directory]:
        return [*self._unmounted.values(), *self._mount_points.values()]

    def _entries(self, path: str) -> Iterator[tuple[str, Content | Directory]]:
        """Yields a directory and all that lies in it."""
        found = self._find(path)
        if isinstance(found, Directory):
            yield path, found
            yield from _entries(path, found)

    def _place(self, path: str, directory: Directory | None) -> None:
        """Puts a directory durably in the place of another, or removes it."""
        parent, name = self._parent(path)
        self._known.clear()
        parent.pending = [one for one in parent.pending if name not in one[:2]]
        for names in (parent.entries, parent.durable):
            names.pop(name, None)
            if directory is not None:
                names[name] = directory


def _entries(path: str, directory: Directory) -> Iterator[tuple[str, Content | Directory]]:
    for name, entry in sorted(directory.entries.items()):
        at = f"{path.rstrip('/')}/{name}"
        yield at, entry
        if isinstance(entry, Directory):
            yield from _entries(at, entry)


def _files(path: str, directory: Directory) -> Iterator[tuple[str, Content]]:
    for at, entry in _entries(path, directory):
        if isinstance(entry, Content):
            yield at, entry


def _copy_of(directory: Directory) -> Tree:
    return {
        name: _copy_of(entry) if isinstance(entry, Directory) else entry.durable.copy()
        for name, entry in sorted(directory.durable.items())
    }


def _directory_of(tree: Tree) -> Directory:
    made = Directory()
    for name, entry in tree.items():
        made.entries[name] = (
            Content(entry.data, entry.size_bytes) if isinstance(entry, FileBytes) else _directory_of(entry)
        )
    made.durable = dict(made.entries)
    return made


def _checksum(directory: Directory, found: int) -> int:
    for name, entry in sorted(directory.durable.items()):
        found = crc32(name.encode(), found)
        if isinstance(entry, Directory):
            found = crc32(b")", _checksum(entry, crc32(b"(", found)))
        else:
            found = crc32(entry.durable.data, crc32(b"%d" % entry.durable.size_bytes, found))
    return found
