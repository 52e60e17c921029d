"""A stand-in for SGLang: the same flags, lines and endpoints, with faults that can be switched on."""

__version__ = "0.5.23"
