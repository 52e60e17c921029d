"""Benchmarks of the supervisor itself, beside what it replaces: ``python -m bench``."""
