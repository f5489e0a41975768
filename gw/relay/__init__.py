"""The data plane's use cases: who may ask, which candidates, who answers, what it cost."""
