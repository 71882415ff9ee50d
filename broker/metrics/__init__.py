"""Metrics of a node over HTTP: `/metrics` for Prometheus, `/healthz` and `/readyz` for tools that start and stop nodes.

`docs/metrics.md` lists each metric; a test compares. `metrics.listener=http://127.0.0.1:9404` turns metrics on. A
scrape reads the present state of the node's parts. These parts do not know of metrics, and keep counters only of events
that leave no trace in their state. The times of requests are measured by their connections, and only if metrics are
served (`connections/request_times.py`).

    GET /metrics ─► http_server.py ─► endpoints.py ─► exposition.py ─► a collector for each part of the node
                                                          │                └─ yields families; None lets others run
                                                          └─ formats some hundred samples, lets others run, goes on

    family.py               a metric with its samples, read one after the other; the type of a collector
    exposition.py           the text of all families, in steps
    http_server.py          a small HTTP/1.1 server: GET and HEAD, one request a connection
    basic_login.py          the user and password of `/metrics`
    endpoints.py            the three pages
    refused_scrapes.py      the log of who was refused
    replica_metrics.py      partitions, logs, followers, data directories
    cluster_metrics.py      the controller, the metadata log, the cluster as this node knows it
    elections.py            counts the elections of leaders that the active controller decided
    request_metrics.py      connections, requests and their times, appends to topics and reads
    authentication_metrics.py  logins at listeners with SASL
    coordinator_metrics.py  groups, committed offsets and their lag, transactions
    client_metrics.py       the metrics that clients push
    process_metrics.py      CPU, memory, garbage collections, steps of the event loop

Names and labels are those of Kafka's metrics behind the Prometheus JMX exporter with `lowercaseOutputName`, so that
dashboards for Kafka work; `docs/metrics.md` lists them. The names of metrics that Kafka does not have begin with
`minikafka_`.

With `https://` the listener has TLS, by the same settings as a listener of Kafka's protocol that is called `metrics`.

*Caveats*: there is one user, and the password of a listener without TLS can be read on the way. The families of one
scrape are not of one moment: other tasks run in between. Kafka's rates (`OneMinuteRate`) are missing: Prometheus
computes rates from counters. Each of several requests that are received together counts with their mean time. Quantiles
are those of the last thousand turns of each API and version, while Kafka's are those of five minutes.
"""
