"""The controller: the cluster's metadata (brokers, topics, partitions, settings), and the decisions that change it.

A request becomes a *decision*, a pure function of the metadata image and the request. Its result is a list of *records*
and a reply. The records are appended to the metadata log, and only `Image.apply` changes the image, in the same way
live, after a restart and on a follower.

The life of a CreateTopics::

    broker/apis/forwarded.py            await controller.handle(request, version)
    quorum_controller.py                read-only requests are answered from the image; the rest is forwarded
    decisions/forwarding_rules.py       the part that the node decides itself (its own log levels)
    active/forwarded_requests.py        the request in Kafka's encoding, over a connection of quorum/peers.py
    active/active_controller.py         on the leader: queued in request_queue.py
    decisions/create_topics.py          deciding(image, request, context) -> Decision([TopicRecord, ...], response)
    active/request_queue.py             the records of a decision encoded as one batch
    active/leadership_term.py           the batch appended to Raft
    raft/ quorum/raft_driver.py         synced by a majority: committed
    quorum/metadata_applier.py          on every node: applied to the image, then told to the subscribers of the node
    broker/partitions/partition_lifecycle.py → replica_logs.py → storage/directories/log_manager.py
                                        on a broker, one of the subscribers: creates the logs of its new replicas
    active/active_controller.py         waits until the live brokers have applied it, which they report at once
    quorum_controller.py                the response, once this node's image has the topic

A lone node is a quorum of one: it elects itself at its start, and a record is committed once its own disk has it.

The packages and files:

- `quorum_controller.py`: `QuorumController`, the controller of every node.
- `direct_requests.py`: requests of tools at the controller listener, which no broker has checked and forwarded.
- `active/`: the active controller, on the leader of the quorum: queue, leadership term, broker sessions.
- `decisions/`: one pure module per kind of request; `request_table.py` maps requests to them.
- `metadata/`: records, image, snapshots, and the metadata log on disk.
- `settings/`: static and effective settings, DescribeConfigs, the metadata log's directories.
- `security/`: access by ACLs and the authorizer, the HMACs of delegation tokens.
- `quotas/`: what clients may use, measured: limits, rates, sensors.
- `quorum/`: Raft over disk and network: driver, log, applier, peer connections, handshake.
- `raft/`: Raft in pull form, pure.

They import each other in one direction: raft, metadata, settings, decisions, active; quorum uses the first three.

What the broker uses as well:

- `failures.py`: counts the requests and tasks that failed because of a bug.
- `line_rate.py`: bounds the lines of the log that strangers cause.
- `patterns.py`: regular expressions of clients, matched in bounded time.
- `tls_records.py`: the TLS records that a client or node sends, and the limits of those that only cost time.
- `quorum/listening_sockets.py`: sockets at every address that a listener's host stands for.

The data on disk::

    <metadata.log.dir>/__cluster_metadata-0/
    ├── 00000000000000000000.log …                       a `storage.Log`; each record is a msgpack map
    ├── 00000000000000000123-0000000002.checkpoint       a snapshot: everything below offset 123, leader epoch 2
    ├── quorum-state                                     epoch and vote
    └── .lock                                            held by the process that uses the directory

*Caveats*

- The voters of a quorum are fixed, unless its directories were formatted for dynamic voters (`minikafka storage
  format`) or kraft.version was upgraded to 1. Fixed voters are those of `controller.quorum.voters`, or the controllers
  discovered at `controller.quorum.bootstrap.servers`; if all of the latter start at once, all must be up.
- A node whose settings name no quorum has a fixed voter, itself: kraft.version stays 0.
- UpdateRaftVoter with kraft.version 0 succeeds without effect, where Kafka 4.3 keeps the addresses in memory. In
  minikafka, voters tell their addresses in their handshakes. DescribeCluster at a controller lists all voters, but only
  those other controllers that this node has met since it joined the quorum; in Kafka every controller registers.
- A voter whose disk was wiped may vote again, as in Kafka with fixed voters: wipe one at a time, and never a majority.
- A decision that was pending when its leader lost leadership may have been carried out or not. Idempotent requests are
  retried. UnregisterBroker is answered with NOT_CONTROLLER. The responses of CreateTopics, CreatePartitions and
  DeleteTopics have no error for that, so the connection is closed; a client that retries may get TOPIC_ALREADY_EXISTS
  because of its own first attempt.
- The controller listener serves Kafka's tools (`--bootstrap-controller`) and minikafka's nodes, which speak msgpack
  frames there. Its protocol is PLAINTEXT, SSL, SASL_PLAINTEXT or SASL_SSL. Kafka's own controllers and brokers cannot
  join the quorum.
- Metadata written by Apache Kafka is not read: a data directory that Kafka has used is refused.
- The names and bounds of settings are Kafka's; policies, config providers and other Java classes are not loaded.
"""
