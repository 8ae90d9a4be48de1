"""Announces an engine to a mentat daemon."""
