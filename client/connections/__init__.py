"""A client's connections to a cluster: sockets, requests and responses, metadata, retries.

Clients and their background tasks send requests through `Cluster`, which caches the brokers and keeps one connection to
each. Fetch and group requests, which brokers may delay, use separate connections (`purpose`).

The path of a request: `Cluster.request` picks or opens the `Connection`; `post` encodes the request and writes it to
the stream, whose socket sends it at once. The socket passes each received frame to `Connection.on_frame`, which decodes
it and calls the callback of the oldest request in flight. `Cluster.retry` repeats an attempt after retriable errors,
with backoff; a background task closes connections whose requests have timed out and refreshes metadata.

    base_client.py         `ClusterClient`, the base class of Producer, Consumer and Admin
    cluster_client.py      `Cluster`
    bootstrap.py           where to find the cluster first, and again (KIP-899, KIP-1102)
    cluster_metadata.py    the cached brokers, topics, partitions and leaders
    connection.py          one connection: correlation ids, requests in flight, deadlines; how it is opened
    endpoints.py           how brokers or controllers are asked for the nodes of the cluster (pure)
    broker_offer.py        the API versions and features of a broker
    logins.py              logs connections in by SASL, and renews their sessions
    without_login.py       tells a client without a login that the listener expects one
    stream.py              the interfaces between a connection and its socket
    tls_stream.py          TLS between a connection and its socket
    asyncio_socket.py      the socket under asyncio
    trio_socket.py         the socket under trio
    seams.py               clock, randomness and network, replaceable in tests
    retry_backoff.py       exponential backoff of retries and reconnections
    waits.py               what a client waits for; long waits are logged
    broker_troubles.py     the brokers that cannot be reached or do not answer
    stalled_requests.py    detects connections to brokers that do not respond
    traffic.py             counts connections, requests and bytes, for metrics
    stream_tasks.py        the sockets' background tasks, which outlive a cancelled client

A new connection of a secured client first shakes hands by TLS, then asks for API versions, then logs in by SASL. An
error of these steps is an AuthenticationError, which is not retried.

The broker's replica fetchers use `Connection` and `retry_backoff.py` as well.

Caveats:
    * TLS is encrypted and decrypted on the event loop, as by asyncio itself.
    * A broker that offers SaslHandshake v0 only (before Kafka 1.0) is not supported.
    * A request that times out closes its connection, so other requests in flight there fail as well and are retried.
"""
