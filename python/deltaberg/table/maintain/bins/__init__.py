"""Writing the rows of bins of files to new files, by this process and by the tasks of an engine."""
