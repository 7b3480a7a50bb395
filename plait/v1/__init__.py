"""Generated protobuf and gRPC code; `make proto` writes it, CI checks that it is current."""
