"""Decisions: image and request in, records and reply out. Nothing here changes anything or waits for anything.

Each module is named after its request and has a `decide(image, request, context) -> Decision`; requests that only
ask have a `describe`. Checks stand in Apache Kafka's order, since that order decides which error is told, and error
messages are Kafka's own words. `routing.py` says which module decides what.

What brokers ask of the active controller: `broker_registration.py`, `broker_heartbeat.py`, `alter_partition.py`,
`allocate_producer_ids.py`. Where a cluster starts: `first_records.py`, `lone_broker.py`. What it sees to by itself
when a timer says so: `fencing.py`, `balancing.py`. How a partition changes, whoever is the cause, stands in
`partition_changes.py` alone. `hand_on.py` is for a node that is not the active controller: it decides about its own
loggers and hands on the rest.

Caveats:

- Eligible leader replicas (KIP-966) are always on. One is elected only where nobody in sync can lead: it would be the
  only one in sync from then on.
- There is no leader recovery state: after an unclean election the leader is taken to have recovered.
- Failed log directories are not told to the controller; a broker that loses one goes.
- A decision that would need more than 10,000 records is cut where it can go on when asked again (fencing, heartbeats,
  registrations), and refused whole where somebody asked for it.
"""
