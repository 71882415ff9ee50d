"""The nodes of a cluster for tests, in one process.

    nodes.py           `Nodes`: starts, resets, kills, pauses
    node_thread.py     the thread and event loop of one node, which outlive the node
    node_disk.py       its disk, in memory
    node_settings.py   its settings, and free ports
    clock.py           the time of all nodes
"""
