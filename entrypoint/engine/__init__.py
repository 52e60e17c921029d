"""Engine: everything that is true of SGLang only."""
