"""The cluster's memory and judgement: what there is, who keeps it, and whether a change is allowed.

The idea: a request becomes a *decision*, a pure function of what the cluster knows and what is asked; a decision is
a list of *records* and a reply; records go into the metadata log; and only `image.apply(record)` changes what the
cluster knows, live, after a restart and on a follower alike.

The life of a CreateTopics::

    broker/apis/forwarded.py      await controller.handle(request, version)
    controller.py                 one queue, one task: takes what waits
    decisions/create_topics.py    decide(image, request, context) -> Decision([TopicRecord, …], response)
    metadata_log.py               append: a batch for each decision, all that wait in one write
                                  commit: on the device (with several voters: on a majority)
    image.py                      apply each record
    (subscribers)                 the broker opens the logs of its new partitions
    controller.py                 the reply goes out: the topic can be used

Who has a question instead of a change (`DESCRIPTIONS` in `decisions/routing.py`, `describe_configs.py`) reads the
image and waits for nobody.

The rooms in it::

    records.py       the facts, as msgpack maps; an unknown kind or version is refused
    image.py         the cluster as the facts tell it
    snapshots.py     an image as facts again, and as a file
    metadata_log.py  the seam: MetadataLog (append, commit) and the quorum of one voter
    controller.py    the one task; starting, registering, snapshots
    formatting.py    whose the data directories are; there is no format step
    decisions/       one module for each kind of request, all pure; routing.py is their table
    placement.py     where replicas go
    static.py        what a node was started with
    in_force.py      which value of a setting counts, and describe_configs.py, which tells it

The data on disk::

    <metadata.log.dir>/__cluster_metadata-0/
    ├── 00000000000000000000.log …                       a `storage.Log`; each record is a msgpack map
    ├── 00000000000000000123-0000000002.checkpoint       an image: all below offset 123, of term 2
    └── .lock                                            held by the process that decides

Caveats:

- A quorum of one voter. `MetadataLog` is all that a Raft quorum (`raft/`) will have to replace; the term
  (`leader_epoch`) grows with each start that writes.
- Brokers are fenced and unfenced by records, but nobody sends heartbeats yet: the one broker registers alive.
- A reassignment that needs new replicas begins (and can be cancelled), but ends only once in-sync replicas are
  reported, which comes with replication.
- Quotas and SCRAM credentials are kept and told; nobody obeys them yet.
- Metadata of Apache Kafka itself is not read: a data directory that Kafka has used is refused.
- The names and bounds of settings are Kafka's; policies, config providers and other Java classes are not loaded.
"""
