"""The tests; `tests/<room>/test_<module>.py` mirrors `src/mentatd`."""
