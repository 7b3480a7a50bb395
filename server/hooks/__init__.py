"""What `plait hook` does: read a client's hook JSON, ask the running service, answer in the client's format.

A hook runs inside somebody's session: it imports little, waits for nothing, and where anything is wrong it
says nothing.
"""
