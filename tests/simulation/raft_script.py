"""Golden scripts of one node: inputs with their times, and the effects that must follow.

    A voter votes once in an epoch.                      <- a description; ends at the first empty line

    node 1 of 1 2 3, epoch 4, log 3 3 4                  <- node, voters, its disk: also `voted 2`, `leader 2`,
                                                            `snapshot OFFSET/EPOCH`; log: the epoch of each record
    0.1 from 2: vote epoch=5 last=4/3                    <- time in seconds and an input
        persist epoch=5 voted=2 leader=-                 <- effects, in order
        answer 2: granted epoch=5 leader=-
        = unattached, epoch 5                            <- the state of the node, if it has changed

Inputs: `tick`; `from N:` a request; `answer N:` to the latest request sent to N (`answer N before:` to the one before
that); `failed N`; `unreachable N`; `append COUNT`; `synced`: the oldest requested Sync is done; `resign`;
`restart`: only synced and persisted state is kept. Lines that begin with # are comments.

In a dynamic quorum the letter of its directory follows the number of each node: `node 1a of 1a 2a 3a`, `from 2b:`.
More inputs: `add 4a`, `remove 3a`, `update 2a`, `upgrade 1a 2a 3a` (from a static quorum: `node 1a of 1 2 3`); an
answer with `voters=OFFSET:EPOCH:1a+2a` has a record of voters, and a `part` with `voters=1a+2a` is a whole snapshot.

Random values are always the middle of their range: the first election after 0.2 s, later ones after 0.6 s; the fetch
timeout is 0.9 s.

    PYTHONPATH=tests python -m simulation.raft_script FILE …     # writes the actual effects; review the diff
"""

from __future__ import annotations

import re
import sys
from collections import deque
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

from support.raft_settings import raft_settings

from minikafka.controller.raft.effects import (
    Committed,
    Deposed,
    Effect,
    Elected,
    Follow,
    Installed,
    Persist,
    SendRequest,
    SendResponse,
    Sync,
)
from minikafka.controller.raft.election_state import ElectionState
from minikafka.controller.raft.log_interface import EpochEnd, SnapshotId
from minikafka.controller.raft.membership_records import control_batch, control_value
from minikafka.controller.raft.messages import (
    BeginEpoch,
    BeginEpochResponse,
    Fetch,
    FetchResponse,
    FetchSnapshot,
    FetchSnapshotResponse,
    Message,
    Request,
    Response,
    Vote,
    VoteResponse,
)
from minikafka.controller.raft.raft import Inconsistent, Raft
from minikafka.controller.raft.voter_history import Membership
from minikafka.controller.raft.voter_set import NO_DIRECTORY, ReplicaKey, Voter, VoterEndpoint, VoterSet
from minikafka.protocol.errors import KafkaError
from simulation.raft_log import HEAD, VOTERS_FOLLOW, DiskLog, Entry, SimulatedLog, with_voters

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

SETTINGS = raft_settings(snapshot_bytes_max=8)


class Middle(Random):
    """Always returns the middle of the range."""

    def random(self) -> float:
        return 0.5

    def choice(self, seq: Sequence[Any]) -> Any:
        return seq[0]


