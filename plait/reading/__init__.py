"""What texts say, read without I/O: diffs, times in words, names of tests, references to issues."""
