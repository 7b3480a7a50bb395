"""Package data: read with importlib.resources."""
