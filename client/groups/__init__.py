"""Group membership of a consumer, under the protocol that `group_protocol` names.

Under the classic protocol the group's leader assigns. `ClassicGroup` sends JoinGroup; the coordinator responds to all
members at once and names a leader. The leader's assignor computes the assignment, which SyncGroup distributes.
`ClassicGroup` then notifies the consumer of revoked and assigned partitions, and sends heartbeats until an error or a
changed subscription makes it join again.

Under the consumer protocol (KIP-848) the coordinator assigns. `ConsumerGroup` sends heartbeats only; the responses
say which partitions this member is to have. It gives up those that it is to lose, reports that, and takes over others
when the coordinator names them. All other partitions are consumed meanwhile.

    group_counts.py         what a member counts, for `metrics()`
    group_session.py        what both have in common: `GroupSession`, and `Member`, the interface to the consumer
    sessions.py             the session of each protocol
    classic_session.py      the background task under the classic protocol
    classic_membership.py   its state machine: builds requests, handles responses and errors
    consumer_session.py     the background task under the consumer protocol
    consumer_membership.py  its state machine: builds heartbeats, handles responses and errors
    application_calls.py    calls that the task has the application make, where it requests records
    assignors.py            range, roundrobin and cooperative-sticky, and the wire format of subscriptions

Caveats:
    * No share groups.
    * Members' racks are not sent under the classic protocol; its assignors do not consider racks (KIP-881).
    * A commit that is rejected as of an old member epoch is tried again with the new one, if all its partitions were
      this member's own meanwhile. Else the application gets StaleMemberEpochError.
"""
