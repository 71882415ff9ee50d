"""A checker that finds violated guarantees in the history of a run.

A workload records what its clients did in a `Recorder` (`history.py`): produces, polls, transactions, commits of
offsets, and in the end a reading of every partition and of every replica. `check` (`checker.py`) then reports each
anomaly with the operations that prove it. It is pure and takes a complete history, whose order is that of real time.

The model. An operation takes effect at one moment between its invocation and its completion, if it is `ok`; never, if
it is `fail`; and once or never, at any moment after its invocation, if it is `unknown` or has no completion. An anomaly
is reported only if no choice of these moments explains the history. A process is one incarnation of a client, with at
most one transaction at a time. A value names its record, so that every record that was read has one writer. A partition
is a log: a record is at one offset, and offsets without a record are normal (markers, aborted data, compaction).

- *lost acknowledged write*: acknowledged with acks=all, and missing from the final reading of its partition. All writes
  of a transaction whose commit was acknowledged are missing.
- *duplicate*: one record of an idempotent producer is at two offsets. If DeleteRecords has removed all but the last, it
  is none: a replica that was made anew since has no state of that producer, and takes a late request for a first one.
- *reordered records*: a record is behind one that was sent after its acknowledgement, or sent later by the same
  idempotent producer. This covers the order within a key.
- *two values at one offset*: two readers, or a reader and an acknowledgement, disagree.
- *poll that goes back*: a consumer receives an offset again, or a lower one, without a seek or rebalance, and no log
  start offset above its position, which the consumer would have been out of range of, may have been in effect.
- *acknowledged offset that goes back*: of two records of an idempotent producer in a partition, the second one has the
  lower offset.
- *skipped poll*: a consumer passes over a record that was acknowledged or that another one has read, without a seek,
  rebalance or failed poll. A read_committed consumer may pass over what is not known to be committed.
- *aborted read*: a record whose sending failed is read, or by read_committed one whose transaction was not committed.
  Its commit failed, was never requested, or was requested after the reading.
- *read past the high watermark*: a record was read without being committed: it is not acknowledged and missing from the
  final reading, or above the high watermark of the response with which it came.
- *torn transaction*: one write of a transaction is visible to read_committed, which shows that it was committed, and
  another write, which was acknowledged, is missing from a final reading.
- *committed offset that goes back*: a group's committed offset is read as lower than one that was committed before,
  and no commit of the lower offset may have taken effect later.
- *deleted value that returns*: the final readings of a compacted topic have a record, and not the tombstone behind it:
  delete.retention.ms begins only when what it deletes has been removed.
- *deleted record that is read*: the final reading has a record below the log start offset that it found.
- *write unseen after healing*: the final reading fails, or ends before an acknowledged record below the log's end; or
  other partitions of the topic have a final reading, and that of the record has none.
- *replicas that differ below the high watermark*: at an offset below the high watermarks of both.
- *input counted twice*, *input not counted*: of a read-process-write program, whose outputs name their inputs in their
  keys: read_committed shows two outputs of one input, or none although the group's committed offset is behind it. An
  output of unknown outcome may be in a partition that was not read, so that such an input is not reported.
- *record that nobody produced*: a value that was not sent to this partition, or not with this key.

A record is reported under one kind. If the final reading lacks a record, its offset is not reported as having two
values, and consumers that pass over it do not skip it. Records below any log start offset of the history, or that a
later record of the key may have replaced in a compacted topic, are never reported as missing.

- `history.py`: the operations, their events, and JSON lines.
- `checker.py`: calls the checks in their order.
- `checks/facts.py`: the index; `anomaly.py`: the kinds; `missing.py`, `records.py`, `transactions.py`, `order.py`,
  `offsets.py`, `replicas.py`, `tombstones.py`, `deleted.py`, `counted.py`: the checks by subject.
- `planted_histories.py`, `planted_compaction.py`: a history with each anomaly, and a legal one beside it (`script.py`).
- `model.py`: random legal histories; `sabotage.py`: plants a random anomaly in one.
- `nemesis.py`: random faults in a cluster of processes or containers; `journal.py`: what it did, and the state of the
  partitions, which `observer.py` asks for; `round.py`: a whole run, from its seed to its judgement.
- `written_anew.py`: which duplicates librdkafka has written itself; `answered_as_duplicate.py`: which records it lost.
- `report/`: the HTML page about a run.
- `workload/`: client programs that record such a history, for the simulation and for real processes.
- `benchmark.py`: the time for a million operations, `python -m chaos.benchmark`: 1,077,868 took 25.5 s of one processor
  and 1 GB of memory. `test_checker.py` counts the lines that are executed, which grow with the history.

*Caveats*

- Loss is found by final readings only; without them a lost record shows only if a consumer passes over it.
- The harness decides between `fail` and `unknown`. Time-outs, lost connections and NOT_LEADER_OR_FOLLOWER are unknown.
- A topic that is deleted and created anew must get another name in the history, for example with its topic id.
- All commits of a group must be in the history, also automatic ones. Deletion and expiry of groups are not modelled.
  A commit of a lower offset that is lost is not reported.
- Every rebalance, assignment and seek of a consumer must be in the history. A reset need not be: a consumer whose
  position one leader has deleted is sent to the log start of the next leader, which may not have deleted as much, in
  Apache Kafka too.
- The final readings are to be of all partitions of a topic. The metadata of one broker may lack some: a broker that was
  cut off from the controller answers from what it knew until it has caught up, in Apache Kafka too.
- A `ReadAll` counts as final: it belongs after the healing, when open transactions have ended or timed out.
- A log start offset excuses missing records also before it was observed. If retention deletes records, the history
  must contain a reading of the log start offset afterwards (`LogStart` or `ReadAll`).
- A `DeleteRecords` with offset -1 excuses every record of its partition: record the offset that the broker returned.
- Polls are not judged by the log start offset: what a consumer was sent before a deletion it may return later. A log
  start offset that goes back is not reported: after a crash it is that of the last checkpoint, in Apache Kafka too.
- With unclean leader election records may be lost, and read and then lost; its topics are not to be in the history.
- In compacted topics any write that may be later excuses a missing record, unless two final readings follow each other:
  then the later one must have a later record of the key, or there is a tombstone that may have gone. With one reading
  the last record of a key is required only if all its other records have known offsets. A tombstone is required only
  if its topic is in `keeping`.
- A replica that was away for longer than delete.retention.ms may miss a tombstone, in Apache Kafka too, so that the
  deleted value returns when it leads. `forgetting` names the topics where that cannot have happened.
- Without idempotence duplicates are not reported. Without acks=all an acknowledgement proves nothing until it is read.
- An idempotent producer's record of unknown outcome may be behind later ones, as the producer may have got a new id.
- Not checked: write cycles between transactions (G0), which Kafka allows; read cycles between transactions (G1c); that
  the offsets and the records of one transaction become visible together; the lag of consumers; who owns a partition.
"""
