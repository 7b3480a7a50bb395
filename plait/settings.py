"""Settings: defaults, then a YAML file, then `PLAIT_*` environment variables. The only reader of either.

A key `embedding.provider` is `PLAIT_EMBEDDING__PROVIDER` in the environment. The file is `--config`,
else `PLAIT_CONFIG`, else none: the defaults run the embedded stores.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Any, Literal
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import platformdirs
import yaml
from pydantic import BaseModel, ConfigDict, Field, SecretStr, ValidationError

from plait.domain import failpoint
from plait.domain.errors import BadSettings

PREFIX = "PLAIT_"
# Read by name below, not as settings keys.
_SPECIAL = {"PLAIT_HOME", "PLAIT_CONFIG", "PLAIT_DEBUG", "PLAIT_FAILPOINTS"}


class _Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class PostgresSettings(_Section):
    """`dsn` empty: the embedded server. A DSN: that server, which needs pgvector ≥ 0.8."""

    dsn: SecretStr = SecretStr("")
    pool_size: int = Field(8, ge=1, le=100)
    connect_timeout_s: float = Field(10.0, gt=0)
    statement_timeout_s: float = Field(60.0, gt=0)


class GraphSettings(_Section):
    """`uri` empty: the embedded server. A Bolt URI: that server (Neo4j 5 or later)."""

    uri: str = ""
    user: str = "neo4j"
    password: SecretStr = SecretStr("")
    database: str = ""
    # A second, read-only login for users' Cypher; empty: the first one (Neo4j Community has no roles).
    reader_user: str = ""
    reader_password: SecretStr = SecretStr("")
    connect_timeout_s: float = Field(10.0, gt=0)
    query_timeout_s: float = Field(10.0, gt=0, le=300)
    max_rows: int = Field(1000, ge=1, le=100_000)
    max_result_bytes: int = Field(16 * 2**20, ge=1024)
    heap_mb: int = Field(512, ge=128)


class EmbeddingSettings(_Section):
    """Which model makes the vectors. One index holds vectors of one model."""

    provider: Literal["local", "openai", "ollama"] = "local"
    model: str = ""  # empty: the provider's default
    dimension: int = Field(0, ge=0, le=4000)  # 0: the model's own
    base_url: str = ""
    api_key: SecretStr = SecretStr("")
    model_dir: str = ""  # local: a folder with model.onnx and tokenizer.json of your own
    batch_size: int = Field(100, ge=1, le=2048)
    timeout_s: float = Field(30.0, gt=0)
    max_attempts: int = Field(5, ge=1, le=20)
    threads: int = Field(0, ge=0)  # local: 0 = every core
    cache_size: int = Field(1024, ge=0)  # hot queries kept
    cache_ttl_s: float = Field(600.0, ge=0)


class IndexSettings(_Section):
    workers: int = Field(0, ge=0)  # 0: one a core
    max_file_bytes: int = Field(1_000_000, ge=1)
    parse_timeout_s: float = Field(10.0, gt=0)
    batch_items: int = Field(500, ge=1, le=500)
    max_attempts: int = Field(5, ge=1, le=20)
    # How long a replaced revision can still be searched as of its time; 0: the one before at most.
    keep_s: float = Field(0.0, ge=0)


class SearchSettings(_Section):
    """Weights were chosen on benchmarks/localisation.py; see docs/retrieval.md."""

    fusion: Literal["minmax", "rrf"] = "minmax"
    k: int = Field(10, ge=1, le=200)
    candidates: int = Field(150, ge=10, le=1000)  # an arm
    timeout_s: float = Field(10.0, gt=0)
    ef_search: int = Field(128, ge=1, le=1000)
    # Further terms from the repository's own names: never, in recalls and `full`, or always.
    expansion: Literal["off", "recall", "on"] = "recall"


class ScopeSettings(_Section):
    """`tenant`: whose data a command or an unlabelled call means."""

    tenant: str = "default"


class MemorySettings(_Section):
    """Retention of memories; configs/memory.yaml says what each does."""

    budget_tokens: int = Field(100_000, ge=100)  # of one scope (repository, agent)
    compact_at: float = Field(0.9, gt=0, le=1)  # of the budget
    compact_to: float = Field(0.6, gt=0, le=1)  # of the budget; what a compaction aims for
    automatic: bool = True  # compact when `compact_at` is passed; else only by command
    undo_s: float = Field(7 * 86_400.0, ge=0)
    pin_recent: int = Field(20, ge=0)  # successes and failures each, the newest
    near_duplicate: float = Field(0.95, gt=0, le=1)  # cosine from which two are linked
    summarizer: Literal["extractive", "openai"] = "extractive"
    summary_tokens: int = Field(300, ge=20)
    summary_model: str = ""  # openai: the model's name
    summary_base_url: str = ""
    summary_api_key: SecretStr = SecretStr("")
    summary_timeout_s: float = Field(30.0, gt=0)


class RecallSettings(_Section):
    """Recall; configs/recall.yaml says what each does, docs/recall.md why it is so."""

    budget_tokens: int = Field(1_000, ge=50, le=1_000_000)
    window_share: float = Field(0.1, gt=0, le=1)  # of a stated window, in place of `budget_tokens`
    items: int = Field(60, ge=1, le=200)  # the most a context holds
    min_score: float = Field(0.2, ge=0, le=1)  # below it an item is no help
    # When less than this speaks for any candidate, nothing is recalled; 0: never silent.
    silence: float = Field(0.05, ge=0, le=1)
    cooldown_s: float = Field(1_800.0, ge=0)
    keep_s: float = Field(30 * 86_400.0, ge=0)  # receipts; what feedback weighs stays longer
    # Shares of the budget that a collection may take while others still have something to say.
    code_share: float = Field(0.6, gt=0, le=1)
    memory_share: float = Field(0.5, gt=0, le=1)
    max_graph_edges: int = Field(4_000_000, ge=0)  # of one repository, kept in memory
    # The score of a memory: similarity, importance, recency. Weights are scaled to add up to 1.
    similarity_weight: float = Field(0.7, ge=0)
    importance_weight: float = Field(0.2, ge=0)
    recency_weight: float = Field(0.1, ge=0)
    half_life_days: float = Field(90.0, gt=0)
    feedback_bound: float = Field(0.15, ge=0, le=0.15)
    feedback_half_life_days: float = Field(60.0, gt=0)


class LanguageSettings(_Section):
    """A chat model for query rewriting and reranking; used by `full` alone, and only when named."""

    provider: Literal["none", "openai"] = (
        "none"  # openai: any server that speaks its chat completions
    )
    model: str = ""
    base_url: str = ""
    api_key: SecretStr = SecretStr("")
    timeout_s: float = Field(8.0, gt=0)
    rewrite: bool = True  # HyDE and expansion
    rerank: bool = True  # the cross-encoder stage
    max_candidates: int = Field(30, ge=2, le=50)


class RerankSettings(_Section):
    """A local cross-encoder: a folder with model.onnx and tokenizer.json of your own. None is shipped."""

    model_dir: str = ""
    timeout_s: float = Field(0.5, gt=0)
    max_candidates: int = Field(30, ge=2, le=50)
    threads: int = Field(0, ge=0)


class ServerSettings(_Section):
    host: str = "127.0.0.1"
    port: int = Field(50051, ge=0, le=65535)
    max_concurrent: int = Field(256, ge=1)
    drain_s: float = Field(10.0, ge=0)
    timeout_s: float = Field(30.0, gt=0)  # of a call whose caller sets no deadline
    max_timeout_s: float = Field(300.0, gt=0)  # what longer deadlines are cut to
    max_message_bytes: int = Field(32 * 2**20, ge=1024)


class EmbeddedSettings(_Section):
    """The child servers. `linger_s`: how long they outlive their last user."""

    linger_s: float = Field(0.0, ge=0)
    start_timeout_s: float = Field(60.0, gt=0)
    run_as: str = ""  # root only: the account for PostgreSQL; empty: postgres, else nobody


class Settings(_Section):
    home: Path
    postgres: PostgresSettings = PostgresSettings()
    graph: GraphSettings = GraphSettings()
    embedding: EmbeddingSettings = EmbeddingSettings()
    index: IndexSettings = IndexSettings()
    search: SearchSettings = SearchSettings()
    server: ServerSettings = ServerSettings()
    scope: ScopeSettings = ScopeSettings()
    memory: MemorySettings = MemorySettings()
    recall: RecallSettings = RecallSettings()
    language: LanguageSettings = LanguageSettings()
    rerank: RerankSettings = RerankSettings()
    embedded: EmbeddedSettings = EmbeddedSettings()


def load(
    config: Path | None = None, environ: Mapping[str, str] | None = None, **overrides: Any
) -> Settings:
    """Settings from defaults, file, environment and `overrides`, the later winning.

    Raises: BadSettings, naming the key and its source.
    """
    env = os.environ if environ is None else environ
    path = config or (Path(env["PLAIT_CONFIG"]) if env.get("PLAIT_CONFIG") else None)
    tree: dict[str, Any] = _read_file(path) if path else {}
    tree.setdefault("home", env.get("PLAIT_HOME") or str(default_home()))
    if env.get("PLAIT_HOME"):
        tree["home"] = env["PLAIT_HOME"]
    for key, value in env.items():
        if key.startswith(PREFIX) and key not in _SPECIAL:
            _put(tree, key, value)
    for key, value in overrides.items():
        tree[key] = value
    tree["home"] = Path(tree["home"]).expanduser().absolute()
    try:
        return Settings.model_validate(tree)
    except ValidationError as exc:
        first = exc.errors(include_url=False, include_input=False)[0]
        key = ".".join(str(p) for p in first["loc"])
        raise BadSettings(
            f"setting `{key}`: {first['msg']}; docs/configuration.md lists every key", key=key
        ) from None


def debug(environ: Mapping[str, str] | None = None) -> bool:
    """Whether `PLAIT_DEBUG` asks for tracebacks: set, and neither empty nor 0."""
    env = os.environ if environ is None else environ
    return env.get("PLAIT_DEBUG", "") not in ("", "0")


def failpoints(environ: Mapping[str, str] | None = None) -> tuple[failpoint.Failpoint, ...]:
    """What `PLAIT_FAILPOINTS` arms: nothing unless it is set. For tests; no file can say it.

    Raises: BadSettings.
    """
    env = os.environ if environ is None else environ
    return failpoint.parse(env.get("PLAIT_FAILPOINTS", ""))


def time_zone(environ: Mapping[str, str] | None = None) -> str:
    """This process's zone: `TZ`, else what /etc/localtime points at, else the offset of now."""
    env = os.environ if environ is None else environ
    named = env.get("TZ", "").removeprefix(":") or str(Path("/etc/localtime").resolve())
    name = named.rpartition("zoneinfo/")[2]
    try:
        ZoneInfo(name)
    except (ValueError, ZoneInfoNotFoundError, OSError):
        return datetime.now().astimezone().strftime("%z")
    return name


