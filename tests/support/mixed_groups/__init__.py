"""Groups whose members use different clients: they come, go and die while nodes are killed.

Each member is a process of its own, which does what its standard input says, so that it can be killed. All speak the
same lines, whatever their client (`GroupMember.java` says which); a member stamps its rebalances itself with the
machine's monotonic clock.

- `member.py`: members with confluent-kafka, kafka-python, aiokafka and our client; `GroupMember.java`: Kafka's own.
- `member_process.py`: `MemberProcess`: a member as the test sees it.
- `journal.py`: what members did, and what is wrong with it. Pure.
- `observer.py`: what the coordinators say of the groups, again and again.
- `run.py`: `MixedRun`: the members, the faults, and the end.

What is judged. *Ownership*: a member has a partition from the end of its "assigned" callback to the beginning of its
"revoked" or "lost" callback, its leaving, or its death. A member that has been fenced may not know it yet, under any
coordinator; so two of these times may overlap. But then the earlier one has lost its membership, and the coordinator
must refuse its commits: a commit is wrong that began after another member had received the partition, and is accepted.
In each description by a coordinator a partition is with one member, and the epoch of a group never decreases. Committed
offsets never decrease. Each acknowledged record is read in each group. Once nobody goes any more, each group settles
within two session time-outs: one passes until members that have died are missed. After the death of a node alone it
settles within one.
"""
