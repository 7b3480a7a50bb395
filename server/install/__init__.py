"""`plait install`: wires the coding agents of this machine to Plait, and takes it back, byte for byte."""
