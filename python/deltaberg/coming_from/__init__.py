"""The public names of other libraries, and what to write here instead of each."""
