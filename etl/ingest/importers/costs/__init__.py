"""What looking things up cost a session, read from its transcript."""
