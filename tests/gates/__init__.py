"""Gates that look at a whole test run."""
