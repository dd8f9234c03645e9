"""Facts about data files in the log: partition values, statistics, deletion vectors."""
