"""Template operators."""
