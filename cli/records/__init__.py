"""Records as lines of text, and lines as records.

    lines.py       input lines as keys and values
    spread.py      the partitions of lines without keys (pure)
    json_lines.py  input lines in the JSON of `consume --json` (pure)
    template.py    records as lines: --format and --json (pure)
"""
