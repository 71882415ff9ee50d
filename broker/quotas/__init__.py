"""Client quotas of a broker: what requests and connections use, and how long clients above their quota are throttled.

    client_quotas.py      the quotas of requests: which requests are counted, and what counts
    rate_quota.py         one quota: its limits, and what clients have used
    connection_rates.py   the rates at which connections are accepted
    request_meter.py      counts one request, and computes its throttle time

The life of a request that is counted: the dispatcher asks `ClientQuotas.meter` for a meter. A Fetch is cut to what the
consumer may fetch at all, and is answered empty if the consumer is above its quota. At the end `RequestMeter.throttle`
returns the throttle time: the response has it, and the connection is then muted for so long (KIP-219). Only requests
that a quota of the metadata may concern are counted; all others do not notice quotas.

The parts that know neither requests nor connections are in `controller/quotas/`, since the controller has a quota too.

*Caveats*: the time of a request is that of decoding it, also in a thread, and of the steps of its handler, without the
waits between them; encoding and sending the response are not counted, which in Kafka are the network threads' part.
"""
