"""A context from ranked items: tiers, budget, shares, formats. Pure; `stages/format.py` calls it."""
