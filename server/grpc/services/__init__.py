"""The gRPC services, one module each."""
