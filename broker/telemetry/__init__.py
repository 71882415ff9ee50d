"""Metrics of clients, which push them to a broker (KIP-714), and the broker shows them on `/metrics`.

    subscriptions.py   which metrics a client is to push, and how often: resources of type client-metrics
    clients.py         the clients that asked: refuses those that push too early, too much, or what nobody asked for
    otlp.py            reads OpenTelemetry's protobuf messages, as far as they have metrics
    pushed.py          the latest values of each client

In Kafka a class of its operator receives what clients push; without one, the APIs are not advertised. Here `/metrics`
receives it, so they are advertised where `metrics.listener` is set. Clients then ask for a subscription once in five
minutes, even if there is none; the JVM client and librdkafka do so by themselves.

*Caveats*: of a histogram only the sum and the count are shown. A client's metrics are shown until it has not pushed for
five minutes or three intervals; each broker shows what was pushed to it. At most `SAMPLES_MAX` values are kept, and
`SIZE_BYTES_MAX`. Decompressed, a push has at most `telemetry.max.bytes`. Patterns are RE2's (`controller/patterns.py`):
those of Java that it does not have are refused with INVALID_CONFIG, and select no client if the metadata has them.
"""
