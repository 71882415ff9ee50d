"""Metrics of a node over HTTP: `/metrics` for Prometheus, `/healthz` and `/readyz` for whatever starts and stops nodes.

`metrics.listener=http://127.0.0.1:9404` turns them on. A scrape reads the state that is there: the parts of a node do
not know of metrics, and keep counters only of what leaves no trace in their state. What requests take is measured by
their connections, and only where metrics are served (`connections/request_times.py`).

    GET /metrics ─► http_server.py ─► endpoints.py ─► exposition.py ─► a collector for each part of the node
                                                          │                └─ yields families; None lets others run
                                                          └─ formats some hundred samples, lets others run, goes on

    family.py               a metric with its samples, read one after the other; what a collector is
    exposition.py           the text of all families, in steps
    http_server.py          a small HTTP/1.1 server: GET and HEAD, one request a connection
    endpoints.py            the three pages
    replica_metrics.py      partitions, logs, followers, data directories
    cluster_metrics.py      the controller, the metadata log, the cluster as this node knows it
    elections.py            counts the elections of leaders that the active controller decided
    request_metrics.py      connections, requests and their times, what was appended to topics and read
    coordinator_metrics.py  groups, committed offsets and their lag, transactions
    client_metrics.py       the metrics that clients push
    process_metrics.py      CPU, memory, garbage collections, steps of the event loop

Names and labels are those that Kafka's metrics have behind the Prometheus JMX exporter with `lowercaseOutputName`, so
that its dashboards work; `docs/metrics.md` lists them. What Kafka does not have begins with `minikafka_`.

*Caveats*: the listener has neither TLS nor authentication, as most exporters; it belongs on an address that only the
monitoring reaches. Families of one scrape are not of one moment: other tasks run in between. Kafka's rates
(`OneMinuteRate`) are not there: Prometheus computes them from counters. Of requests that are received together each
counts as their mean, and quantiles are of the last thousand turns of each API and version, Kafka's of five minutes.
"""
