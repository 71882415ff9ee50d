"""The admin client: one class, `Admin`, whose methods are functions of eight files, one for each subject.

The path of a call: a method of `Admin` builds a request, sends it through `Cluster.retry` to any broker, to a
partition's leader or to a group's coordinator, and turns the response into the dataclasses of `admin_types.py`. Errors
are raised by methods for one resource and returned as values by methods for several.

    admin.py              `Admin`: the table of its methods
    admin_topics.py       create, delete, list and describe topics, add partitions
    admin_configs.py      describe and alter configs
    admin_records.py      delete records, find offsets by time
    admin_groups.py       groups and their committed offsets
    admin_transactions.py transactions, producers, transactions that hang
    admin_replicas.py     elections, reassignments, the quorum, unregistering brokers
    admin_cluster.py      brokers, log directories, API versions, features, client quotas
    admin_security.py     ACLs, SCRAM credentials, delegation tokens
    admin_requests.py     sends one request, retries, and raises or returns the errors of the response
    item_errors.py        retries of what a response names as failed, without the rest
    admin_types.py        the dataclasses passed to and returned by these methods
    security_types.py     those of ACLs and delegation tokens

Caveats:
    * No fencing of producers.
"""
