"""The server as a process: start, address, log, rest and end."""
