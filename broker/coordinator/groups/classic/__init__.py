"""Classic groups (KIP-345, KIP-394, KIP-814): JoinGroup, SyncGroup, Heartbeat, LeaveGroup and the rebalance.

Every function takes a `DecisionBuilder`, and none waits.

    classic_join.py           JoinGroup: new, returning and static members
    rebalance.py              the rebalance: join phase, initial delay, new generation, sync timeout
    classic_sync.py           SyncGroup: the leader's assignment
    heartbeat_and_leave.py    Heartbeat, LeaveGroup and session timeouts
"""
