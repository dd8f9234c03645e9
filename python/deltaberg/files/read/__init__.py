"""Reading data files by task: projection, deletes, filters, and physical row positions."""
