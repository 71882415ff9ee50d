"""Client quotas: what a client may use, measured as in Kafka. Pure: time is passed in.

    limits.py          which quota holds for a user and a client id, in Kafka's order of precedence
    rates.py           a rate over the last samples, and a token bucket; how long a client above its limit is throttled
    sensors.py         the measurements of clients, bounded in number, forgotten after an hour without use
    changes.py         hands the quotas of the metadata to those who enforce them
    mutations.py       `controller_mutation_rate` (KIP-599), which the active controller enforces

`broker/quotas/` measures requests and connections with these parts. Quotas are metadata (`decisions/client_quotas.py`).

*Caveats*: `client.quota.callback.class` is not supported.
"""
