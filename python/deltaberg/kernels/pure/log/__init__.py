"""The kernels of the Delta log in Python: actions, replay, and statistics."""
