"""Client connections: from an accepted socket to a decoded request, and from a response to bytes.

`Server` starts a `Connection` for each client that a bound listener (`Listening`) accepts. The connection moves bytes
between its `Transport` and its `Exchange`, which needs no socket: it cuts them into frames, passes these, one at a
time, to the `Dispatcher`, and says what is to be done next. A request passes these steps:

    decode → handle → throttle → encode → measure

A handler asks what the client may do, by `RequestContext.access`, or for topics by `AllowedTopics`
(`apis/authorization.py`), which asks the authorizer once for each topic: Kafka's checks differ for each API.

To answer a small request costs less than to switch to the task of its connection. So one task watches all sockets
(`ReadySockets`) and calls the *turn* of each connection that can be read: the turn reads the bytes that have arrived,
has the frames answered, and sends the responses. A handler is one coroutine function, which begins within the turn
(`storage/waits.py`): if it does not have to wait, the request is answered there, otherwise the task of the connection
awaits the rest. Fetches that wait for records are kept in groups (`LongPolls`). While no quota or request log looks at
the requests of an API, a *shortcut* of the dispatcher answers the usual Produce (`apis/usual_produce.py`): a cache of
what surrounds the batch, with the same result as the steps at half their cost.

The handler is found in the routing table. The response is sent, and if the client is over its quota the connection
is then muted for the throttle time (KIP-219). Responses to requests that were read together are sent together. If one
of the requests waits, the responses to the requests before it are sent first.

    listening.py            the interface to bound listeners: TCP, or memory in a simulation
    tcp_listening.py        TCP listeners
    server.py               accepts connections, within limits on their number
    idle_connections.py     closes connections after `connections.max.idle.ms`
    connection.py           one connection: does what the states of its exchange ask for
    exchange.py             the states of a connection, and their table: bytes in, responses out in order; no socket
    activity.py             when bytes moved on a connection, and whether its client is too slow
    ready_sockets.py        calls the turns of connections that can be read, in one task
    long_polls.py           groups of equal requests that wait until partitions have grown
    socket_moves.py         calls of a socket in steps, for the transports over sockets
    transport.py            bytes over a socket, with `sendfile`, or over any trio stream
    tls_socket.py           a socket with TLS that never waits, and gives OpenSSL few records at a time
    tls_transport.py        TLS over a socket: the handshake, then bytes in the same turns
    dispatcher.py           the steps of a request
    refusals.py             responses to requests that fail as a whole: one error for every item of the request
    request_steps.py        quotas and observer: Protocols
    request_times.py        counts, sizes and times (queue, local, remote, send) of answered requests, for the metrics
    stopwatch.py            measures the requests of one connection
    request_log.py          the debug log of completed requests
    request_context.py      a handler's context: connection, access, services; `Answer`, `Disconnect`
    request_memory.py       one count of bytes in memory, with a limit
    large_messages.py       decoding and encoding of large messages in a thread, and the pools of memory for them
    routes.py               the routing table, which is what ApiVersions advertises
    listener_addresses.py   advertised addresses: those that a node registers, and those that clients receive

A connection whose request does not fit into `queued.max.request.bytes` is not read from until the request fits. A
request counts once its first MiB has arrived, then with its whole size, and until it is answered; one that waits for
members of a group until it is decoded. Requests of up to 1 MiB do not count: who sends a few bytes, or nothing but
them, keeps nobody waiting. A large response is encoded when there is room for it, and counts until it is sent. Who
moves such a message slowly while others wait is disconnected.

*Caveats*: On a PLAINTEXT listener every principal is `User:ANONYMOUS`. One request of a connection is in progress at a
time, as in Kafka.
"""
