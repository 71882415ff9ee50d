"""The admin client: one class, `Admin`, in five files, each a base class of the next.

The path of a call: a method of `Admin` builds a request, sends it through `Cluster.retry` to any broker, to a
partition's leader or to a group's coordinator, and turns the response into the dataclasses of `admin_types.py`. Errors
are raised by methods for one resource and returned as values by methods for several.

    admin.py              `Admin`: topics, configs, records, offsets, the cluster
    admin_cluster.py      `ClusterAdmin`: API versions, features, client quotas
    admin_transactions.py `TransactionAdmin`: transactions, producers, transactions that hang
    admin_replicas.py     `ReplicaAdmin`: elections, reassignments, the quorum, unregistering brokers
    admin_groups.py       `GroupAdmin`: groups and their committed offsets
    item_errors.py        retries of what a response names as failed, without the rest
    admin_types.py        the dataclasses passed to and returned by these methods

Caveats:
    * No ACLs, users, delegation tokens, and fencing of producers.
"""
