"""The world of a simulation: machines on virtual time, with a network and disks in memory, in one process.

Each machine, the process of a node or of a client, is a trio run of its own (`machine.py`). The world (`world.py`)
steps the machine that is due next, so that a machine can be paused, or killed between any two awaits. A seed decides
everything: the order of tasks, latencies, what a crash leaves on a disk. The trace has a line for each event, and its
hash is the same in every process.

- `world.py`: virtual time, the heap of what is to happen, the trace.
- `machine.py`: a process; the only file that uses trio's internals.
- `network.py`: hosts, links and connections, and their faults; `sockets.py`: the same behind the seams of the product.
- `disk.py`: a host's disk and its faults; `process_disk.py`: how a process sees it, until it ends.
- `cluster.py`: nodes, started as `broker.node.main` starts them, and clients.
- `log_capture.py`: log events become lines of the trace.

*Caveats*

- Computing takes no virtual time, except a fraction of a millisecond for each step of a machine.
- All monotonic clocks run at the same rate; wall clocks may differ.
- Names are resolved at once, and wrong names are refused at once.
"""
