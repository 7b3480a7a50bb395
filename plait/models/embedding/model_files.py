"""Where a local model's files are, which they must be, and how the model wants to be fed."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from plait.domain.errors import BadModelFile

SHIPPED_MODEL = "all-MiniLM-L6-v2"
SHIPPED_ID = "local:all-MiniLM-L6-v2-int8"
SHIPPED_DIM = 384
# sha256 of what Plait ships; see weights/minilm_l6_v2_int8/NOTICE.
SHIPPED_DIGESTS = {
    "model-int8.onnx": "04d8a7831f9e2965633d8765628de2dfae66cdcbc09c31d96583870fc4f28ce0",
    "tokenizer.json": "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037",
}
# Chosen by measurement for MiniLM (512 tokens find less, see docs/experiments/embedding-speed.md); a folder of your own
# may say otherwise in sentence_bert_config.json.
DEFAULT_TOKENS = 256


@dataclass(frozen=True, slots=True)
class ModelFiles:
    """A model ready to load. `pooling` (mean or cls) matters only to graphs without a pooled output."""

    id: str
    onnx: Path
    tokenizer: Path
    max_tokens: int = DEFAULT_TOKENS
    pooling: str = "mean"
    query_prefix: str = ""
    document_prefix: str = ""


def shipped() -> ModelFiles:
    """The vendored model, checked byte for byte (23 MB of sha256: about 20 ms).

    Raises: BadModelFile.
    """
    folder = Path(__file__).parent / "weights" / "minilm_l6_v2_int8"
    for name, expected in SHIPPED_DIGESTS.items():
        actual = _digest(folder / name)
        if actual != expected:
            raise BadModelFile(
                f"{folder / name} has sha256 {actual}, not {expected} as shipped; "
                "reinstall Plait (`pip install --force-reinstall plait`)",
                file=folder / name,
                actual=actual,
                expected=expected,
            )
    return ModelFiles(SHIPPED_ID, folder / "model-int8.onnx", folder / "tokenizer.json")


def own(folder: Path) -> ModelFiles:
    """A user's model folder, laid out as sentence-transformers exports it to ONNX.

    The id is the folder's name and a digest of every file that shapes the vectors, so that another
    model under the same name is another model.

    Raises: BadModelFile.
    """
    folder = folder.expanduser()
    onnx = _find_onnx(folder)
    tokenizer = folder / "tokenizer.json"
    if not tokenizer.is_file() and (onnx.parent / "tokenizer.json").is_file():
        tokenizer = onnx.parent / "tokenizer.json"
    shaping = [onnx, *sorted(onnx.parent.glob(onnx.name + "?data")), tokenizer]
    configs = (
        "sentence_bert_config.json",
        "1_Pooling/config.json",
        "config_sentence_transformers.json",
    )
    shaping += [folder / name for name in configs if (folder / name).is_file()]
    digest = hashlib.sha256("".join(map(_digest, shaping)).encode()).hexdigest()[:12]
    limits, pooling, prompts = (_json(folder / name) for name in configs)
    texts = prompts.get("prompts")
    prefixes = texts if isinstance(texts, dict) else {}
    tokens = limits.get("max_seq_length")
    return ModelFiles(
        id=f"local:{folder.resolve().name}@{digest}",
        onnx=onnx,
        tokenizer=tokenizer,
        max_tokens=tokens if isinstance(tokens, int) and tokens > 2 else DEFAULT_TOKENS,
        pooling="cls" if pooling.get("pooling_mode_cls_token") is True else "mean",
        query_prefix=str(prefixes.get("query", "")),
        document_prefix=str(prefixes.get("document", prefixes.get("passage", ""))),
    )


def _find_onnx(folder: Path) -> Path:
    for name in ("model.onnx", "onnx/model.onnx"):
        if (folder / name).is_file():
            return folder / name
    found = sorted(folder.glob("*.onnx"))
    if len(found) == 1:
        return found[0]
    raise BadModelFile(
        f"`embedding.model_dir` {folder} holds {len(found)} .onnx files and none named model.onnx; "
        "it needs model.onnx and tokenizer.json, as `optimum-cli export onnx` writes them",
        folder=folder,
    )


def _digest(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as exc:
        raise BadModelFile(
            f"cannot read the model file {path}: {exc.strerror}; reinstall Plait, or set "
            "`embedding.model_dir` to a folder with model.onnx and tokenizer.json",
            file=path,
        ) from exc


def _json(path: Path) -> Mapping[str, Any]:
    if not path.is_file():
        return {}
    try:
        tree = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as exc:
        raise BadModelFile(
            f"{path} is not valid JSON: {exc}; export the model again", file=path
        ) from exc
    return tree if isinstance(tree, dict) else {}
