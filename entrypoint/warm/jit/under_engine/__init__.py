"""Runs under the engine's Python, by path; nothing of the supervisor is at hand there."""
