"""A context from ranked items: tiers, budget, quotas, formats. Pure; `stages/format.py` calls it."""
