"""The nodes of a cluster for tests, in one process.

    nodes.py           `Nodes`: starts, resets, kills, pauses
    node_thread.py     the thread and event loop of one node, which outlive the node
    node_disk.py       its disk, in memory
    node_faults.py     what happens to whole nodes and to their logs
    links.py           which nodes can connect to which
    guarded_listening.py  a listener that can refuse clients
    node_settings.py   its settings, and free ports
    clock.py           the time of all nodes
"""
