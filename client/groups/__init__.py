"""Group membership of a consumer under the classic protocol, with assignment by the group's leader.

The path of a rebalance: `Group` sends JoinGroup; the coordinator responds to all members at once and names a leader.
The leader's assignor computes the assignment, which SyncGroup distributes. `Group` then notifies the consumer of
revoked and assigned partitions, and sends heartbeats until an error or a changed subscription makes it join again.

    membership.py       the state machine: builds requests, handles responses and errors
    group_session.py    the background task that sends them, and the `Member` interface to the consumer
    application_calls.py  calls that the task has the application make, where it requests records
    assignors.py        range, roundrobin and cooperative-sticky, and the wire format of subscriptions

Caveats:
    * Only the classic protocol: no KIP-848 groups and no share groups.
    * Members' racks are sent as unknown; assignors do not consider racks (KIP-881).
"""
