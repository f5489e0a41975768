"""The data plane's faces: one file per downstream protocol, plain ASGI functions."""
