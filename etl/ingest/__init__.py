"""Episodes on their way in: their inputs, their formats, where they are sent, what is reported."""
