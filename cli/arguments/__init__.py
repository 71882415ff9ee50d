"""Arguments of commands: the options that they share, and how their values are parsed.

    options.py     options and checks that commands share
    contexts.py    the file of contexts
    cluster_choice.py  the cluster that a command asks, and the file with which it logs in
    json_files.py  reads JSON files that people write, such as plans
    times.py       points in time in options (pure)
    numbers.py     whole numbers in options and arguments
"""
