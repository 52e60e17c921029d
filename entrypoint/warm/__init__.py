"""Warm: the directories and caches that must be right before the engine starts."""