class Player:
    """One node, with the disk and the messages of a script."""

    def __init__(self, header: str) -> None:
        words = dict(re.findall(r"(\w+) ([^,]+)", header))
        node, _, named = words["node"].partition(" of ")
        self.own, voters = _voter(node), VoterSet(_voter(voter) for voter in named.split())
        self.is_dynamic = any(key.directory_id != NO_DIRECTORY for key in voters.keys)
        self.voters = [] if self.is_dynamic else voters.ids
        self.disk = DiskLog(Membership(1, voters) if self.is_dynamic else None)
        if "snapshot" in words:
            self.disk.records.start_at(_snapshot(words["snapshot"]), b"0123456789abcdef")
        for epoch in words.get("log", "").split():
            self.disk.records.append(Entry(1, int(epoch), b"\x01"))
        epoch, voted, leader = (int(words.get(name, -1)) for name in ("epoch", "voted", "leader"))
        self.election = ElectionState(max(epoch, 0), voted, leader)
        self.start(0.0)

    def start(self, now: float) -> None:
        self.log = SimulatedLog(self.disk, lambda base, previous_epoch, entry: None)
        self.raft = Raft(
            node_id=self.own.key.id,
            voters=self.voters,
            own=self.own,
            log=self.log,
            election=self.election,
            settings=SETTINGS,
            random=Middle(0),
            now=now,
        )
        self.asked: dict[int, list[Request]] = {}
        self.syncs: deque[tuple[Sync, int]] = deque()
        self.was = ""

    def play(self, now: float, line: str) -> Iterator[str]:
        """The lines of effects that an input causes."""
        try:
            for effect in self._input(now, line):
                yield self._carry_out(effect)
        except Inconsistent as error:
            yield f"stops: {error}"
            return
        except KafkaError as error:
            yield f"refuses: {error}"
            return
        if self._is() != self.was:
            self.was = self._is()
            yield f"= {self.was}"

    def _is(self) -> str:
        raft = self.raft
        following = f" of node {raft.leader_id}" if raft.leader_id not in (-1, self.own.key.id) else ""
        log = _log_text(self.log)
        voters = f", voters {' '.join(map(_key, raft.voter_set.keys))}" if raft.membership.kraft_version else ""
        return f"{raft.role.value}{following}, epoch {raft.epoch}, log {log}, committed {raft.high_watermark}{voters}"

    def _input(self, now: float, line: str) -> list[Effect]:
        raft = self.raft
        match line.split():
            case ["tick"]:
                return raft.tick(now)
            case ["from", sender, *words]:
                replica = _voter(sender.rstrip(":")).key
                return raft.request(now, replica.id, _request(replica, words), replica.id)
            case ["answer", peer, *words]:
                asked = self.asked[int(peer.rstrip(":"))]
                before = words[0] == "before:"
                request = asked[-2 if before else -1]
                answer = _response(int(peer.rstrip(":")), request, words[1:] if before else words)
                return raft.response(now, int(peer.rstrip(":")), request, answer)
            case ["failed", peer]:
                return raft.failed(now, int(peer), self.asked[int(peer)][-1])
            case ["unreachable", peer]:
                return raft.unreachable(now, int(peer))
            case ["append", count]:
                return raft.append(now, bytes([int(count)]))
            case ["synced"]:
                sync, mark = self.syncs.popleft()
                self.disk.sync(mark)
                return raft.synced(now, sync)
            case ["resign"]:
                return raft.resign(now)
            case ["add", voter]:
                return raft.add_voter(now, _voter(voter))
            case ["remove", voter]:
                return raft.remove_voter(now, _voter(voter).key)
            case ["update", voter]:
                return raft.update_voter(now, replace(_voter(voter), endpoints=(VoterEndpoint("C", "moved", 1),)))
            case ["upgrade", *voters]:
                return raft.upgrade(now, VoterSet(map(_voter, voters)))
            case ["restart"]:
                self.disk.changes.clear()
                self.start(now)
                return []
        raise ValueError(f"not an input: {line!r}")

    def _carry_out(self, effect: Effect) -> str:
        match effect:
            case Persist(state):
                self.election = state
                voted = _node(state.voted_for) + _letter(state.voted_directory)
                return f"persist epoch={state.epoch} voted={voted} leader={_node(state.leader)}"
            case Sync(end_offset):
                self.syncs.append((effect, self.disk.mark))
                return f"sync {end_offset}"
            case SendRequest(peer, request):
                self.asked.setdefault(peer, []).append(request)
                return f"ask {peer}: {_text(request)}"
            case SendResponse(token, message):
                return f"answer {token}: {_text(message)}"
            case Committed(high_watermark):
                return f"committed {high_watermark}"
            case Elected(epoch, end_offset):
                return f"elected epoch={epoch} end={end_offset}"
            case Deposed():
                return "deposed"
            case Follow(leader_id, epoch):
                return f"follow {leader_id} epoch={epoch}"
            case Installed(snapshot, data):
                return f"installed {snapshot.offset}/{snapshot.epoch} {data.partition(VOTERS_FOLLOW)[0].decode()}"


