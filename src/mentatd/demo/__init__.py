"""A whole cluster on loopback."""
