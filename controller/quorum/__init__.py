"""The quorum on disk and network: runs Raft (`controller/raft/`), applies committed records, and connects the nodes.

Raft is a pure state machine; this package connects it to a disk, a clock and peers, and applies the committed log to
this node's image.

The path of a Raft request::

    raft_driver.py        Raft returns SendRequest; the driver sends it after all earlier Persist and Sync effects
    peers.py              opens a connection to the node, unless there is one
    handshake.py          both nodes exchange node id, cluster id and voters
    peer_connection.py    sends the request as a frame (peer_frames.py), matches the response
    raft_driver.py        passes the response to Raft, which may move the high watermark
    metadata_applier.py   applies the newly committed batches to the image, advances applied_offset.py

The files:

- `raft_driver.py`: carries out Raft's effects in order, runs its timer, passes messages in and out.
- `raft_log.py`: `StoredRaftLog`, the metadata log and the election state on disk.
- `metadata_applier.py`: committed batches to the image and to subscribers; writes snapshots.
- `bootstrap_checkpoint.py`: the first voters of a dynamic quorum, as `format` writes them.
- `applied_offset.py`: the applied offset, and the tasks that wait until it reaches an offset.
- `peers.py`: which node connects to which; backoff; discovery of the voters.
- `handshake.py`: the first frames of a connection, and the reasons to refuse a node.
- `peer_connection.py`: requests and responses on one connection.
- `peer_frames.py`: the frame format, and reading frames from a stream.
- `frame_items.py`: what a frame may take in memory, counted before it is decoded.
- `peer_network.py`: opening connections and listeners; TCP, or memory in tests.
- `tls_network.py`: the same with TLS.
- `node_logins.py`: logins by SASL before the handshake, and again before a session ends.
- `handshake_log.py`: logs handshakes that failed or were refused, at a bounded rate.
- `strangers.py`: bounds accepted connections whose node has not logged in or shaken hands.
- `listening_sockets.py`: sockets at every address that a listener's host stands for, for brokers too.
- `raft_events.py`: the log events of Raft that would repeat several times a second.
- `quorum_settings.py`: `controller.quorum.*`, parsed.
- `quorum_description.py`, `describe_quorum.py`: the leader's view of its replicas, for DescribeQuorum.
- `membership.py`: this node among the voters of a dynamic quorum; finds the addresses of the others.
- `learned_addresses.py`: addresses of nodes, learned from handshakes.
- `voter_requests.py`: AddRaftVoter, RemoveRaftVoter, UpdateRaftVoter and the upgrade of kraft.version, at the leader.
- `cluster_identity.py`: the cluster id of this node.

A connection that begins with a request of Kafka's protocol comes from a tool, not from a node: `peers.py` hands it to
the node's `ControllerListener` (`broker/node/controller_listener.py`).

*Caveats*

- Frames are neither encrypted nor authenticated, unless the listener has TLS or SASL.
- Dynamic voters (KIP-853) need directory ids in `meta.properties`: a controller whose directory has no id follows as an
  observer, and cannot be added. A node names its directory only once its log says that the quorum is dynamic.
- The upgrade to kraft.version 1 needs all voters to answer at that moment; Kafka remembers what the voters have
  reported before.
- A node that has learned that kraft.version is 1 stores this in `quorum-state` with its next epoch or vote. Before
  that, a start without a quorum (no `controller.quorum.voters`, no bootstrap servers) does not recognize that the
  directory is of a dynamic quorum.
- If most voters come back at other addresses at the same time, `controller.quorum.bootstrap.servers` must name some of
  them. If a single voter is left and has moved, the setting must name this voter: until then no other node finds the
  leader after a start, as in Kafka.
- A node that hangs without closing its connections is detected by timeouts only.
"""
