"""The port of embedding models."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np
import numpy.typing as npt

Vectors = npt.NDArray[np.float32]  # (n, dim), rows of unit length


class EmbeddingProvider(Protocol):
    """Texts to unit vectors. One model, one dimension, for the life of the object."""

    @property
    def model(self) -> str:
        """A stable id; vectors of different ids are never compared."""
        ...

    @property
    def dim(self) -> int: ...

    async def embed_documents(self, texts: Sequence[str]) -> Vectors:
        """Shape `(len(texts), dim)`, float32, unit rows, in the order of `texts`.

        Raises:
            EmbeddingUnavailable: the provider does not answer, after retries.
            EmbeddingRefused: it refused for good.
        """
        ...

    async def embed_query(self, text: str) -> npt.NDArray[np.float32]:
        """Shape `(dim,)`. Raises as `embed_documents`."""
        ...

    async def close(self) -> None: ...
