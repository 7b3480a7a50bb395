"""What runs beside the server's calls."""
