"""Group membership of a consumer, under the protocol that `group_protocol` names.

Under the classic protocol the group's leader assigns partitions. `ClassicGroup` sends JoinGroup; the coordinator
responds to all members at once and names a leader. The leader's assignor computes the assignment, which SyncGroup
distributes. `ClassicGroup` then notifies the consumer of revoked and assigned partitions, and sends heartbeats until an
error or a changed subscription makes it join again.

Under the consumer protocol (KIP-848) the coordinator assigns partitions. `ConsumerGroup` sends heartbeats only; the
responses contain this member's target assignment. The member gives up the partitions that it is to lose, reports that,
and takes over others when the coordinator names them. All other partitions are consumed meanwhile.

    group_counts.py         the commits, heartbeats and rebalances of a member, for `metrics()`
    group_metadata.py       `GroupMetadata`: a membership, for a transactional producer (KIP-447)
    group_session.py        the base class of both: `GroupSession`; and `Member`, the interface to the consumer
    group_waits.py          what a member waits for, for the log lines about long waits
    session_task.py         the task that runs a session, and ends before the member leaves
    sessions.py             the session class of each protocol
    classic_session.py      the background task under the classic protocol
    classic_membership.py   the classic protocol's state machine: builds requests, handles responses and errors
    consumer_session.py     the background task under the consumer protocol
    consumer_membership.py  the consumer protocol's state machine: builds heartbeats, handles responses and errors
    application_calls.py    calls of a listener, which the application makes when it requests records
    assignors.py            range, roundrobin and cooperative-sticky, and the wire format of subscriptions

Caveats:
    * No share groups.
    * TOPIC_AUTHORIZATION_FAILED and GROUP_AUTHORIZATION_FAILED are reported, and tried again: the membership goes on
      once somebody gives the right. Kafka's Java client does so under the classic protocol.
    * Members' racks are not sent under the classic protocol; its assignors do not consider racks (KIP-881).
    * A commit that is rejected for an old member epoch is tried again with the new epoch, if this member has owned all
      its partitions meanwhile. Otherwise the application gets StaleMemberEpochError.
"""
