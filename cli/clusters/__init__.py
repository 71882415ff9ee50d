"""Local clusters on disk: their nodes, ports, settings, files and processes, below `LocalCluster` and its commands.

    cluster_layout.py     nodes, ports and settings of a local cluster (pure)
    supervisor_lock.py    the lock of the command that runs a cluster
    node_process.py       finds the process of a node, and sends signals to no other process
    cluster_arguments.py  checks the arguments of LocalCluster
    secure_files.py       certificates, users and client.properties of a secured cluster
    node_files.py         writes server.properties of a cluster's nodes, and can undo its changes
"""
