"""Use cases of the data plane: admission, choice of candidates, fallback, accounting."""
