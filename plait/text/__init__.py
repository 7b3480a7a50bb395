"""What texts say, read without I/O: words, diffs, stack traces, times, tests, issues."""
