"""Values to messages and back, for both ends of the wire: each pair is mapped once."""
