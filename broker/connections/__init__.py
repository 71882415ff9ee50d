"""Client connections: from an accepted socket to a decoded request, and from a response to bytes.

`Server` starts a `Connection` for each client that a bound listener (`Listening`) accepts. The connection reads frames
from its `Transport` and passes them, one at a time, to the `Dispatcher`. A request passes these steps:

    decode → principal → authorize → handle → throttle → encode → measure

A small request costs less than a switch to the task of its connection does. So one task watches all sockets
(`ReadySockets`) and calls the *turn* of each connection that can be read: it reads, has the frames answered, and sends.
Where a handler can answer without waiting (`begin` in its module, which is no coroutine function), this is the whole
way; the task of the connection goes on with all others. Fetches that wait for records are kept in groups (`LongPolls`).
While no authorizer, quota or request log looks at single requests, the usual Produce is answered from its bytes by a
*shortcut* of the dispatcher (`apis/usual_produce.py`), which has the result of the steps at half their cost.

The handler is found in the routing table. The response is sent, and if the client is over its quota the connection
is then muted for the throttle time (KIP-219). Responses of requests that were read together are sent together, unless
one of them waits: those before it are sent first.

    listening.py            the interface to bound listeners: TCP, or memory in a simulation
    tcp_listening.py        TCP listeners
    server.py               accepts connections, within limits on their number
    idle_connections.py     closes connections after `connections.max.idle.ms`
    connection.py           one connection: frames in, responses out in order, muting
    ready_sockets.py        calls the turns of connections that can be read, in one task
    long_polls.py           groups of equal requests that wait
    before_waiting.py       sends the responses that are ready before a request waits
    transport.py            bytes over a socket, with `sendfile`, or over any trio stream
    dispatcher.py           the steps of a request
    refusals.py             responses with one error for all that a request names
    request_steps.py        principal, authorizer, quotas, observer: Protocols
    request_times.py        how many requests were answered, what they took in parts, and their sizes: for the metrics
    request_log.py          the debug log of completed requests
    request_context.py      a handler's context: connection, principal, services; `Answer`, `Disconnect`
    request_memory.py       the bytes of requests in memory, of all connections together
    large_messages.py       decoding and encoding of large messages in a thread
    at_once.py              results that have to be waited for only sometimes
    pauses.py               pauses of handlers with much to do
    routes.py               the routing table, which is what ApiVersions advertises
    listener_addresses.py   advertised addresses: those that a node registers, and those that clients receive

A connection whose request does not fit into `queued.max.request.bytes` is not read from until it does. A request counts
as in Kafka, from the time when its size is known until it is answered; except for the first MiB of requests that have
not been admitted yet, for requests that were read whole and are answered at once, and for Fetch, JoinGroup and
SyncGroup of up to 1 MiB. A large response is encoded when there is room for it, and counts until it is sent.

*Caveats*: PLAINTEXT only, so every principal is `User:ANONYMOUS`. The authorizer sees whole requests; rights to single
topics and groups will be checked by handlers. No client quotas. One request of a connection is in progress at a time,
as in Kafka.
"""
