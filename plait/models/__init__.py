"""Models: embeddings, and the chat model and cross-encoder that are off by default."""
