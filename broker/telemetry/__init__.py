"""Client metrics (KIP-714): clients push their metrics to a broker, which shows them on `/metrics`.

    subscriptions.py   which metrics a client is to push, and how often: resources of type client-metrics
    clients.py         the clients that have asked for a subscription; refuses pushes that are early, large or unwanted
    otlp.py            reads OpenTelemetry's protobuf messages, as far as they have metrics
    pushed.py          the latest values of each client

In Kafka, a class that the operator provides receives the pushed metrics; without such a class the APIs are not
advertised. In minikafka, `/metrics` shows the pushed metrics, so the APIs are advertised if `metrics.listener` is set.
Clients then ask for a subscription once in five minutes, even if there is none; the JVM client and librdkafka do so by
themselves.

*Caveats*: of a histogram only the sum and the count are shown. A client's metrics are shown until the client has not
pushed for the longer of five minutes and three intervals. Each broker shows the metrics that were pushed to it. At most
`SAMPLES_MAX` values of `SIZE_BYTES_MAX` bytes together are kept. Decompressed, a push has at most
`telemetry.max.bytes`. Patterns are those of RE2 (`controller/patterns.py`). Patterns of Java that RE2 does not have
are refused with INVALID_CONFIG; if the metadata has such a pattern, it selects no client.
"""
