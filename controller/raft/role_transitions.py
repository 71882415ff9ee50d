"""The roles of a node in the quorum, and the transitions allowed between them; every change of role is checked.

::

                         sees a higher epoch, or votes
             ┌────────────────────────────────────────────────────┐
             ▼                                                    │
        UNATTACHED ── election timeout ──► PROSPECTIVE ── a majority would vote ──► CANDIDATE
             │  ▲                           ▲   │  ▲                                 │    │
             │  │                           │   │  └── loses, or times out ──────────┘    │
       discovers a leader             fetch timeout │                                a majority votes
             ▼  │                           │   ▼                                         ▼
          FOLLOWER ─────────────────────────┘  FOLLOWER            RESIGNED ◄── alone ── LEADER

A candidate or prospective node that discovers a leader follows it. A higher epoch makes any node UNATTACHED first.
Observers (nodes that are not voters) are always UNATTACHED or FOLLOWER.

Sources: Kafka's `QuorumState`; KIP-595 (the roles), KIP-996 (PROSPECTIVE).
"""

from enum import Enum


class Role(Enum):
    """The role of a node in the quorum. The value is the text in log lines."""

    UNATTACHED = "unattached"
    """Knows no leader of its epoch; may have voted in it."""
    FOLLOWER = "follower"
    """Fetches from the leader of its epoch."""
    PROSPECTIVE = "prospective"
    """Asks whether a majority would vote for it, before it begins a new epoch (KIP-996)."""
    CANDIDATE = "candidate"
    """Has begun an epoch, voted for itself, and requests votes."""
    LEADER = "leader"
    """Was elected by a majority; the only node that appends."""
    RESIGNED = "resigned"
    """Led this epoch and leads no longer: it resigned, lost contact with the majority, or was restarted."""


TRANSITIONS: dict[Role, frozenset[Role]] = {
    Role.UNATTACHED: frozenset({Role.UNATTACHED, Role.FOLLOWER, Role.PROSPECTIVE}),
    Role.FOLLOWER: frozenset({Role.UNATTACHED, Role.FOLLOWER, Role.PROSPECTIVE}),
    Role.PROSPECTIVE: frozenset({Role.UNATTACHED, Role.FOLLOWER, Role.PROSPECTIVE, Role.CANDIDATE}),
    Role.CANDIDATE: frozenset({Role.UNATTACHED, Role.FOLLOWER, Role.PROSPECTIVE, Role.LEADER}),
    Role.LEADER: frozenset({Role.UNATTACHED, Role.RESIGNED}),
    Role.RESIGNED: frozenset({Role.UNATTACHED, Role.PROSPECTIVE}),
}
"""The allowed transitions. A leader follows another node only after a higher epoch has made it UNATTACHED."""

OBSERVER_ROLES = frozenset({Role.UNATTACHED, Role.FOLLOWER})


class IllegalTransition(AssertionError):
    """A transition that is not in the table, which is a bug in this package: the node must stop."""


def check_transition(before: Role, after: Role, *, is_voter: bool) -> None:
    """Raise IllegalTransition unless the transition is in the table."""
    if after not in TRANSITIONS[before]:
        raise IllegalTransition(f"a {before.value} node cannot become {after.value}")
    if not is_voter and after not in OBSERVER_ROLES:
        raise IllegalTransition(f"an observer cannot become {after.value}")
