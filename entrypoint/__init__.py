"""A launcher entrypoint and supervisor for SGLang servers on shared supercomputers."""

__version__ = "0.1.0"
