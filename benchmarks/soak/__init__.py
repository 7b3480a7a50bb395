"""Faults under load, and a checker that compares what is left with what was acknowledged.

    python -m benchmarks.soak --cycles 1000 --seed 7

docs/faults.md says what is promised and what each fault is.
"""
