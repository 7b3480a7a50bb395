"""A session with a server: every RPC of the contract, with what is refused, then the commands."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks import memory_transcripts
from benchmarks.goldens import commands, tale
from benchmarks.goldens.answers import ALL
from benchmarks.goldens.cases import Cases
from benchmarks.goldens.normal import Normal
from benchmarks.goldens.under_test import Checkout, Server, serving
from benchmarks.goldens.wire import Message

REPO = "shop"
WHERE = {"repositories": [REPO]}
EVERYTHING = {"repositories": [REPO], "collections": list(ALL)}
LASTING = {"PLAIT_RECALL__HALF_LIFE_DAYS": "1e9", "PLAIT_RECALL__FEEDBACK_HALF_LIFE_DAYS": "1e9"}


def record(checkout: Checkout, cache: Path) -> dict[str, Cases]:
    """By service and step the answer, as JSON."""
    with tempfile.TemporaryDirectory(prefix="plait-goldens-") as scratch:
        root = Path(scratch).resolve() / REPO
        tale.write(root, tale.FILES)
        (root / ".git").mkdir()
        with serving(checkout, **LASTING) as server:
            paths = {"root": str(root), "home": str(server.home), "scratch": str(root.parent)}
            session = Session(server, Normal(paths), root)
            found = session.run()
            found["commands"] = commands.record(session.server, session.normal, root)
    return found


class Session:
    """The steps, in order: each builds on what those before have stored."""

    def __init__(self, server: Server, normal: Normal, root: Path) -> None:
        self.server, self.normal, self.root = server, normal, root
        self._called: set[str] = set()
        self._found: dict[str, Cases] = {}

    def run(self) -> dict[str, Cases]:
        """Every answer by its service. Raises: SystemExit, when a method of the contract was not called."""
        self._index()
        self._search()
        self._graph()
        self._episodes()
        self._memories()
        self._recall()
        self._later()
        self._hooks()
        self._savings()
        self._keys()
        self._upkeep()
        methods = self.server.wire.methods(self.server.wire.services())
        if missing := sorted(set(methods) - self._called):
            raise SystemExit(
                f"the session calls no {', '.join(missing)}; give it a step in session.py"
            )
        return self._found

    def fill(self) -> None:
        """What a home holds after some days: the steps that store something, and no other."""
        self._index()
        self._episodes()
        self._memories()
        self._recall()
        self._savings()
        self._keys()
        living = {"name": "reader", "tenant": "default", "all_repositories": True}
        self.call("kept", "AccessService.CreateKey", {**living, "verbs": ["KEY_VERB_READ"]})

    def call(self, step: str, method: str, request: Message) -> Message:
        """Call and record."""
        answer = self.server.wire.call(method, request)
        self._keep(step, method, answer)
        return answer

    def stream(self, step: str, method: str, requests: Sequence[Message]) -> list[Message]:
        answers = self.server.wire.stream(method, requests)
        self._keep(step, method, answers)
        return answers

    def _keep(self, step: str, method: str, answer: Any) -> None:
        self._called.add(method)
        service, _, name = method.partition(".")
        cases = self._found.setdefault(service, {})
        case = f"{name}: {step}"
        if case in cases:
            raise SystemExit(f"two steps are called {case!r}")
        cases[case] = self.normal.lines(answer)

    # -- the steps ---------------------------------------------------------------------------------------

    def _index(self) -> None:
        request = {"path": str(self.root), "repository": REPO, "request_id": "index-1"}
        job = self.server.wire.done("IndexService.StartIndex", request)["job"]
        self._keep(
            "accepted", "IndexService.StartIndex", {k: job[k] for k in ("id", "repository", "path")}
        )
        states = self.server.wire.stream("IndexService.WatchIndexJob", [{"id": job["id"]}])
        self._keep("its end", "IndexService.WatchIndexJob", states[-1])
        self.server.rest()
        self.call("ended", "IndexService.GetIndexJob", {"id": job["id"]})
        self.call("unknown", "IndexService.GetIndexJob", {"id": "none"})
        self.call("relative path", "IndexService.StartIndex", {"path": "shop"})
        self.call("no folder", "IndexService.StartIndex", {"path": "/nonexistent/shop"})
        self.call("one", "IndexService.ListRepositories", {})
        self.call("bad token", "IndexService.ListRepositories", {"page_token": "x"})
        self.call("with the graph", "AdminService.Stats", {"include_graph": True})

    def _search(self) -> None:
        def search(step: str, query: str, **more: Any) -> Message:
            return self.call(
                step, "KnowledgeService.Search", {"query": query, "filter": WHERE, **more}
            )

        found = search("explained", "how long to wait between attempts", explain=True)
        last = found["hits"][-1]["item"]["id"]
        search("by rank fusion", "how long to wait between attempts", fusion="FUSION_RRF", k=3)
        search("full mode", "where is the price rounded", mode="SEARCH_MODE_FULL", k=3)
        search("a name", "fetch_all", k=3, explain=True)
        search("a path", "shop/fetch.py", k=3)
        search("a floor", "exponential backoff", min_score=0.5)
        search("why not", "backoff ceiling", k=1, why_not=[last])
        search(
            "without stages",
            "backoff ceiling",
            k=3,
            stages_off=["relations", "files"],
            explain=True,
        )
        search("nothing like it", "zygomorphic quux", k=3)
        search("empty", " ")
        search("unknown stage", "x", stages_off=["nope"])
        search("too many", "x", k=-1)
        where = {
            **WHERE,
            "languages": ["javascript"],
            "path_glob": "web/*.js",
            "kinds": ["function"],
        }
        search("filtered", "round", filter=where)
        search("of all", "round", filter={"all_repositories": True}, k=2)
        search("of none", "round", filter={})
        search("not indexed", "round", filter={"repositories": ["nope"]})
        search("two scopes", "round", filter={"repositories": [REPO], "all_repositories": True})

    def _graph(self) -> None:
        def ask(step: str, **query: Any) -> None:
            self.call(step, "KnowledgeService.GraphQuery", {"repositories": [REPO], **query})

        def template(name: str, **values: Any) -> None:
            given = {
                k: {"string_value": v} if isinstance(v, str) else {"int_value": v}
                for k, v in values.items()
            }
            ask(name, template={"name": name, "parameters": given})

        for name in ("callers", "callees", "impact", "importers", "tests_of", "history"):
            thing = "thing" if name == "history" else "symbol"
            template(name, **{thing: "shop.retries.wait"})
        template("subclasses", symbol="shop.retries.Policy")
        template("overrides", symbol="shop.retries.Policy.backoff")
        template("outline", file="shop/fetch.py")
        template("path", source="shop.fetch.fetch_all", target="shop.retries.wait")
        template("nope", symbol="x")
        ask(
            "no such symbol",
            template={"name": "callers", "parameters": {"symbol": {"string_value": "nope"}}},
        )
        count = "MATCH (f:Function)-[c:CALLS]->(g) RETURN f.name AS f, g.name AS g ORDER BY f, g"
        ask("cypher", cypher={"text": count})
        ask("rows", cypher={"text": count}, max_rows=1)
        one = "MATCH (f:Function {name: $name}) RETURN f"
        ask("parameter", cypher={"text": one, "parameters": {"name": {"string_value": "fetch"}}})
        ask("a write", cypher={"text": "MATCH (n) DETACH DELETE n"})
        ask("no Cypher", cypher={"text": "MATCH (n RETURN n"})
        self.call("no scope", "KnowledgeService.GraphQuery", {"cypher": {"text": "RETURN 1"}})

    def _episodes(self) -> None:
        first, *others = tale.episodes(REPO)
        append = "KnowledgeService.AppendEpisode"
        self.call("stored", append, {"request_id": "run-1", "episode": first})
        self.call("repeated", append, {"request_id": "run-1", "episode": first})
        self.call("reused", append, {"request_id": "run-1", "episode": others[0]})
        self.call("no outcome", append, {"episode": {"repository": REPO}})
        bad = {
            **first,
            "artifacts": [{"kind": "ARTIFACT_KIND_NOTE", "content": "x", "path": "../x"}],
        }
        requests = [{"append": {"episode": e}} for e in (others[0], bad, *others[1:])]
        self.stream("one of four is refused", "KnowledgeService.IngestEpisodes", requests)
        self.server.rest()
        for name, thing in (("history", "shop/retries.py"), ("history", "shop.fetch.fetch_all")):
            value = {"parameters": {"thing": {"string_value": thing}}, "name": name}
            self.call(
                f"history of {thing}", "KnowledgeService.GraphQuery", {**WHERE, "template": value}
            )
        for name in ("causes", "chain"):
            value = {"parameters": {"issue": {"string_value": "#12"}}, "name": name}
            self.call(f"{name} of #12", "KnowledgeService.GraphQuery", {**WHERE, "template": value})

    def _memories(self) -> None:
        first, *others = tale.memories(REPO)
        store, get = "MemoryService.StoreMemory", "MemoryService.GetMemory"
        stored = self.call("stored", store, {"request_id": "note-1", "memory": first})["memory"]
        self.call("repeated", store, {"request_id": "note-1", "memory": first})
        self.call("duplicate", store, {"memory": {**first, "tags": ["again"]}})
        self.call("empty", store, {"memory": {"repository": REPO}})
        self.call("masked", store, {"memory": {**first, "content": f"The token is {tale.KEY}"}})
        requests = [{"memory": memory} for memory in (*others, {"repository": REPO, "content": ""})]
        batch = self.call(
            "one of four is refused", "MemoryService.BatchStoreMemories", {"requests": requests}
        )
        ids = [r["response"]["memory"]["id"] for r in batch["results"] if "response" in r]
        self.server.rest()
        newer = {**first, "content": "Retries live in shop/waiting.py now."}
        self.call(
            "supersedes",
            store,
            {"request_id": "note-2", "memory": newer, "supersedes": stored["id"]},
        )
        self.call(
            "supersedes again",
            store,
            {"memory": {**newer, "content": "x"}, "supersedes": stored["id"]},
        )
        self.server.rest()
        self.call("closed", get, {"id": stored["id"], "repository": REPO})
        self.call(
            "with its vector", get, {"id": ids[0], "repository": REPO, "include_embedding": True}
        )
        self.call(
            "unknown", get, {"id": "0" * 8 + "-0000-4000-8000-" + "0" * 12, "repository": REPO}
        )
        page = self.call("a page", "MemoryService.ListMemories", {"filter": WHERE, "page_size": 2})
        token = page.get("next_page_token", "")
        self.call(
            "next",
            "MemoryService.ListMemories",
            {"filter": WHERE, "page_size": 2, "page_token": token},
        )
        everything = {"filter": {**WHERE, "kinds": ["memory", "note"]}, "include_superseded": True}
        self.call("with closed ones", "MemoryService.ListMemories", everything)
        query = "MemoryService.QueryMemories"
        self.call("words", query, {"query": "how do we release", "filter": WHERE, "top_k": 4})
        self.call("tagged", query, {"query": "retries", "filter": {**WHERE, "tags_any": ["where"]}})
        self.call(
            "as of then",
            query,
            {
                "query": "payment provider",
                "filter": WHERE,
                "as_of": {"valid": {"words": "2025-09-05"}},
            },
        )
        self.call(
            "nonsense time",
            query,
            {"query": "x", "filter": WHERE, "as_of": {"valid": {"words": "blue moon"}}},
        )
        self.call("deleted", "MemoryService.DeleteMemory", {"id": ids[1], "repository": REPO})
        self.call("deleted again", "MemoryService.DeleteMemory", {"id": ids[1], "repository": REPO})
        turn = {
            "repository": REPO,
            "agent_id": "guide",
            "session_key": "chat-3",
            "user_message": "From now on run the linter before each commit.",
            "assistant_reasoning": "Noted: the linter runs before each commit.",
            "tool_outcomes": [
                {"tool": "bash", "command": "ruff check", "content": "All checks passed!"}
            ],
        }
        self.call("a turn", "MemoryService.Learn", turn)
        self.call(
            "a greeting", "MemoryService.Learn", {"repository": REPO, "user_message": "hello"}
        )
        self.server.rest()

    def _recall(self) -> None:
        def recall(step: str, query: str, **more: Any) -> Message:
            return self.call(
                step, "KnowledgeService.Recall", {"query": query, "filter": WHERE, **more}
            )

        self.call(
            "everywhere",
            "KnowledgeService.Search",
            {"query": "ceiling of backoff", "filter": EVERYTHING, "explain": True},
        )
        first = recall(
            "explained",
            "raise the ceiling of backoff",
            explain=True,
            budget_tokens=600,
            include_content=True,
        )
        recall("in a session", "raise the ceiling of backoff", session_key="s1", budget_tokens=300)
        recall("again in it", "raise the ceiling of backoff", session_key="s1", budget_tokens=300)
        recall(
            "again, no cool-down",
            "raise the ceiling of backoff",
            session_key="s1",
            budget_tokens=300,
            cooldown="0s",
        )
        recall("a diff", "", attached=tale.DIFF)
        recall("a trace", "why does this happen", attached=tale.TRACE)
        recall("an issue", "", attached=ISSUE)
        recall("a repo map", "retries", format="RECALL_FORMAT_REPO_MAP")
        recall("items", "retries", format="RECALL_FORMAT_STRUCTURED", max_items=3)
        recall(
            "rather source",
            "retries",
            prefer_source=True,
            window_tokens=4000,
            tokenizer="claude-sonnet-4",
        )
        recall("a greeting", "hello there")
        recall("nothing", "zygomorphic quux")
        recall("when", "what happened on 2025-09-05")
        recall("empty", "")
        recall("budget", "x", budget_tokens=5)
        items = [item["item"]["id"] for item in first["items"]]
        report = {
            "request_id": "said-1",
            "recall_id": first["recall_id"],
            "items": [
                {
                    "item_id": items[0],
                    "verdict": "FEEDBACK_VERDICT_HELPED",
                    "comment": "right there",
                },
                {"item_id": items[-1], "verdict": "FEEDBACK_VERDICT_HARMED"},
                {
                    "item_id": "01a20616-6d61-7000-8000-07db2dd14704",
                    "verdict": "FEEDBACK_VERDICT_UNUSED",
                },
            ],
            "outcome": {"status": "OUTCOME_STATUS_SUCCESS", "summary": "The ceiling is a minute."},
            "proof": ["tests/test_shop.py::test_backoff_has_a_ceiling"],
        }
        self.call("taken", "KnowledgeService.ReportFeedback", report)
        self.call("repeated", "KnowledgeService.ReportFeedback", report)
        self.call(
            "unknown recall",
            "KnowledgeService.ReportFeedback",
            {**report, "recall_id": items[0], "request_id": "said-2"},
        )
        self.server.rest()
        self.call(
            "same",
            "KnowledgeService.ReplayRecall",
            {"recall_id": first["recall_id"], "explain": True},
        )
        self.call("unknown", "KnowledgeService.ReplayRecall", {"recall_id": items[0]})
        recall(
            "after feedback", "raise the ceiling of backoff", budget_tokens=600, skip_receipt=True
        )

    def _later(self) -> None:
        """The code moves on under what was remembered."""
        before = self.server.wire.done("AdminService.Stats", {})["revisions"][0]["revision"]
        tale.write(self.root, tale.LATER)
        self.server.index(REPO, self.root)
        self.call(f"after revision {before}", "IndexService.ListRepositories", {})
        request = {"filter": WHERE, "skip_receipt": True}
        for query in ("ceiling of backoff", "who calls wait", "patient downloads with fetch_all"):
            self.call(f"later: {query}", "KnowledgeService.Recall", {"query": query, **request})
        self.call(
            "later: a diff",
            "KnowledgeService.Recall",
            {"query": "", "attached": tale.DIFF, **request},
        )

    def _hooks(self) -> None:
        folder, path = str(self.root), str(self.root / "shop/waiting.py")
        self.call("the root", "HookService.DescribeFolder", {"folder": folder})
        self.call("elsewhere", "HookService.DescribeFolder", {"folder": "/nonexistent"})
        hunks = (
            "@@ -6,3 +6,3 @@\n-def wait(policy, attempt):\n+def wait(policy, attempt, least):\n"
            '     """Sleep for as long as the policy says."""\n     time.sleep(policy.backoff(attempt))\n'
        )
        edits = [{"path": path, "hunks": hunks}]
        advice = self.call("a signature", "HookService.AdviseEdit", {"edits": edits})
        seen = [remark["key"] for remark in advice.get("remarks", ())]
        self.call("seen before", "HookService.AdviseEdit", {"edits": edits, "known_keys": seen})
        self.call(
            "names",
            "HookService.NameSymbols",
            {"folder": folder, "names": ["wait", "Policy", "nope"]},
        )

    def _savings(self) -> None:
        story = next(s for s in memory_transcripts.stories() if s.format == "claude")
        transcript = self.root.parent / "session.jsonl"
        transcript.write_bytes(memory_transcripts._claude(story))
        self.server.checkout.run(
            "ingest", str(transcript), "--repo", REPO, "--quiet", home=self.server.home
        )
        self.server.rest()
        self.call("of the repository", "MemoryService.GetSavings", {"repositories": [REPO]})
        self.call("no scope", "MemoryService.GetSavings", {})

    def _keys(self) -> None:
        made = {
            "name": "ci",
            "tenant": "default",
            "repositories": [REPO],
            "verbs": ["KEY_VERB_READ"],
        }
        key = self.call(
            "made", "AccessService.CreateKey", {**made, "ttl": "864000s", "calls_per_minute": 60}
        )["key"]
        self.call("name taken", "AccessService.CreateKey", made)
        self.call("no verbs", "AccessService.CreateKey", {**made, "name": "none", "verbs": []})
        self.call("rotated", "AccessService.RotateKey", {"key_id": key["id"], "grace": "3600s"})
        self.call("living", "AccessService.ListKeys", {})
        self.call("revoked", "AccessService.RevokeKey", {"key_id": key["id"]})
        self.call("ended", "AccessService.RotateKey", {"key_id": key["id"]})
        self.call("all", "AccessService.ListKeys", {"include_ended": True})
        self.call("unknown", "AccessService.RevokeKey", {"key_id": "nope"})

    def _upkeep(self) -> None:
        scope = {"repository": REPO, "agent_id": "fixer"}
        self.call("dry run", "AdminService.Compact", {**scope, "dry_run": True})
        done = self.call("done", "AdminService.Compact", {**scope, "request_id": "thin-1"})
        self.call(
            "runs",
            "AdminService.Compact",
            {**scope, "budget": "MEMORY_BUDGET_RUNS", "dry_run": True},
        )
        self.call("no agent", "AdminService.Compact", {"repository": REPO})
        undo = {"compaction_id": done.get("compaction_id", "")}
        self.call("undone", "AdminService.UndoCompaction", undo)
        self.call("undone again", "AdminService.UndoCompaction", undo)
        forget = {"repository": REPO, "selector": {"agent_id": "other"}}
        self.call("dry run", "AdminService.Forget", {**forget, "dry_run": True})
        self.server.rest()
        gone = self.server.wire.call("AdminService.Forget", forget)
        gone.pop("graph_done", None)  # it says that the graph was as fast
        self._keep("an agent", "AdminService.Forget", gone)
        self.call("everything", "AdminService.Forget", {"repository": REPO, "selector": {}})
        self.server.rest()
        self.call(
            "after it",
            "KnowledgeService.Search",
            {"query": "staging server", "filter": EVERYTHING, "k": 3},
        )
        self.call("consistent", "AdminService.Verify", WHERE)
        self.call("queued", "AdminService.Rebuild", WHERE)
        self.server.rest()
        self.call("rebuilt", "AdminService.Verify", WHERE)
        self.call("none", "AdminService.ListDeadLetters", WHERE)
        self.call("none", "AdminService.RetryDeadLetters", WHERE)
        self.call("at the end", "AdminService.Stats", {"include_graph": True})
        other = {"path": str(self.root / "web"), "repository": "web"}
        self.server.index(other["repository"], Path(other["path"]))
        self.call("two repositories", "IndexService.ListRepositories", {"page_size": 1})
        self.call("one", "IndexService.DeleteRepository", {"name": "web"})
        self.call("unknown", "IndexService.DeleteRepository", {"name": "web"})


ISSUE = """\
### Downloads give up too early

With a slow mirror `fetch_all` stops after three attempts although the ceiling in shop/retries.py is 30 seconds.

```python
from shop.fetch import fetch_all
fetch_all(["http://slow.example"])
```
"""
