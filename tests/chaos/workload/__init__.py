"""The workload: client programs that use a cluster with our client, and record what they did in a history.

A *program* is an async function of a `ClientProcess`. It runs until it is cancelled or killed, survives every
KafkaError, and lets all other exceptions out, as those are faults of the client. Programs share a `Plan`: the topics
and groups, and the count of what succeeded (`coverage`). `chaos.checker.check` judges the history.

    plan = Plan.of(brokers=3)
    recorder = Recorder(clock)
    first = ClientProcess("first/1", recorder, Random("seed/first"), seams, bootstrap, plan)
    await create_topics(first)
    tasks.start_soon(PROGRAMS["idempotent producer"], first)        # each in a process of its own
    …                                                               # faults, then healing; stop the producers
    await final_reading(ClientProcess("last/1", …), groups=["eager"])
    assert check(recorder.events, compacted=plan.compacted, keeping=plan.compacted) == []

- `plan.py`: the topics and groups of a run, and what the programs share.
- `process.py`: `ClientProcess`: clients with short timeouts, names, recording, pauses.
- `values.py`: the values of records, each of which names its record.
- `producers.py`: programs that produce, with several settings.
- `assigned_consumers.py`, `group_consumers.py`: programs that consume.
- `offset_readers.py`: programs that read offsets, and delete records.
- `administration.py`: a program that changes topics, settings and replicas (`directories.py`, `features.py`);
  `recreation.py`: one that deletes a topic and creates it again.
- `final_reading.py`: demands progress after the faults, and reads everything.
- `replica_logs.py`: reads the log of a replica.
- `programs.py`: all programs by name; `run.py`: all of them at work on a real cluster.
- `threads.py`: programs in threads, for real clusters: `confluent.py` with confluent-kafka, `java.py` and `Agent.java`
  with Kafka's Java client.

*Caveats*

- A topic that is created again is named `name@topic-id` in the history. Only the program that creates it writes to it.
- Committed offsets that are read while a coordinator may be isolated can be stale, in Apache Kafka too. With such
  faults `Plan.committed_offsets_are_fresh` must be False: then they are read for the history at the end only.
- A producer chooses the partition itself, as the history needs it before the record is sent. So the sticky partitioner
  is not used.
- Automatic commits are recorded by replacing a private method of the consumer, which has no public hook.
- Moves of replicas and levels of features use a private method of the admin client, which has no public one for them.
"""
