"""What a node of the quorum can be, and what may become of it: the table that every change of role is held against.

::

                         hears of a higher epoch, or votes
             ┌────────────────────────────────────────────────────┐
             ▼                                                    │
        UNATTACHED ── election timeout ──► PROSPECTIVE ── a majority would vote ──► CANDIDATE
             │  ▲                           ▲   │  ▲                                 │    │
             │  │                           │   │  └── loses, or times out ──────────┘    │
       learns of a leader             fetch timeout │                                a majority votes
             ▼  │                           │   ▼                                         ▼
          FOLLOWER ─────────────────────────┘  FOLLOWER            RESIGNED ◄── alone ── LEADER

A candidate and a prospective that hear of a leader follow it. A higher epoch makes anybody UNATTACHED first.
Observers (nodes that are no voters) are only ever UNATTACHED or FOLLOWER.

Sources: Kafka's `QuorumState`; KIP-595 (the roles), KIP-996 (PROSPECTIVE).
"""

from enum import Enum


class Role(Enum):
    """The value is what people read."""

    UNATTACHED = "unattached"
    """Knows no leader of its epoch; may have voted in it."""
    FOLLOWER = "follower"
    """Fetches from the leader of its epoch."""
    PROSPECTIVE = "prospective"
    """Asks whether a majority would vote for it, before it disturbs anybody with a new epoch (KIP-996)."""
    CANDIDATE = "candidate"
    """Has begun an epoch, voted for itself, and asks for votes."""
    LEADER = "leader"
    """Was voted for by a majority; the only one that appends."""
    RESIGNED = "resigned"
    """Led this epoch, and does not any more: it gave up, lost touch with the majority, or was restarted."""


TRANSITIONS: dict[Role, frozenset[Role]] = {
    Role.UNATTACHED: frozenset({Role.UNATTACHED, Role.FOLLOWER, Role.PROSPECTIVE}),
    Role.FOLLOWER: frozenset({Role.UNATTACHED, Role.FOLLOWER, Role.PROSPECTIVE}),
    Role.PROSPECTIVE: frozenset({Role.UNATTACHED, Role.FOLLOWER, Role.PROSPECTIVE, Role.CANDIDATE}),
    Role.CANDIDATE: frozenset({Role.UNATTACHED, Role.FOLLOWER, Role.PROSPECTIVE, Role.LEADER}),
    Role.LEADER: frozenset({Role.UNATTACHED, Role.RESIGNED}),
    Role.RESIGNED: frozenset({Role.UNATTACHED, Role.PROSPECTIVE}),
}
"""Who may become what. A leader follows somebody else only by way of a higher epoch, which makes it UNATTACHED."""

OBSERVER_ROLES = frozenset({Role.UNATTACHED, Role.FOLLOWER})


class IllegalTransition(AssertionError):
    """A bug in this package: the node must stop rather than go on from here."""


def check_transition(before: Role, after: Role, *, is_voter: bool) -> None:
    """Raise IllegalTransition where the table does not have it."""
    if after not in TRANSITIONS[before]:
        raise IllegalTransition(f"a {before.value} node cannot become {after.value}")
    if not is_voter and after not in OBSERVER_ROLES:
        raise IllegalTransition(f"an observer cannot become {after.value}")
