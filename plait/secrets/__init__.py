"""Credentials: which files are left out of an index, and what is masked in every other text.

`rules` holds what people may add, `paths` tells secret files by name and content, `mask` finds and covers
credentials in text, `values` does so in episodes, memories, feedback and queries.
"""
