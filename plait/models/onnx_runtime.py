"""onnxruntime with its logging off: the only module that imports it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from plait import settings
from plait.domain.errors import BadModelFile


def session(file: Path) -> Any:
    """An `InferenceSession` over `file` on the CPU: one thread a run, for runs side by side.

    Raises: BadModelFile.
    """
    # Read at the import: without it each load looks names up and leaves a device id and a database of
    # events under the user's cache.
    settings.forbid_telemetry()
    import onnxruntime as ort

    ort.disable_telemetry_events()
    options = ort.SessionOptions()
    options.intra_op_num_threads = 1
    options.inter_op_num_threads = 1
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    options.log_severity_level = 3
    try:
        return ort.InferenceSession(str(file), options, providers=["CPUExecutionProvider"])
    except Exception as exc:  # onnxruntime raises its own, undocumented ones
        raise BadModelFile(
            f"onnxruntime cannot load {file}: {exc}; export the model again", file=file
        ) from exc
