"""The commands; each reads the environment, builds its program and runs it."""
