"""Every call as a value: its method, its request, how to read the response, how long it may take.

Both clients send these values, so neither can drift from the other.
"""
