"""RecallStore: receipts, feedback, savings."""
