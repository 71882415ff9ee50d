"""`Raft`: one node of the quorum, without clock, disk or network. Every input returns effects."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random

from minikafka.controller.raft.effects import Effects, Sync, Token
from minikafka.controller.raft.election_state import ElectionState
from minikafka.controller.raft.log import RaftLog
from minikafka.controller.raft.messages import Request, Response
from minikafka.controller.raft.roles import Role
from minikafka.controller.raft.settings import RaftSettings


class NotLeader(Exception):
    """Only the leader appends."""


class Inconsistent(Exception):
    """What cannot happen in a quorum that keeps its promises: the node must stop (KAFKA-12460)."""


@dataclass(frozen=True, slots=True)
class Replica:
    """What the leader knows of a node that follows it, or of itself (DescribeQuorum).

    Attributes:
        end_offset: it has synced everything before; -1: it has not fetched yet.
        last_fetch_time, last_caught_up_time: by the clock that inputs bear; None: never.
    """

    id: int
    is_voter: bool
    end_offset: int
    last_fetch_time: float | None
    last_caught_up_time: float | None


class Raft:
    """A voter, or an observer: a node that follows and does not vote.

    Times are seconds of one monotonic clock. Call `tick` when `deadline` has passed, at first at once.

    Args:
        node_id: this node's.
        voters: all voters' ids, this node's among them if it is one.
        log: see `RaftLog`.
        election: as it was persisted last; `ElectionState()` on a first start.
        random: election timeouts are drawn from it.
        wall_clock_ms: for the timestamp of the record that a new leader appends.

    Raises from every input:
        Inconsistent: the node must stop.
        BadMessage: (from `request` and `answer`) the sender talks nonsense; nothing has changed.
        Whatever the log raises: the node must stop.
    """

    def __init__(
        self,
        *,
        node_id: int,
        voters: Sequence[int],
        log: RaftLog,
        election: ElectionState,
        settings: RaftSettings,
        random: Random,
        now: float,
        wall_clock_ms: Callable[[], int] = lambda: 0,
    ) -> None: ...

    @property
    def role(self) -> Role:
        raise NotImplementedError

    @property
    def epoch(self) -> int:
        raise NotImplementedError

    @property
    def leader_id(self) -> int:
        """This node itself, or whom it follows; -1 if it knows of none."""
        raise NotImplementedError

    @property
    def is_leader(self) -> bool:
        raise NotImplementedError

    @property
    def is_voter(self) -> bool:
        raise NotImplementedError

    @property
    def high_watermark(self) -> int:
        """Everything before is committed. After a restart it begins at the latest snapshot's offset."""
        raise NotImplementedError

    @property
    def deadline(self) -> float:
        """When `tick` is due."""
        raise NotImplementedError

    def replicas(self) -> list[Replica]:
        """All voters and observers as the leader knows them, by id; empty on other nodes."""
        raise NotImplementedError

    def tick(self, now: float) -> Effects:
        """Time has passed. Early and repeated calls do no harm."""
        raise NotImplementedError

    def request(self, now: float, sender: int, message: Request, token: Token) -> Effects:
        """A request came from node `sender`. Exactly one Answer with this token follows, now or later."""
        raise NotImplementedError

    def answer(self, now: float, peer: int, request: Request, message: Response) -> Effects:
        """`peer` answered `request`, the very object that an Ask bore."""
        raise NotImplementedError

    def failed(self, now: float, peer: int, request: Request) -> Effects:
        """`request` will get no answer: there was no connection, or it broke, or it took too long."""
        raise NotImplementedError

    def unreachable(self, now: float, peer: int) -> Effects:
        """`peer` closed a connection or refused one: it is probably gone. Who follows it need not wait for long."""
        raise NotImplementedError

    def append(self, now: float, batches: bytes) -> Effects:
        """Append batches to the log of the leader; `log.end_offset` is where they end.

        Raises:
            NotLeader: this node is none. Nothing has changed.
        """
        raise NotImplementedError

    def synced(self, now: float, sync: Sync) -> Effects:
        """A Sync effect is done. To be told on every node, at once."""
        raise NotImplementedError

    def resign(self, now: float) -> Effects:
        """Give up leading, so that others need not wait: before a clean shutdown."""
        raise NotImplementedError
