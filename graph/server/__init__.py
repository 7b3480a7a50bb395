"""The graph server: the embedded one, and checks and probes of any."""