def _log_text(log: SimulatedLog) -> str:
    """Start and end offset and the epochs: `2..5 (3 4)`."""
    epochs = " ".join(str(entry.epoch) for entry in log.records.entries)
    return f"{log.start_offset}..{log.end_offset} ({epochs})"


def _voter(text: str) -> Voter:
    """`2b`: node 2 with directory b; `2`: of a static quorum."""
    found = re.fullmatch(r"(\d+)([a-z]?)", text)
    assert found is not None, text
    directory_id = found[2].encode() * 16 or NO_DIRECTORY
    return Voter(ReplicaKey(int(found[1]), directory_id), (VoterEndpoint("C", f"node-{found[1]}", 1),))


def _letter(directory_id: bytes) -> str:
    return "" if directory_id == NO_DIRECTORY else directory_id[:1].decode()


def _key(key: ReplicaKey) -> str:
    return f"{key.id}{_letter(key.directory_id)}"


def _node(node_id: int) -> str:
    return "-" if node_id < 0 else str(node_id)


def _text(message: Message) -> str:
    match message:
        case Vote(epoch, _, last_epoch, last_offset, pre_vote):
            between = f" from={_letter(message.candidate_directory)} to={_letter(message.voter_directory)}"
            kind = "pre-vote" if pre_vote else "vote"
            is_static = message.voter_directory == NO_DIRECTORY
            return f"{kind} epoch={epoch} last={last_epoch}/{last_offset}{'' if is_static else between}"
        case VoteResponse(epoch, leader, granted):
            return f"{'granted' if granted else 'refused'} epoch={epoch} leader={_node(leader)}"
        case BeginEpoch(epoch):
            return f"begin-epoch epoch={epoch}"
        case BeginEpochResponse(epoch, leader):
            return f"heard epoch={epoch} leader={_node(leader)}"
        case Fetch():
            wait = f" wait={message.max_wait_ms}" if message.max_wait_ms != 300 else ""
            return (
                f"fetch epoch={message.epoch} offset={message.fetch_offset} last={message.last_fetched_epoch}"
                f" committed={message.high_watermark}{wait}{_as(message.directory)}"
            )
        case FetchResponse():
            return _fetch_answer_text(message)
        case FetchSnapshot(epoch, _, snapshot, position):
            directory = _as(message.directory)
            return f"fetch-snapshot epoch={epoch} {snapshot.offset}/{snapshot.epoch} at={position}{directory}"
        case FetchSnapshotResponse(epoch, leader, snapshot, size, position, data):
            name = f"part epoch={epoch} leader={_node(leader)} {snapshot.offset}/{snapshot.epoch} size={size}"
            return f"{name} at={position} data={data.decode()}" if size >= 0 else name
    raise AssertionError(message)


def _as(directory_id: bytes) -> str:
    return "" if directory_id == NO_DIRECTORY else f" as={_letter(directory_id)}"


def _fetch_answer_text(answer: FetchResponse) -> str:
    parts = [f"fetched epoch={answer.epoch} leader={_node(answer.leader)} committed={answer.high_watermark}"]
    if answer.diverging is not None:
        parts.append(f"diverging={answer.diverging.epoch}/{answer.diverging.end_offset}")
    if answer.snapshot is not None:
        parts.append(f"snapshot={answer.snapshot.offset}/{answer.snapshot.epoch}")
    if answer.records:
        parts.append("records=" + ",".join(f"{base}:{epoch}" for base, epoch in _batches(answer.records)))
    return " ".join(parts)


