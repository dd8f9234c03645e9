"""Opening a table: the arguments of the caller, and what is said where there is no table."""
