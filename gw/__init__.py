"""gw: a self-hosted gateway for voice AI."""

__version__ = "0.1.0"
