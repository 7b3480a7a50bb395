"""Who may call: callers and their secrets, verbs and quotas. Knows nothing of gRPC."""
