"""A mentat daemon without placement."""
