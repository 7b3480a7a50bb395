"""The embedding provider port and its adapters."""
