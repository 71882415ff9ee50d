"""Stories about nodes whose disks have faults."""

from __future__ import annotations

from simulation.story import Story


def test_a_directory_that_fails_unnoticed_is_told_of_by_describe_log_dirs() -> None:
    story = Story({"log.dirs": "/data/a,/data/b"}, nodes=3)
    story.start()
    story.create("t", [1, 2, 3])
    directories = story.node(1).parts.log_directories()
    assert [one.failed for one in directories] == [False, False]
    assert all(one.usable_bytes > 0 for one in directories)
    story.hosts[1].disk.fail_directory("/data/b")
    found = [(one.path, one.failed, one.total_bytes > 0) for one in story.node(1).parts.log_directories()]
    assert found == [("/data/a", False, True), ("/data/b", True, False)]
    story.end()
