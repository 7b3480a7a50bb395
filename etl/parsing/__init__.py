"""Files to facts and chunks, in worker processes that may crash and lose only one file."""
