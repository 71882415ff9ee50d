"""The process of a node: creates its parts, starts them in order, and stops them in order.

`minikafka server` calls `main.run`, which reads the settings and makes a `Node` with a `System` (clock, disk,
randomness, network). No other file obtains these from the machine, so that a simulation can run whole clusters.

    main.py                 settings from file, environment and command line; signals; `ready HOST:PORT`
    cluster_id.py           gives new data directories the cluster id that the operator has chosen
    system.py               everything that a node uses of the machine that it runs on, in one object
    descriptors.py          the limit of file descriptors, divided between files and connections
    allocator.py            makes the C library return the memory of large buffers to the system
    logging_setup.py        structlog on standard error, with a level that can change while the node runs
    log_writer.py           a thread that writes the log, so that a stopped reader of the log holds up no other task
    step_watch.py           finds and logs the long steps of tasks
    stack_sampler.py        a thread that samples the stack of the event loop during a long step
    stuck_loop.py           ends a process whose event loop is stuck when it is told to stop
    node.py                 a node that serves clients: the order of start and stop
    broker_parts.py         creates and connects the parts of that node; the services of handlers
    full_disk.py            recognizes and describes the errors of a full disk
    start_errors.py         explains why a node cannot start, in terms of its settings
    directory_kinds.py      whether a directory belongs to a cluster, to one of its nodes, or to a single node
    holders.py              finds the process that holds a port or a lock
    start_log.py            the log events of a node's start and stop
    format.py               formats data directories before the first start
    controller_node.py      a controller-only node
    controller_listener.py  serves tools at the controller listener
    controller_security.py  who may reach a controller, and as whom
    controller_factory.py   the controller of a node: standalone, or part of a quorum
    runtime_settings.py     settings that change while the node runs
    registration.py         broker registration, heartbeats, controlled shutdown
    directory_reports.py    tells the controller of failed data directories, and of the directory of each replica
    metrics_parts.py        the metrics of the node, and the listener that serves them

*Caveats*: a change of `process.roles` needs a restart, as in Kafka. There is one logger, `root`. Some steps of tasks
may take longer than the budget of 20 ms: `docs/operations/limits.md` lists them with their bounds, and what bounds the
memory of a node.
"""
