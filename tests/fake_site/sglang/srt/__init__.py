"""What the stand-in has of SGLang's runtime."""
