"""The kernels of deletion vectors in Python."""
