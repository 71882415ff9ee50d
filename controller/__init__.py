"""The cluster's memory and judgement: what there is, who keeps it, and whether a change is allowed.

The idea: a request becomes a *decision*, a pure function of what the cluster knows and what is asked; a decision is
a list of *records* and a reply; records go into the metadata log; and only `image.apply(record)` changes what the
cluster knows, live, after a restart and on a follower alike.

The life of a CreateTopics::

    broker/apis/forwarded.py      await controller.handle(request, version)
    controller.py                 one queue, one task: takes what waits
    decisions/create_topics.py    decide(image, request, context) -> Decision([TopicRecord, …], response)
    metadata_log.py               append: a batch for each decision, all that wait in one write
                                  commit: on the device
    image.py                      apply each record
    (subscribers)                 the broker opens the logs of its new partitions
    controller.py                 the reply goes out: the topic can be used

Who has a question instead of a change (`DESCRIPTIONS` in `decisions/routing.py`, `describe_configs.py`) reads the
image and waits for nobody.

In a cluster every node has a `QuorumController` with the same face. It follows the quorum of the metadata log (Raft in
pull form: whoever is behind fetches) and hands what is to be decided to the *active controller*, where the leader is::

    cluster.py              handle: hand_on.py says what this node answers itself; the rest goes to the leader
    forwarding.py link.py   a frame: API key, version, the request in Kafka's own encoding
    active.py term.py       on the leader: decide against an image that runs ahead, append to Raft
    raft/ quorum.py         synced by a majority: committed, on the leader first, by the next Fetch everywhere
    applying.py             every node: apply each record, tell the subscribers, move on
    cluster.py              the reply, as soon as this node's own image has what was decided

The rooms in it::

    records.py       the facts, as msgpack maps; an unknown kind or version is refused
    image.py         the cluster as the facts tell it
    snapshots.py     an image as facts again, as bytes; snapshot_files.py keeps the newest
    inbox.py         who waits for a decision: a queue, decided many at a time
    controller.py    a node alone: one task decides, appends, commits, applies, replies
    metadata_log.py  its log: what is on the one disk is committed
    cluster.py       a node of several: the same face; starts what follows
    active.py term.py sessions.py           the active controller: its queue, its timers, who was heard of when
    applying.py progress.py                 what is committed becomes the image; who waits for that
    raft/ raft_log.py quorum.py             the quorum: pure core, its log and election state, its driver
    peers.py link.py frames.py network.py   connections between nodes: hello, questions, answers
    forwarding.py quorum_settings.py quorum_description.py   small print of the above
    formatting.py    whose the data directories are; there is no format step
    decisions/       one module for each kind of request, all pure; routing.py is their table
    placement.py     where replicas go
    static.py        what a node was started with
    in_force.py      which value of a setting counts, and describe_configs.py, which tells it

The data on disk::

    <metadata.log.dir>/__cluster_metadata-0/
    ├── 00000000000000000000.log …                       a `storage.Log`; each record is a msgpack map
    ├── 00000000000000000123-0000000002.checkpoint       an image: all below offset 123, of term 2
    ├── quorum-state                                     epoch and vote; absent where the node is alone
    └── .lock                                            held by the process that uses it

Caveats:

- The voters of a quorum are fixed: those of `controller.quorum.voters`, or the controllers found at
  `controller.quorum.bootstrap.servers`. Of the latter, nodes that all start again at once need all of them to be there;
  adding and removing voters (KIP-853) is missing.
- A voter whose disk was wiped may vote again, as in Kafka with fixed voters: wipe one at a time, and never a majority.
- A decision that was under way when its leader went may have been carried out or not. It is repeated where that is the
  same as once. UnregisterBroker is answered NOT_CONTROLLER instead; of CreateTopics, CreatePartitions and DeleteTopics,
  whose answers have no room for that, the connection is closed: who sends it again may meet what it has done itself
  (TOPIC_ALREADY_EXISTS).
- The controller listener is for nodes of minikafka: it speaks msgpack frames, in the clear, to whoever says hello.
- Quotas and SCRAM credentials are kept and told; nobody obeys them yet.
- Metadata of Apache Kafka itself is not read: a data directory that Kafka has used is refused.
- The names and bounds of settings are Kafka's; policies, config providers and other Java classes are not loaded.
"""
