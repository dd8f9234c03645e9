"""What is derived from bound conditions: the form that pruning takes, and the keys of joins."""
