"""What is asked: kind, terms, names of code, times, and whether anything is asked at all."""
