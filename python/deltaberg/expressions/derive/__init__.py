"""Forms that are derived from bound conditions: for pruning, and for the keys of joins."""
