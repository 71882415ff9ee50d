"""Simulations on virtual time: whole clusters under faults (`docs/simulation.md`), and Raft alone. A seed decides all.

Whole clusters. `seeds.py` draws a schedule from each seed (`schedule.py`), runs it (`trial.py`, `scenario.py`) in a
`world/`, with `faults/` and the workload of `chaos.workload`, and judges it: the checker of
histories, and `invariants.py`.

- `world/`: virtual time, machines, network, disks, the nodes and clients of a cluster.
- `faults/`: what may happen, and what a cluster must survive.
- `schedule.py`: what a seed draws; `stored.py`: schedules as text; `failed/`: those that once failed.
- `scenario.py`: a run: start, work under faults, healing, final reading, judgement.
- `invariants.py`: what must hold once the cluster is at rest; `metadata_checks.py` (the metadata log) and
  `partition_checks.py` (leaders and in-sync replicas): what must hold all the time.
- `trial.py`: runs a schedule, or many seeds; `tally.py`: their results together; `seeds.py`: the command line.
- `shrinking.py`: a smaller schedule with the same failure; `report.py`: what a person reads about it.
- `branches.py`: which code the seeds reach; `steps.py`: which steps of nodes use the processor for too long.
- `story.py`: a small cluster for tests that prescribe each step: `test_*_stories.py`, `test_published_bugs.py`.
- `stepwise.py`: a transactional producer that a story leads step by step.
- `disk_operations.py`: helpers of the disk's tests.

Raft alone, with the state machine of `controller.raft`: `raft.py` (the command line and the faults), `raft_world.py`,
`raft_log.py`, `raft_checks.py` (invariants), `raft_script.py` (a language for tests).
"""