def default_home() -> Path:
    """The platform's user data folder; for root /var/lib/plait, since PostgreSQL never runs as root
    and the account it runs as can't enter /root."""
    if hasattr(os, "geteuid") and os.geteuid() == 0:
        return Path("/var/lib/plait")
    return Path(platformdirs.user_data_dir("plait", appauthor=False))


def _read_file(path: Path) -> dict[str, Any]:
    try:
        tree = yaml.safe_load(path.read_text(encoding="utf-8"))
    except OSError as exc:
        raise BadSettings(
            f"cannot read the configuration {path}: {exc.strerror}", path=path
        ) from exc
    except (yaml.YAMLError, UnicodeDecodeError) as exc:
        raise BadSettings(f"{path} is not valid YAML: {exc}", path=path) from exc
    if tree is None:
        return {}
    if not isinstance(tree, dict):
        raise BadSettings(f"{path} must hold a mapping of sections", path=path)
    return tree


def _put(tree: dict[str, Any], variable: str, value: str) -> None:
    """Set `PLAIT_A__B` as `tree["a"]["b"]`."""
    section, _, key = variable[len(PREFIX) :].lower().partition("__")
    if not key:
        raise BadSettings(
            f"environment variable {variable} names no setting; "
            f"write {PREFIX}SECTION__KEY, as in {PREFIX}SEARCH__K",
            variable=variable,
        )
    branch = tree.setdefault(section, {})
    if not isinstance(branch, dict):
        raise BadSettings(f"setting `{section}` must be a mapping", key=section)
    branch[key] = value
