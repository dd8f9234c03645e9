"""Checkpoints of every kind (Delta protocol, "Checkpoints")."""
