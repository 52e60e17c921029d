"""Building of modules; aiter's own directory can be put on the path instead, as ``jit``."""
