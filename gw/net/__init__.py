"""The edges towards upstreams: HTTP/1.1, TLS, WebSockets. Library exceptions are translated here."""
