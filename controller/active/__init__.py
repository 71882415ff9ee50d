"""The active controller: the one node whose decisions change the cluster's metadata, the leader of the quorum.

A request reaches it through `QuorumController` (`controller/quorum_controller.py`), on the leader's own node directly,
from other nodes over a peer connection. It is decided against an image that runs ahead of the committed one; the
records go to Raft; once they are committed and applied on this node the reply is returned.

The path of a request::

    forwarded_requests.py   decodes a request that another node forwarded, and encodes the response
    active_controller.py    handle: a heartbeat counts as contact at once; all requests are queued
    request_queue.py        takes many queued requests at a time, calls decisions/ for each, encodes its batch
    leadership_term.py      appends the batches, keeps the pending decisions
    (raft, applier)         committed by a majority, applied to this node's image: `LeadershipTerm.applied`
    active_controller.py    updates the broker sessions; after CreateTopics waits for the live brokers

The files:

- `active_controller.py`: handles requests; timers that fence brokers and balance leaders.
- `leadership_term.py`: one term: queue, image ahead of the committed one, pending decisions, the end of the term.
- `request_queue.py`: the queue of decisions.
- `request_routing.py`: passes changes of the voters and of kraft.version to the quorum, and all else to the queue.
- `forwarded_requests.py`: answers forwarded requests; their encoding and that of responses; which may be retried.

Caveats:

- Broker sessions are not replicated: after a change of the active controller every broker has a full session again.
- The outcome of a decision that was pending when the term ended is unknown (`TermEnded.certain`).
"""
