"""What calls answer: values that a server makes, that travel, and that a client gives its caller."""
