"""A stand-in for SGLang that tests put on PYTHONPATH: it loads no model, and its faults can be switched."""

__version__ = "0.5.23"
