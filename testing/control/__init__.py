"""What can be asked of the process of a cluster for tests, over HTTP with JSON.

    verbs.py          the verbs, with the checks of their arguments
    routing.py        which request is which verb
    openapi.py        the same for programs
    http_server.py    serves the verbs
    http_client.py    asks the server, for `KafkaCluster`
    local_control.py  the same for nodes in the process of the test
"""
