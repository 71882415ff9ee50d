"""The report of a run: one HTML page without external assets, from the history and the journal. Pure functions.

    page = report_page(RunFacts(title, seed, events, entries, anomalies, ...))

    python -m chaos.report build/chaos          # writes report.html anew from history.jsonl and journal.jsonl

- `run_facts.py`: `RunFacts`: what a report is made of. `figures.py`: what it shows: writes, bands of faults, states of
  partitions, latencies before, during and after each fault.
- `timeline.py`: the picture: faults, acknowledged writes, latencies, leaders and in-sync replicas over one axis.
- `page.py`: the page around it; `style.py`: its style sheet, light and dark.

*Caveats*

- The leader and the in-sync replicas are what brokers said when they were asked, twice a second: shorter changes are
  not seen.
- Latency is that of the workload's clients, which share the machine with the nodes; it includes retries.
"""
