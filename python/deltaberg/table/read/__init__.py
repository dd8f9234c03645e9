"""Reading a table: from a source of files to a plan, tasks, batches and the public `Scan`."""
