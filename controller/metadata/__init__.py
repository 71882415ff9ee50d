"""The cluster metadata: records, the image that results from them, its snapshots, and the layout of the metadata log.

Records are facts in the metadata log; the image is the state after all of them. The same records in the same order give
the same image on every node.

The path of a record: a decision returns it (`records.py`), `metadata_log.py` encodes the decision as a batch, the log
commits it, and `Image.apply` (`image.py`) changes the image. From time to time (`snapshot_schedule.py`) the image is
turned into records again (`snapshot_encoding.py`) and written as a file (`snapshot_files.py`), which replaces the log
before its offset.

The files:

- `records.py`: the metadata records and their encoding; unknown kinds and versions are refused.
- `features.py`: the features of a cluster, and which levels of them are supported.
- `acl.py`: a rule of access.
- `image.py`: brokers, topics, partitions, settings, quotas, credentials and ACLs; only `apply` changes them.
- `metadata_log.py`: directory, opening and batches of the metadata log, for both kinds of controller.
- `snapshot_schedule.py`: when a snapshot is due.
- `snapshot_encoding.py`: an image as the bytes of a snapshot, and back to records.
- `snapshot_files.py`: the snapshot files of a directory; keeps the newest two.
- `formatted_levels.py`: the feature levels and users that a directory was formatted with.
- `cluster_ids.py`: reads the cluster id from `meta.properties`, or generates a new one.

*Caveats*

- Record formats are minikafka's own (msgpack), not Kafka's: neither can read the other's metadata.
- There is no downgrade: a record of a newer minikafka stops the node.
"""
