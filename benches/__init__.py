"""deltaberg beside its peers, in one run: ``make bench``, ``python -m benches --help``."""
