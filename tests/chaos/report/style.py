"""The style sheet of a report: light, and dark where the reader's system is."""

from __future__ import annotations

STYLE = """
:root {
  color-scheme: light dark;
  --page: #fcfcfb; --text: #1b1b1a; --quiet: #5f5e5a; --rule: #e4e3df; --shade: #f1efe9; --card: #ffffff;
  --good: #1a7f5a; --bad: #c0322b; --unknown: #b7791f; --median: #2a6fc9; --worst: #b04a93;
  --node1: #2a6fc9; --node2: #e07b39; --node3: #3c9d76; --node4: #8a63c9; --node5: #a08a2e;
  --dead: #4a4947; --paused: #8d8c88; --network: #8a4fc0; --disk: #b7791f; --clock: #1787a0; --onband: #ffffff;
}
@media (prefers-color-scheme: dark) {
  :root {
    --page: #191918; --text: #ecebe7; --quiet: #a8a7a1; --rule: #363532; --shade: #25241f; --card: #21211f;
    --good: #4cc38f; --bad: #ff7a70; --unknown: #e5b454; --median: #6ea8f5; --worst: #e08bc6;
    --node1: #6ea8f5; --node2: #f29b62; --node3: #5fc79b; --node4: #b394ee; --node5: #d0bb5e;
    --dead: #d5d4cf; --paused: #87867f; --network: #c49af0; --disk: #e5b454; --clock: #5cc3da; --onband: #191918;
  }
}
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 1240px; padding: 28px 24px 60px; background: var(--page); color: var(--text);
  font: 15px/1.5 system-ui, -apple-system, "Segoe UI", Roboto, sans-serif; }
h1 { font-size: 24px; margin: 0 0 4px; } h2 { font-size: 18px; margin: 38px 0 10px; }
p { margin: 6px 0; max-width: 80ch; } .quiet { color: var(--quiet); }
.verdict { font-weight: 600; } .verdict.good { color: var(--good); } .verdict.bad { color: var(--bad); }
.tiles { display: grid; grid-template-columns: repeat(auto-fit, minmax(128px, 1fr)); gap: 10px; margin: 20px 0 14px; }
.tile { background: var(--card); border: 1px solid var(--rule); border-radius: 8px; padding: 10px 14px; }
.tile b { display: block; font-size: 20px; font-weight: 600; font-variant-numeric: tabular-nums; }
.tile span { color: var(--quiet); font-size: 13px; }
.timeline { display: flex; } .timeline svg { display: block; flex: none; }
.scroll, .wide { overflow-x: auto; } .scroll { flex: 1; border-left: 1px solid var(--rule); }
svg text { font-size: 12px; fill: var(--quiet); } svg .heading { font-size: 13px; font-weight: 600; fill: var(--text); }
svg .name { text-anchor: end; } svg .rule { stroke: var(--rule); } svg .shade { fill: var(--shade); }
svg .good { fill: var(--good); } svg .good.area { opacity: .18; } svg .failed { fill: var(--bad); }
svg .unknown { fill: var(--unknown); } svg .line { fill: none; stroke-width: 1.4; }
svg .good.line { stroke: var(--good); }
svg .median { fill: var(--median); } svg .worst { fill: var(--worst); }
svg .node1 { fill: var(--node1); } svg .node2 { fill: var(--node2); } svg .node3 { fill: var(--node3); }
svg .node4 { fill: var(--node4); } svg .node5 { fill: var(--node5); } svg .none { fill: var(--bad); }
.band rect { fill: var(--network); } .band text { fill: var(--onband); font-size: 11px; }
.dead rect, .stopped rect { fill: var(--dead); } .paused rect { fill: var(--paused); }
.kind { white-space: nowrap; margin-right: 12px; }
.kind i { display: inline-block; width: 10px; height: 10px; margin-right: 5px; }
i.dead { background: var(--dead); } i.paused { background: var(--paused); } i.network { background: var(--network); }
i.disk { background: var(--disk); } i.clock { background: var(--clock); }
.disk-full rect { fill: var(--disk); } .wrong-clock rect { fill: var(--clock); }
table { border-collapse: collapse; font-size: 13px; font-variant-numeric: tabular-nums; }
th, td { padding: 4px 10px; text-align: right; border-bottom: 1px solid var(--rule); white-space: nowrap; }
th { color: var(--quiet); font-weight: 500; } .left { text-align: left; }
details { background: var(--card); border: 1px solid var(--rule); border-radius: 8px; padding: 8px 14px;
  margin: 8px 0; }
summary { cursor: pointer; } summary b { color: var(--bad); }
pre { white-space: pre-wrap; overflow-wrap: anywhere; font-size: 12px; margin: 6px 0; }
"""
