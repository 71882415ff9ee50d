"""Faults: which requests of clients fail, how, and how often.

    faulty_handlers.py   stands in front of the handlers of a node
    fault.py             `Fault`, `Selection` of requests, `Action`
    faults.py            the faults in force
    named_things.py      the topics, partitions, groups and transactions that a request names, whatever its API is
    seen_requests.py     the requests that clients have sent
    helper.py            the client id of the library's own clients, whose requests are spared

A response with an error is the one that the broker itself gives where a request fails
(`broker/connections/refusals.py`): the place of the error in the response is that of Kafka.
"""
