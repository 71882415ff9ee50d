"""The process of a node: creates its parts, starts them in order, and stops them in order.

`minikafka server` calls `main.run`, which reads the settings and makes a `Node` with a `System` (clock, disk,
randomness, network). No other file obtains them from the machine, so that a simulation can run whole clusters.

    main.py                 settings from file, environment and command line; signals; `ready HOST:PORT`
    system.py               everything that a node uses of the machine that it runs on, in one object
    descriptors.py          how many descriptors there are for files and for clients
    allocator.py            the C library returns large buffers to the system
    logging_setup.py        structlog on standard error, with a level that can change while the node runs
    log_writer.py           a thread that writes the log, so that a reader that does not read holds up nobody
    node.py                 a node that serves clients: the order of start and stop
    broker_parts.py         creates and connects its parts; the services of handlers
    full_disk.py            the words for a disk without room
    start_errors.py         why a node cannot start, in the words of its settings
    directory_kinds.py      whose a directory is: of a cluster, of one of its nodes, or of a single node
    holders.py              which process has a port or a lock
    start_log.py            what a node says of itself when it starts and stops
    format.py               formats data directories before the first start
    controller_node.py      a controller-only node
    controller_listener.py  serves tools at the controller listener
    controller_factory.py   the controller of a node: standalone, or part of a quorum
    runtime_settings.py     settings that change while the node runs
    registration.py         broker registration, heartbeats, controlled shutdown
    directory_reports.py    tells the controller of failed data directories, and where the replicas are
    producer_ids.py         producer ids, from blocks that the controller allocates
    metrics_parts.py        which metrics the node has, and the listener that serves them

*Caveats*: a change of `process.roles` needs a restart, as in Kafka. There is one logger, `root`. Some steps of tasks
may take longer than the budget of 20 ms: `docs/operations/limits.md` lists them with their bounds, and what bounds the
memory of a node.
"""
