"""Output of commands: results as tables or JSON, errors, progress, and a terminal that is redrawn or goes away.

    keys.py              the key q, which ends a command that redraws the terminal
    redraw.py            lines that are redrawn in place
    output.py            tables or JSON, and words that commands share
    failures.py          errors as text or JSON: codes and messages
    tables.py            aligned tables (pure)
    progress.py          progress on a terminal
    standard_streams.py  standard streams that were closed, or whose reader or terminal is gone
"""
