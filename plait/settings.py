"""Settings: defaults, then a YAML file, then `PLAIT_*` environment variables. The only reader of either.

A key `embedding.provider` is `PLAIT_EMBEDDING__PROVIDER` in the environment. The file is `--config`,
else `PLAIT_CONFIG`, else none: the defaults run the embedded stores.
"""

from __future__ import annotations

import hashlib
import os
import re
import threading
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeVar

import msgspec
from msgspec import Meta

from plait.domain.errors import BadSettings

PREFIX = "PLAIT_"
# Read by name below, not as settings keys.
_SPECIAL = {"PLAIT_HOME", "PLAIT_CONFIG", "PLAIT_DEBUG", "PLAIT_FAILPOINTS", "PLAIT_SERVER"}


if TYPE_CHECKING:
    from plait.domain import failpoint


class Secret:
    """A password or key: its `repr` and `str` hide it, so that no log or traceback shows it."""

    __slots__ = ("_value",)

    def __init__(self, value: str) -> None:
        self._value = value

    def get_secret_value(self) -> str:
        return self._value

    def __repr__(self) -> str:
        return f"Secret({'*' * 10 if self._value else ''!r})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and other._value == self._value

    def __hash__(self) -> int:
        return hash(self._value)


class _Section(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Keys that are not declared are refused."""


class PostgresSettings(_Section, frozen=True):
    """`dsn` empty: the embedded server. A DSN: that server, which needs pgvector ≥ 0.8."""

    dsn: Secret = Secret("")
    password: Secret = Secret("")  # in place of the DSN's, and written as it is
    pool_size: Annotated[int, Meta(ge=1, le=100)] = 8
    connect_timeout_s: Annotated[float, Meta(gt=0)] = 10.0
    statement_timeout_s: Annotated[float, Meta(gt=0)] = 60.0


class GraphSettings(_Section, frozen=True):
    """`uri` empty: the embedded server. A Bolt URI: that server (Neo4j 5 or later)."""

    uri: str = ""
    user: str = "neo4j"
    password: Secret = Secret("")
    database: str = ""
    # A second, read-only login for users' Cypher; empty: the first one (Neo4j Community has no roles).
    reader_user: str = ""
    reader_password: Secret = Secret("")
    # Another server with the same graph, for users' Cypher alone: it may be restarted at any time.
    reader_uri: str = ""
    connect_timeout_s: Annotated[float, Meta(gt=0)] = 10.0
    query_timeout_s: Annotated[float, Meta(gt=0, le=300)] = 10.0
    max_rows: Annotated[int, Meta(ge=1, le=100_000)] = 1000
    max_result_bytes: Annotated[int, Meta(ge=1024)] = 16 * 2**20
    heap_mb: Annotated[int, Meta(ge=128)] = 512
    # Whether a service keeps the embedded server running and level; off: it starts with the first Cypher.
    follow: bool = False


class EmbeddingSettings(_Section, frozen=True):
    """Which model makes the vectors. One index holds vectors of one model."""

    provider: Literal["local", "openai", "ollama"] = "local"
    model: str = ""  # empty: the provider's default
    dimension: Annotated[int, Meta(ge=0, le=4000)] = 0  # 0: the model's own
    base_url: str = ""
    api_key: Secret = Secret("")
    model_dir: str = ""  # local: a folder with model.onnx and tokenizer.json of your own
    # What code is found by: the static table alone, the table until the model's vectors are there, the model alone.
    tiers: Literal["static", "both", "model"] = "both"
    batch_size: Annotated[int, Meta(ge=1, le=2048)] = 100
    timeout_s: Annotated[float, Meta(gt=0)] = 30.0
    max_attempts: Annotated[int, Meta(ge=1, le=20)] = 5
    threads: Annotated[int, Meta(ge=0)] = 0  # local: 0 = every core
    cache_size: Annotated[int, Meta(ge=0)] = 1024  # hot queries
    cache_ttl_s: Annotated[float, Meta(ge=0)] = 600.0

    @property
    def embeds_code(self) -> bool:
        """Whether the model makes vectors of code; of agents' items it always does."""
        return self.tiers != "static"


class IndexSettings(_Section, frozen=True):
    workers: Annotated[int, Meta(ge=0)] = 0  # 0: one a core
    max_file_bytes: Annotated[int, Meta(ge=1)] = 1_000_000
    parse_timeout_s: Annotated[float, Meta(gt=0)] = 10.0
    batch_items: Annotated[int, Meta(ge=1, le=500)] = 500
    max_attempts: Annotated[int, Meta(ge=1, le=20)] = 5
    # How long a run waits for a store that is away, each time.
    outage_s: Annotated[float, Meta(ge=0)] = 300.0
    # How long a replaced revision can still be searched as of its time; 0: the one before at most.
    keep_s: Annotated[float, Meta(ge=0)] = 0.0
    # Of so many branches the last tree stays stored, for a switch back to it.
    keep_trees: Annotated[int, Meta(ge=0, le=1000)] = 16
    # Memory in which a service holds what repositories in use were bound from; 0: none is held.
    bindings_bytes: Annotated[int, Meta(ge=0)] = 512 * 2**20
    # For so long after a call about a repository a service indexes what is saved in its folder; 0: never.
    follow_s: Annotated[float, Meta(ge=0)] = 600.0


class SearchSettings(_Section, frozen=True):
    """Weights were chosen on benchmarks/localisation.py; see docs/experiments/localisation.md."""

    fusion: Literal["minmax", "rrf"] = "minmax"
    k: Annotated[int, Meta(ge=1, le=200)] = 10
    candidates: Annotated[int, Meta(ge=10, le=1000)] = 150  # an arm
    timeout_s: Annotated[float, Meta(gt=0)] = 10.0
    ef_search: Annotated[int, Meta(ge=1, le=1000)] = 128
    # Answers to searches of code, kept while the code is the same; 0: none.
    cache_bytes: Annotated[int, Meta(ge=0)] = 16 * 2**20
    # How long a query waits for what another one is reading into memory, before it continues without.
    graph_wait_s: Annotated[float, Meta(ge=0)] = (
        1.0  # a code graph; at most a share of the deadline
    )
    names_wait_s: Annotated[float, Meta(ge=0)] = 0.25  # a repository's names, for expansion
    # Further terms from the repository's own names: never, in recalls and `full`, or always.
    expansion: Literal["off", "recall", "on"] = "recall"


class ScopeSettings(_Section, frozen=True):
    """`tenant`: whose data a command or an unlabelled call means."""

    tenant: str = "default"


class MemorySettings(_Section, frozen=True):
    """Retention of memories; configs/memory.yaml explains each."""

    # Tokens of one scope (repository, agent): of what is stored on purpose, and of what was said and done in
    # runs. A year of daily use reaches neither: docs/experiments/retention.md has the measurement.
    budget_tokens: Annotated[int, Meta(ge=100)] = 2_000_000
    run_budget_tokens: Annotated[int, Meta(ge=0)] = 50_000_000  # 0: runs are never compacted
    compact_at: Annotated[float, Meta(gt=0, le=1)] = 0.9  # of the budget
    compact_to: Annotated[float, Meta(gt=0, le=1)] = (
        0.6  # of the budget; what a compaction aims for
    )
    automatic: bool = True  # compact when `compact_at` is passed; else only by command
    undo_s: Annotated[float, Meta(ge=0)] = 7 * 86_400.0
    pin_recent: Annotated[int, Meta(ge=0)] = 20  # successes and failures each, the newest
    near_duplicate: Annotated[float, Meta(gt=0, le=1)] = 0.95  # cosine from which two are linked
    summarizer: Literal["extractive", "openai"] = "extractive"
    summary_tokens: Annotated[int, Meta(ge=20)] = 300
    summary_model: str = ""  # openai: the model's name
    summary_base_url: str = ""
    summary_api_key: Secret = Secret("")
    summary_timeout_s: Annotated[float, Meta(gt=0)] = 30.0
    # After a model did not answer, the rest of a compaction does not wait for it again.
    summary_rest_s: Annotated[float, Meta(ge=0)] = 60.0


class RecallSettings(_Section, frozen=True):
    """Recall; configs/recall.yaml explains each, docs/recall.md gives the reasons."""

    budget_tokens: Annotated[int, Meta(ge=50, le=1_000_000)] = 1_000
    window_share: Annotated[float, Meta(gt=0, le=1)] = (
        0.1  # of a stated window, in place of `budget_tokens`
    )
    items: Annotated[int, Meta(ge=1, le=200)] = 60  # the most a context holds
    min_score: Annotated[float, Meta(ge=0, le=1)] = 0.2  # below it an item is no help
    # When less than this speaks for any candidate, nothing is recalled; 0: never silent.
    silence: Annotated[float, Meta(ge=0, le=1)] = 0.05
    cooldown_s: Annotated[float, Meta(ge=0)] = 1_800.0
    keep_s: Annotated[float, Meta(ge=0)] = (
        30 * 86_400.0
    )  # receipts; what feedback weighs stays longer
    # Shares of the budget that a collection may take while others still have something to say.
    code_share: Annotated[float, Meta(gt=0, le=1)] = 0.6
    memory_share: Annotated[float, Meta(gt=0, le=1)] = 0.5
    max_graph_edges: Annotated[int, Meta(ge=0)] = 4_000_000  # of one repository, held in memory
    # The score of a memory: similarity, importance, recency. Weights are scaled to add up to 1.
    similarity_weight: Annotated[float, Meta(ge=0)] = 0.7
    importance_weight: Annotated[float, Meta(ge=0)] = 0.2
    recency_weight: Annotated[float, Meta(ge=0)] = 0.1
    half_life_days: Annotated[float, Meta(gt=0)] = 90.0
    feedback_bound: Annotated[float, Meta(ge=0, le=0.15)] = 0.15
    feedback_half_life_days: Annotated[float, Meta(gt=0)] = 60.0


class LanguageSettings(_Section, frozen=True):
    """A chat model for query rewriting and reranking; used by `full` alone, and only when named."""

    provider: Literal["none", "openai"] = (
        "none"  # openai: any server that speaks its chat completions
    )
    model: str = ""
    base_url: str = ""
    api_key: Secret = Secret("")
    timeout_s: Annotated[float, Meta(gt=0)] = 8.0
    # After a failure searches go on without the model at once: a refusal is mended by a person, what is
    # away or slow may come back by itself.
    rest_refused_s: Annotated[float, Meta(ge=0)] = 60.0
    rest_away_s: Annotated[float, Meta(ge=0)] = 15.0
    rewrite: bool = True  # HyDE and expansion
    rerank: bool = True  # the cross-encoder stage
    max_candidates: Annotated[int, Meta(ge=2, le=50)] = 30


class RerankSettings(_Section, frozen=True):
    """A local cross-encoder: a folder with model.onnx and tokenizer.json of your own. None is shipped."""

    model_dir: str = ""
    timeout_s: Annotated[float, Meta(gt=0)] = 0.5
    max_candidates: Annotated[int, Meta(ge=2, le=50)] = 30
    threads: Annotated[int, Meta(ge=0)] = 0


class ServerSettings(_Section, frozen=True):
    """`port` None: the home's socket alone. docs/security.md explains each limit."""

    host: str = "127.0.0.1"
    port: Annotated[int, Meta(ge=0, le=65535)] | None = None
    tls_certificate: str = ""  # PEM files, read again when they change
    tls_key: str = ""
    tls_client_ca: str = ""  # who connects shows a certificate of this authority
    # Processes that answer calls over TCP; the home's own socket is the first one's.
    workers: Annotated[int, Meta(ge=1, le=64)] = 1
    reflection: bool = False
    index_roots: str = ""  # folders, with `:` between them, under which calls may index
    # Of calls over the home's socket, and as many over TCP.
    max_concurrent: Annotated[int, Meta(ge=1)] = 256
    max_concurrent_per_key: Annotated[int, Meta(ge=1)] = 64
    max_connections: Annotated[int, Meta(ge=1)] = 256  # over TCP
    max_connections_per_peer: Annotated[int, Meta(ge=1)] = 32  # of one address; of one key
    max_streams: Annotated[int, Meta(ge=1)] = 128  # calls at a time on one connection
    # Of requests that are on their way, for each key; over the home's socket for each connection.
    max_bytes_in_flight: Annotated[int, Meta(ge=1024)] = 512 * 2**20
    hello_s: Annotated[float, Meta(gt=0)] = 10.0  # until a TCP connection must be known
    arrive_s: Annotated[float, Meta(gt=0)] = 15.0  # until a request must be there whole
    answer_s: Annotated[float, Meta(gt=0)] = 60.0  # until an answer must be read
    stream_idle_s: Annotated[float, Meta(gt=0)] = 600.0  # between two messages of a stream
    drain_s: Annotated[float, Meta(ge=0)] = 10.0
    follow_s: Annotated[float, Meta(ge=0)] = 5.0  # of `forget`, for the graph
    health_s: Annotated[float, Meta(gt=0)] = 5.0  # between two looks at the truth store
    timeout_s: Annotated[float, Meta(gt=0)] = 30.0  # of a call whose caller sets no deadline
    max_timeout_s: Annotated[float, Meta(gt=0)] = 300.0  # what longer deadlines are cut to
    max_message_bytes: Annotated[int, Meta(ge=1024)] = 32 * 2**20
    # A service that a client started leaves after so long without a call; 0: never.
    idle_s: Annotated[float, Meta(ge=0)] = 1_800.0
    # After so long it lets go what takes memory: models, tables, the embedded graph server; 0: never.
    rest_s: Annotated[float, Meta(ge=0)] = 120.0


class AuditSettings(_Section, frozen=True):
    """The log of writes, deletions and refusals; docs/audit.md."""

    enabled: bool = True
    file: str = ""  # empty: `server/audit.jsonl` in the home
    max_bytes: Annotated[int, Meta(ge=4096)] = 10 * 2**20  # then another file is begun
    keep: Annotated[int, Meta(ge=1, le=1000)] = 5  # files before it


class ClientSettings(_Section, frozen=True):
    """Which server commands and clients talk to, and what they show it."""

    server: str = ""  # `host:port` or `unix:/path`; empty: the service of this home
    token: Secret = Secret("")  # over TCP: a server's token, or an API key
    tls_ca: str = (
        ""  # PEM of the authority that signed the server's certificate; empty: the system's
    )
    tls_certificate: str = ""  # PEM, for a server that asks for one
    tls_key: str = ""
    autostart: bool = True  # start that service in the background where none runs


class SecretsSettings(_Section, frozen=True):
    """`rules`: a YAML file with more names, patterns and exceptions; docs/secrets.md. Empty: built-in ones."""

    rules: str = ""


class HooksSettings(_Section, frozen=True):
    """What `plait hook` does in agents' sessions; each can be switched off alone."""

    session_start: bool = True
    after_edit: bool = True
    before_search: bool = True
    session_end: bool = True
    refresh: bool = True  # a session that starts brings the index up to date, in the background
    limit_s: Annotated[float, Meta(gt=0, le=600)] = 1.0  # then a hook ends, also while waiting


class EmbeddedSettings(_Section, frozen=True):
    """The child servers. `linger_s`: how long they outlive their last user."""

    linger_s: Annotated[float, Meta(ge=0)] = 0.0
    start_timeout_s: Annotated[float, Meta(gt=0)] = 60.0
    run_as: str = ""  # root only: the account for PostgreSQL; empty: postgres, else nobody


class Settings(_Section, frozen=True):
    home: Path
    postgres: PostgresSettings = PostgresSettings()
    graph: GraphSettings = GraphSettings()
    embedding: EmbeddingSettings = EmbeddingSettings()
    index: IndexSettings = IndexSettings()
    search: SearchSettings = SearchSettings()
    server: ServerSettings = ServerSettings()
    audit: AuditSettings = AuditSettings()
    scope: ScopeSettings = ScopeSettings()
    memory: MemorySettings = MemorySettings()
    recall: RecallSettings = RecallSettings()
    language: LanguageSettings = LanguageSettings()
    rerank: RerankSettings = RerankSettings()
    embedded: EmbeddedSettings = EmbeddedSettings()
    client: ClientSettings = ClientSettings()
    hooks: HooksSettings = HooksSettings()
    secrets: SecretsSettings = SecretsSettings()
    source: Path | None = None  # the file that was read

    def digest(self) -> str:
        """Equal for settings that make a server answer alike, independent of the client."""
        tree = {name: getattr(self, name) for name in self.__struct_fields__}
        for name in ("home", "scope", "client", "hooks", "source"):
            del tree[name]
        data = msgspec.json.encode(tree, enc_hook=_plain, order="sorted")
        return hashlib.blake2b(data, digest_size=8).hexdigest()


def load(
    config: Path | None = None, environ: Mapping[str, str] | None = None, **overrides: Any
) -> Settings:
    """Settings from defaults, file, environment and `overrides`, the later winning.

    Raises: BadSettings, naming the key and its source.
    """
    env = os.environ if environ is None else environ
    path = config or (Path(env["PLAIT_CONFIG"]) if env.get("PLAIT_CONFIG") else None)
    tree: dict[str, Any] = _read_file(path) if path else {}
    if env.get("PLAIT_HOME"):
        tree["home"] = env["PLAIT_HOME"]
    elif "home" not in tree:
        tree["home"] = str(default_home())
    for key, value in env.items():
        if key.startswith(PREFIX) and key not in _SPECIAL:
            _put(tree, key, value)
    if env.get("PLAIT_SERVER"):
        _put(tree, "PLAIT_CLIENT__SERVER", env["PLAIT_SERVER"])
    for key, given in overrides.items():
        section = tree.get(key)
        if isinstance(given, dict) and isinstance(section, dict):
            tree[key] = {**section, **given}
        else:
            tree[key] = given
    tree["source"] = str(path) if path else None
    tree["home"] = str(Path(tree["home"]).expanduser().absolute())
    return parse(Settings, tree)


S = TypeVar("S", bound=_Section)
_DESCRIBING = threading.Lock()


def parse(kind: type[S], tree: Mapping[str, Any]) -> S:
    """`tree` as settings; text becomes what its key holds, as a number.

    Raises: BadSettings, naming the key.
    """
    try:
        # msgspec describes a class to itself at the first use; two threads at once end the process.
        with _DESCRIBING:
            return msgspec.convert(tree, kind, strict=False, dec_hook=_decode)
    except msgspec.ValidationError as exc:
        what, _, where = str(exc).partition(" - at `$")
        path = where.strip(".`")
        unknown = _UNKNOWN.fullmatch(what)
        key = ".".join(part for part in (path, unknown[1] if unknown else "") if part)
        said = "there is no such setting" if unknown else what
        raise BadSettings(
            f"setting `{key}`: {said}; docs/configuration.md lists every key", key=key
        ) from None


_UNKNOWN = re.compile(r"Object contains unknown field `(.*)`")


def _plain(value: Any) -> str:
    return value.get_secret_value() if isinstance(value, Secret) else str(value)


def _decode(kind: type, value: Any) -> Any:
    """What msgspec doesn't know: a `Secret`, a `Path`. Raises: ValueError."""
    if not isinstance(value, str):
        raise ValueError(f"Expected `str`, got `{type(value).__name__}`")
    return kind(value)


def debug(environ: Mapping[str, str] | None = None) -> bool:
    """Whether `PLAIT_DEBUG` asks for tracebacks: set, and neither empty nor 0."""
    env = os.environ if environ is None else environ
    return env.get("PLAIT_DEBUG", "") not in ("", "0")


def failpoints(environ: Mapping[str, str] | None = None) -> tuple[failpoint.Failpoint, ...]:
    """What `PLAIT_FAILPOINTS` arms: nothing unless it is set. For tests; no file can say it.

    Raises: BadSettings.
    """
    from plait.domain import failpoint

    env = os.environ if environ is None else environ
    return failpoint.parse(env.get("PLAIT_FAILPOINTS", ""))


def elsewhere(*names: str, environ: Mapping[str, str] | None = None) -> dict[str, Path]:
    """Folders that other programs' variables name (`CLAUDE_CONFIG_DIR`, `XDG_CONFIG_HOME` …), of those that
    are set to an absolute path."""
    env = os.environ if environ is None else environ
    found = {name: Path(env[name]).expanduser() for name in names if env.get(name)}
    return {name: path for name, path in found.items() if path.is_absolute()}


def time_zone(environ: Mapping[str, str] | None = None) -> str:
    """This process's zone: `TZ`, else what /etc/localtime points at, else the offset of now."""
    env = os.environ if environ is None else environ
    named = env.get("TZ", "").removeprefix(":") or str(Path("/etc/localtime").resolve())
    name = named.rpartition("zoneinfo/")[2]
    from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

    try:
        ZoneInfo(name)
    except (ValueError, ZoneInfoNotFoundError, OSError):
        return datetime.now().astimezone().strftime("%z")
    return name


def forbid_telemetry() -> None:
    """Have libraries that are imported from now on, here and in child processes, send no reports."""
    os.environ["ORT_DISABLE_TELEMETRY"] = "1"


def default_home() -> Path:
    """The platform's user data folder; for root /var/lib/plait, since PostgreSQL never runs as root
    and the account it runs as can't enter /root.

    Raises: BadSettings, for an account that has neither HOME nor an entry among the system's accounts.
    """
    if hasattr(os, "geteuid") and os.geteuid() == 0:
        return Path("/var/lib/plait")
    import platformdirs

    try:
        return Path(platformdirs.user_data_dir("plait", appauthor=False))
    except RuntimeError as exc:
        raise BadSettings(
            "this account has no home folder to keep data in; set PLAIT_HOME (or HOME) to a folder of its own",
            key="home",
        ) from exc


def _read_file(path: Path) -> dict[str, Any]:
    import yaml  # here, as most commands read no file

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
