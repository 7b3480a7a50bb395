"""Embedding models, chat models and rerankers."""

from __future__ import annotations

from plait.domain.errors.families import Precondition, Unavailable


class EmbeddingModelMismatch(Precondition):
    reason = "EMBEDDING_MODEL_MISMATCH"

    def __init__(self, index_model: str, index_dim: int, model: str, dim: int) -> None:
        super().__init__(
            f"the index holds vectors of {index_model} ({index_dim}-d) and the configured model is "
            f"{model} ({dim}-d); vectors of two models are never mixed. Set the model back in "
            "`embedding`, or use another `PLAIT_HOME` or database for the new model and index again",
            index_model=index_model,
            index_dim=index_dim,
            model=model,
            dim=dim,
        )


class EmbeddingUnavailable(Unavailable):
    reason = "EMBEDDING_UNAVAILABLE"


class LanguageModelUnavailable(Unavailable):
    """The chat model or reranker does not answer; its caller continues without it."""

    reason = "LANGUAGE_MODEL_UNAVAILABLE"


class EmbeddingRefused(Precondition):
    """The provider refused for good: a wrong key, an unknown model, a wrong dimension."""

    reason = "EMBEDDING_REFUSED"


class BadModelFile(Precondition):
    """A model file is missing or its digest is not the one Plait shipped."""

    reason = "BAD_MODEL_FILE"
