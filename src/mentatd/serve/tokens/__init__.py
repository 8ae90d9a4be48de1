"""How many tokens a prompt would cost, counted by the engine that serves it (manual "Counting tokens")."""
