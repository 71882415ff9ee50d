"""What can be asked of the process of a cluster for tests, over HTTP with JSON.

    verbs.py         the verbs, with the checks of their arguments
    http_server.py   which request is which verb
    http_client.py   asks the server, for `KafkaCluster`
"""
