"""What the commands of agents say of tests: which runner, which results, how it ended."""
