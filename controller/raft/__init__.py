"""Raft in pull form: keeps one log on several nodes, so that a committed record survives the failure of a minority.

Time is divided into *epochs*, numbered 1, 2, 3, …; each has at most one *leader*, because each *voter* votes once per
epoch and a leader needs a majority. Only the leader appends. The others *fetch* from it, as consumers do, and a Fetch
also reports the offset up to which the follower's log is synced. A record synced by a majority is *committed*: every
later leader needs the votes of a majority, at least one of those voters has the record, and no voter votes for a
candidate whose log is behind its own. The remaining rules detect a lost leader quickly, and avoid elections that are
not needed. Only a voter can make another node move to a later epoch, and not by a Fetch, which any node may send.

An epoch, from election to election (nodes 1, 2 and 3; node 1 has just crashed)::

    node 2   (its connection to 1 broke)                 suspects the leader: a shorter fetch timeout
             Vote(epoch 4, pre_vote)  ──────► node 3     would node 3 vote for node 2 after epoch 4?
             VoteResponse(granted)    ◄──────            yes: node 2's log is not behind, and there is no leader
             epoch 5, vote for 2: on disk                before the vote is requested; see `Persist`
             Vote(epoch 5)            ──────► node 3     persists its vote first, then
             VoteResponse(granted)    ◄──────            two of three: node 2 leads
             appends LEADER_CHANGE                       the first record of its epoch, offset 17
             BeginEpoch(epoch 5)      ──────► node 3     becomes its follower, and fetches from its log end:
             Fetch(offset 17, last 4) ◄──────            the record before it is of epoch 4, as in node 2's log
             FetchResponse(records)   ──────► node 3     appends, syncs, and only then
             Fetch(offset 18, last 5) ◄──────            acknowledges, and waits at the leader for new records
             high watermark 18                           on two disks of three: committed, with everything before
             FetchResponse(18)        ──────► node 3     the state machines apply it
             …
             Fetch(offset 18, last 4) ◄────── node 1     is back, with a record at 17 that no other node has
             FetchResponse(diverging) ──────► node 1     epoch 4 ends at 17: node 1 truncates, and fetches again
             Fetch(offset 17, last 4) ◄──────            now the logs agree
             …
             (no Fetch for 0.8 s)                        partitioned? It resigns, because it could commit nothing

If kraft.version is 1, voters can be added and removed while the quorum runs (KIP-853). The voter set is a record in the
log. It takes effect as soon as it is appended; a truncation takes it back. Two sets that differ in one voter have no
disjoint majorities. Therefore one voter is added or removed at a time, and only once the previous change is committed,
in an epoch in which the leader has committed a record. A leader that removes itself does not count itself, and resigns
after the commit. A voter whose removal is not committed still starts elections, without counting itself, because the
other voters may lack records that it has.

The path of an input (a message, the timer, an append)::

    raft.py            the entry point: passes the input to the rules of the node's role, then does what is due
    elections.py  raft_leader.py  raft_follower.py      change the state in role_states.py through member.py
    effects.py         the caller gets the effects and carries them out

The files, in reading order:

- `role_transitions.py`: the roles, and which role may follow which.
- `messages.py`: the four requests, their responses and their encoding.
- `effects.py`: the effects that the caller carries out: persist, sync, send, report.
- `election_state.py`: epoch and vote, which must survive a restart, and the file `quorum-state`.
- `log_interface.py`: the interface to the log on disk.
- `raft.py`: `Raft`, the entry point for all inputs.
- `member.py`: state shared by all roles, and the change from one role to another.
- `role_states.py`: the state that a node keeps in each role.
- `elections.py`: pre-votes, votes, counting them, the pause after a lost election.
- `raft_leader.py`: serving fetches, the high watermark, check-quorum.
- `raft_follower.py`: fetching, truncating, snapshots; finding the leader as an observer.
- `leader_change.py`: the control record that begins an epoch.
- `voter_set.py`: voters and sets of voters, as values.
- `membership_records.py`: the control records that name the voters.
- `voter_history.py`: the voters at each offset of the log.
- `voter_changes.py`: adding, removing and updating voters at the leader.
- `raft_settings.py`: timeouts and size limits.

The package is pure: no clock, disk, network or randomness except what is passed in. A quorum can be simulated with
thousands of random faults (`tests/simulation/raft.py`), a situation can be written as a script
(`tests/controller/raft/scripts`), and planted bugs must be caught by both (`tests/mutations/raft.py`).

Obligations of the driver (`controller/quorum/raft_driver.py`)::

    effects are carried out in order; nothing behind a Persist or Sync is done before that is on the device
    `Raft.synced` is called for each Sync; `response` and `failed` get the same request object that was sent
    after any exception the node stops, except BadMessage (close that connection) and NotLeader

On disk::

    <metadata.log.dir>/__cluster_metadata-0/
    ├── quorum-state                             epoch, vote, leader: `ElectionState`, in Kafka's format
    ├── 00000000000000000123-0000000002.checkpoint   a snapshot: everything before offset 123, last epoch 2
    └── 00000000000000000123.log                 the records after it

Sources: Ongaro and Ousterhout, "In Search of an Understandable Consensus Algorithm"; Ongaro's dissertation (chapters 3,
6.4, 9.6, 10.2.1); KIP-595 (Raft by Fetch), KIP-630 (snapshots), KIP-996 (pre-vote); Kafka's `KafkaRaftClient`,
`QuorumState`, `LeaderState` and `ReplicatedLog`.

*Caveats*

- In a static quorum (kraft.version 0) the settings fix the voters, and all nodes must name the same voters. Nodes that
  are not voters follow as observers. A voter whose disk was wiped returns without its votes and records, and can cause
  the loss of committed records, as with Kafka's static quorums: make sure first that the other voters have everything.
  In a dynamic quorum (kraft.version 1) such a node is another voter, which has to be added.
- One voter is added or removed at a time; there is no joint consensus.
- A candidate that won its pre-vote and is partitioned at that moment returns with a higher epoch, and deposes the
  leader once. This cannot be avoided: it must not return to an epoch that it has left.
- A snapshot is collected in memory before it is installed (`snapshot_size_max`).
- No EndQuorumEpoch: a leader that resigns answers the fetches that wait at it, with the same effect. No leadership
  transfer to a chosen node.
- Reads are served from the applied state without asking the leader (no read index, no leases).
"""
