"""`RaftEvents`: logs what Raft meets again and again only when it is new: leaders, malformed messages, gaps of epochs.

While a leader cannot be reached, Raft gives it up and finds it again several times a second. A node repeats a request
whose response is malformed after each pause. And a node whose epoch is later than the leader's, as after the restore of
an older backup, gets no metadata: a Fetch does not change the leader's epoch. During an election that lasts for a
moment, otherwise until as many elections have taken place, or somebody acts.
"""

import structlog

from minikafka.controller.line_rate import LineRate

__all__ = ["RaftEvents"]

log = structlog.get_logger("minikafka.quorum")

USUAL_S = 5.0
"""Gaps between epochs that do not last longer are not logged. Messages that show one are no further apart."""
AGAIN_S = 60.0
WHAT_TO_DO = "docs/operations/backup.md"


class RaftEvents:
    """The log events of one node's Raft. Times are seconds of one monotonic clock.

    Args:
        malformed: limits the lines about malformed requests, which strangers may send where no login is asked for.
    """

    def __init__(self, malformed: LineRate) -> None:
        self._malformed_lines = malformed
        self._followed: tuple[int, int] | None = None
        self._malformed: tuple[str, int, str] | None = None
        self._gap_since_s = self._gap_seen_s = self._gap_told_s = float("-inf")

    def following(self, leader: int, epoch: int) -> None:
        """This node follows a leader; logged once in a row."""
        followed = leader, epoch
        (log.debug if followed == self._followed else log.info)("following quorum leader", leader=leader, epoch=epoch)
        self._followed = followed

    def malformed_request(self, node: int, error: Exception) -> None:
        """A request of a node cannot be understood; logged once in a row, and at a bounded rate."""
        if more := self._malformed_lines.left_out():
            log.warning("more malformed raft requests", count=more)
        if not self._is_repeated("request", node, str(error)) and self._malformed_lines.admits():
            log.error("malformed raft request", node=node, error=str(error))
        else:
            log.debug("malformed raft request", node=node, error=str(error))

    def malformed_response(self, node: int, error: Exception) -> None:
        """A response of a node cannot be understood; logged once in a row."""
        is_repeated = self._is_repeated("response", node, str(error))
        (log.debug if is_repeated else log.error)("malformed raft response", node=node, error=str(error))

    def controller_is_behind(self, now_s: float, controller: int, *, its_epoch: int, own_epoch: int) -> None:
        """A controller has answered this node, which knows no leader, in an epoch before this node's own."""
        if self._gap_is_to_be_told(now_s):
            log.warning(
                "controller in an earlier epoch",
                controller=controller,
                its_epoch=its_epoch,
                own_epoch=own_epoch,
                see=WHAT_TO_DO,
            )

    def node_is_ahead(self, now_s: float, node: int, *, its_epoch: int, own_epoch: int) -> None:
        """A node asks this one, the leader, in a later epoch."""
        if self._gap_is_to_be_told(now_s):
            log.warning("node in a later epoch", node=node, its_epoch=its_epoch, own_epoch=own_epoch, see=WHAT_TO_DO)

    def _is_repeated(self, kind: str, node: int, error: str) -> bool:
        malformed = kind, node, error
        is_repeated, self._malformed = self._malformed == malformed, malformed
        return is_repeated

    def _gap_is_to_be_told(self, now_s: float) -> bool:
        if now_s > self._gap_seen_s + USUAL_S:
            self._gap_since_s = now_s
        self._gap_seen_s = now_s
        if now_s < self._gap_since_s + USUAL_S or now_s < self._gap_told_s + AGAIN_S:
            return False
        self._gap_told_s = now_s
        return True
