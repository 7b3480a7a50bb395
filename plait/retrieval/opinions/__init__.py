"""Prompts for language models and the use of their answers: rewriting, reranking, judging.

Off by default. Nothing imports this package until a model is configured; the stages of the same names do then
(`plait/retrieval/stages/opinions.py`, `rewrite.py`). The models themselves are in `plait/models/language/`.
"""
