"""Decisions about the cluster: pure functions from values to values."""
