"""Raft in pull form: how several nodes keep one log, so that what is committed stays, whoever dies.

The idea. Time is cut into *epochs*, numbered 1, 2, 3, …; each has at most one *leader*, because each *voter* votes once
in it and a leader needs a majority. Only the leader appends. The others *fetch* from it, as consumers do, and with each
Fetch a follower says as well how far its disk has come. What is on the disks of a majority is *committed*: any later
leader needs the votes of a majority, one of whom has it, and nobody votes for a log that is behind its own. Everything
else in here is about finding out quickly that a leader is gone, and about not being too quick.

An epoch, from election to election (nodes 1, 2 and 3; node 1 has just died)::

    node 2   (its connection to 1 broke)                 suspicious: does not wait for the whole fetch timeout
             Vote(epoch 4, pre_vote)  ──────► node 3     would you vote for me, after epoch 4?
             VoteResponse(granted)      ◄──────            I would: your log is not behind, and I hear from no leader
             epoch 5, vote for 2: on disk                only then is anybody asked; see `Persist`
             Vote(epoch 5)            ──────► node 3     first writes the vote down, then
             VoteResponse(granted)      ◄──────            two of three: node 2 leads
             appends LEADER_CHANGE                       the first record of its epoch, offset 17
             BeginEpoch(epoch 5)      ──────► node 3     becomes its follower, and begins to fetch from its end:
             Fetch(offset 17, last 4) ◄──────            the record before it is of epoch 4, as it is here
             FetchResponse(records)     ──────► node 3     appends, syncs, and only then
             Fetch(offset 18, last 5) ◄──────            acknowledges, and waits at the leader for news
             high watermark 18                           two disks of three have it: it is committed, and so is
             FetchResponse(18)          ──────► node 3     all before; the state machines apply it
             …
             Fetch(offset 18, last 4) ◄────── node 1     is back, with a record at 17 that nobody else ever got
             FetchResponse(diverging)   ──────► node 1     epoch 4 ends at 17 here: it truncates, and tries again
             Fetch(offset 17, last 4) ◄──────            now the logs agree
             …
             (nobody fetches for 0.8 s)                  cut off? It resigns, for it could commit nothing anyway

Where to read, in this order::

    roles.py           what a node can be, and what may become of it
    messages.py        four requests and their answers
    effects.py         what a node wants done: it does nothing itself
    election_state.py  what it must never forget
    log.py             what it asks of the log
    raft.py            the door: inputs come in, effects go out
    member.py          what all roles share; the changes from one to another; states.py: what each role knows
    electing.py        pre-votes, votes, who wins
    leading.py         serving fetches, the high watermark, check-quorum
    following.py       fetching, truncating, snapshots; observers
    leader_change.py   the record that an epoch begins with
    settings.py        how long what is waited for

It is pure: no clock, no disk, no network, no randomness but what is handed in. So a quorum can be simulated, thousands
of times over, with everything going wrong that can (`tests/simulation/raft.py`), a situation can be written down as a
script (`tests/controller/raft/scripts`), and a bug can be planted to see that both notice (`tests/mutations/raft.py`).

Promises that the driver makes (`controller/quorum/raft_driver.py`)::

    effects are carried out in order; nothing behind a Persist or Sync is done before that is on the device
    `Raft.synced` is told of each Sync; `answer` and `failed` get the very request that was asked
    after any exception the node stops, but for BadMessage (close that connection) and NotLeader

On disk::

    <metadata.log.dir>/__cluster_metadata-0/
    ├── quorum-state                             epoch, vote, leader: `ElectionState`, in Kafka's own form
    ├── 00000000000000000123-0000000002.checkpoint   a snapshot: all before offset 123, the last of it of epoch 2
    └── 00000000000000000123.log                 what came after

Sources: Ongaro and Ousterhout, "In Search of an Understandable Consensus Algorithm"; Ongaro's dissertation (chapters 3,
6.4, 9.6, 10.2.1); KIP-595 (Raft by Fetch), KIP-630 (snapshots), KIP-996 (pre-vote); Kafka's `KafkaRaftClient`,
`QuorumState`, `LeaderState` and `ReplicatedLog`.

Caveats:

- Voters are fixed by configuration, and all nodes must name the same; KIP-853 (changing them at run time) is not there.
  Nodes that are no voters follow as observers.
- A voter whose disk was wiped comes back without its votes and records, and may help to lose what is committed, as with
  Kafka's static quorums. Make sure that the others have everything first.
- A candidate that won its pre-vote and is cut off in that very moment does come back with a higher epoch, and deposes
  the leader once. It cannot be otherwise: it must not go back to an epoch that it has left.
- A snapshot is collected in memory before it is installed (`snapshot_size_max`).
- No EndQuorumEpoch: a leader that resigns answers the fetches that wait at it, which says the same. No leadership
  transfer to a chosen node.
- Reads go by what is applied; nobody asks the leader whether it still is one (no read index, no leases).
"""

from minikafka.controller.raft.election_state import (
    FILE_NAME,
    NOBODY,
    ElectionState,
    UnreadableElectionState,
    decode_election_state,
    encode_election_state,
)
from minikafka.controller.raft.log_interface import EpochEnd, RaftLog, SnapshotId
from minikafka.controller.raft.raft import Inconsistent, NotLeader, Raft, Replica
from minikafka.controller.raft.raft_settings import RaftSettings
from minikafka.controller.raft.role_transitions import Role

__all__ = [
    "FILE_NAME",
    "NOBODY",
    "ElectionState",
    "EpochEnd",
    "Inconsistent",
    "NotLeader",
    "Raft",
    "RaftLog",
    "RaftSettings",
    "Replica",
    "Role",
    "SnapshotId",
    "UnreadableElectionState",
    "decode_election_state",
    "encode_election_state",
]