def _batches(records: bytes) -> Iterator[tuple[int, int]]:
    position = 0
    while position < len(records):
        base, epoch, _, size = HEAD.unpack_from(records, position)
        yield base, epoch
        position += HEAD.size + size


def _fields(words: list[str]) -> dict[str, str]:
    return dict(word.split("=") for word in words if "=" in word)


def _pair(text: str) -> tuple[int, int]:
    first, second = text.split("/")
    return int(first), int(second)


def _snapshot(text: str) -> SnapshotId:
    return SnapshotId(*_pair(text))


def _request(replica: ReplicaKey, words: list[str]) -> Request:
    (sender, directory_id), kind, fields = replica, words[0], _fields(words)
    epoch = int(fields["epoch"])
    if kind in ("vote", "pre-vote"):
        voter = fields.get("to", "").encode() * 16 or NO_DIRECTORY
        return Vote(epoch, sender, *_pair(fields["last"]), kind == "pre-vote", directory_id, voter)
    if kind == "begin-epoch":
        return BeginEpoch(epoch, sender)
    if kind == "fetch":
        offset, last, committed = (int(fields[name]) for name in ("offset", "last", "committed"))
        return Fetch(epoch, sender, offset, last, committed, int(fields.get("wait", 300)), 1 << 20, directory_id)
    assert kind == "fetch-snapshot", kind
    snapshot = next(word for word in words if "/" in word)
    size_max = SETTINGS.snapshot_bytes_max
    return FetchSnapshot(epoch, sender, _snapshot(snapshot), int(fields["at"]), size_max, directory_id)


def _response(peer: int, request: Request, words: list[str]) -> Response:
    """A response to a fetch names its sender as the leader by default, one to a vote none."""
    kind, fields = words[0], _fields(words)
    epoch = int(fields.get("epoch", request.epoch))
    named = fields.get("leader", "-" if isinstance(request, Vote) else str(peer))
    leader = -1 if named == "-" else int(named)
    if isinstance(request, Vote):
        return VoteResponse(epoch, leader, granted=kind == "granted")
    if isinstance(request, BeginEpoch):
        return BeginEpochResponse(epoch, leader)
    if isinstance(request, FetchSnapshot):
        data = fields.get("data", "").encode()
        if "voters" in fields:
            data = with_voters(data, Membership(1, VoterSet(map(_voter, fields["voters"].split("+")))))
            fields["size"] = str(len(data))
        size, position = int(fields["size"]), int(fields.get("at", 0))
        return FetchSnapshotResponse(epoch, leader, request.snapshot, size, position, data)
    records = b"".join(
        HEAD.pack(int(base), int(record_epoch), 1, 1) + b"\x01"
        for base, record_epoch in (record.split(":") for record in fields.get("records", "").split(",") if record)
    )
    if "voters" in fields:
        base, record_epoch, named = fields["voters"].split(":")
        batch = control_batch([control_value(VoterSet(map(_voter, named.split("+"))))], timestamp_ms=0)
        records += HEAD.pack(int(base), int(record_epoch), 1, len(batch)) + batch
    return FetchResponse(
        epoch,
        leader,
        records,
        high_watermark=int(fields.get("committed", 0)),
        diverging=EpochEnd(*_pair(fields["diverging"])) if "diverging" in fields else None,
        snapshot=_snapshot(fields["snapshot"]) if "snapshot" in fields else None,
    )


def play(text: str) -> str:
    """The script with the actual effects."""
    lines: list[str] = []
    player: Player | None = None
    for line in text.splitlines():
        if line.startswith("    "):
            continue
        lines.append(line)
        if line.startswith("node "):
            player = Player(line)
            lines += [f"    {said}" for said in player.play(0.0, "tick")]
        elif player is not None and line and not line.startswith("#"):
            time, _, what = line.partition(" ")
            lines += [f"    {said}" for said in player.play(float(time), what)]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    for name in sys.argv[1:]:
        path = Path(name)
        path.write_text(play(path.read_text()))
