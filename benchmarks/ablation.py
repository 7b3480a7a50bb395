"""What each rule of the ranking is worth: one rule off at a time, over every set.

    python -m benchmarks.ablation run EVAL.jsonl --sets messages,chats [--cache DIR] [--most N] --out DIR
    python -m benchmarks.ablation table --out DIR

EVAL is the file of benchmarks/localisation.py. `run` builds each set's indexes once, remembers what the store and the model
answered, and ranks every query again with one rule off; per set it writes the figures of each query to DIR. `table`
prints, rule by set, the difference of mean reciprocal rank and of recall@10, shipped minus without, in percent points, with
its paired 95 % bootstrap interval over queries. `*` marks sets on which the rule's numbers were chosen; of every
set only the half counts that was held out when it was made.
"""

from __future__ import annotations

import argparse
import asyncio
import importlib
import json
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import numpy.typing as npt
import platformdirs

from benchmarks import issue_texts, lookup, memory_recall, polyglot, questions
from benchmarks.history_store import HistoryStore
from benchmarks.history_store import pieces as history_pieces
from benchmarks.localisation import PLAIN, TUNED, Variant
from benchmarks.localisation_corpus import Query, embed, fetch, pieces, read_queries
from benchmarks.memory_store import MemoryStore
from benchmarks.polyglot_corpus import PROJECTS, WHOLE
from plait.models import embedding
from plait.ports import EmbeddingProvider, Place, SearchStore, View
from plait.retrieval.query import analysis, bug_report, nearness, own_names, strategy
from plait.retrieval.ranking import (
    coherence,
    files,
    freshness,
    memory_score,
    query_intent,
    signals,
    threads,
    trust,
    verbatim,
)
from plait.retrieval.search import SearchQuery, SearchService
from plait.retrieval.search_context import Deps
from plait.settings import EmbeddingSettings, SearchSettings, parse

# Modules that `plait.retrieval.stages` hides behind its functions.
fts = importlib.import_module("plait.retrieval.stages.fts")
tags = importlib.import_module("plait.retrieval.stages.tags")

CODE = ("messages", "names", "docstrings", "issues", "questions", "polyglot")
MEMORIES = ("made", "chats", "runs", "transcripts", "alone")
SHIPPED, BASE = "shipped", "BM25 alone"
K = 60  # chunks
Figures = npt.NDArray[np.float64]  # (queries, 2): reciprocal rank, recall@10


@dataclass(frozen=True, slots=True)
class Rule:
    """`without` replaces fields of a module's `WEIGHTS`, or names of the module. `tuned`: sets it was fitted on."""

    name: str
    without: Sequence[tuple[Any, Mapping[str, Any]]]
    tuned: frozenset[str] = frozenset()
    recall: Mapping[str, float] = field(default_factory=dict)
    search: Mapping[str, str] = field(default_factory=dict)

    @contextmanager
    def off(self) -> Iterator[None]:
        with ExitStack() as stack:
            for module, names in self.without:
                own = {n: v for n, v in names.items() if hasattr(module, n)}
                fields = {n: v for n, v in names.items() if n not in own}
                if fields:
                    own["WEIGHTS"] = replace(module.WEIGHTS, **fields)
                for name, value in own.items():
                    stack.enter_context(mock.patch.object(module, name, value))
            yield


def nothing(*given: object, **named: object) -> dict[Any, Any]:
    return {}


def same(text: Any, *given: object) -> Any:
    return text


_MESSAGES = frozenset({"messages"})
_TALK = frozenset({"made", "chats", "runs"})
_RUNS = frozenset({"runs", "transcripts", "alone"})
_KINDS = dict(signals.WEIGHTS.factors)


def _kinds(*names: str) -> dict[str, Any]:
    return {"factors": {**_KINDS, **dict.fromkeys(names, 1.0)}}


CODE_RULES = (
    Rule("name bonus", [(signals, {"name": 0.0})], _MESSAGES),
    Rule("definition bonus", [(signals, {"definition": 0.0, "definition_in_long": 0.0})], _MESSAGES),
    Rule("definition halved in long", [(signals, {"definition_in_long": signals.WEIGHTS.definition})], _MESSAGES),
    Rule("tests, prose, examples down", [(signals, _kinds("test", "prose", "example"))], _MESSAGES),
    Rule("config, stubs down", [(signals, _kinds("config", "stub"))], _MESSAGES),
    Rule("minified down", [(signals, _kinds("minified"))], _MESSAGES),
    Rule("class chunk down in long", [(signals, {"class_in_long": 1.0})], _MESSAGES),
    Rule("a short query asks for a kind", [(signals, {"short_words": 0})], _MESSAGES),
    Rule("identifiers: words more", [(strategy, {"semantic": dict.fromkeys(("identifiers", "plain"), 0.6)})], _MESSAGES),
    Rule("phrase arm", [(strategy, {"phrase": 0.0})], _MESSAGES),
    Rule("identifiers arm", [(strategy, {"identifiers": 0.0})], _MESSAGES),
    Rule("exact arm", [(strategy, {"exact": 0.0})], frozenset({"made"})),
    Rule("anchors arm in prose", [(strategy, {"anchors_in_prose": 0.0})], _MESSAGES),
    Rule("words as one name: term", [(fts, {"_joined": nothing})]),
    Rule("words as one name: all", [(analysis, {"joined": lambda text: ()})]),
    Rule("parts of a symbol", [(coherence, {"share": 0.0, "long_share": 0.0})], _MESSAGES),
    Rule("parts: more in long", [(coherence, {"long_share": coherence.WEIGHTS.share})], _MESSAGES),
    Rule("files: several chunks", [(files, {"share": 0.0})], frozenset({"questions"})),
    Rule("files: further hits down", [(files, {"again": 1.0})], frozenset({"questions"})),
    Rule("files: further parts down", [(files, {"part": 1.0})], frozenset({"questions"})),
    Rule("bug reports", [(bug_report, {"least_words": 10**9})], frozenset({"issues"})),
    Rule("bug reports: title", [(bug_report, {"title": 1.0})], frozenset({"issues"})),
    Rule("bug reports: shown", [(bug_report, {"shown": 1.0})], frozenset({"issues"})),
    Rule("issue forms", [(analysis, {"plain": same})], frozenset({"issues"})),
    Rule("own names", [(own_names, {"without": same})]),
    Rule("expansion in searches", [], search={"expansion": "on"}),
)  # fmt: skip
MEMORY_RULES = (  # of agents' items; code is none
    Rule("neighbour boost", [(threads, {"share": 0.0, "answer": 0.0})], _TALK),
    Rule("neighbours: the answer's question", [(threads, {"answer": 0.0})], _TALK),
    Rule("questions down", [(threads, {"question": 1.0})], _TALK),
    Rule("short turns down", [(threads, {"short": 0.0})], _TALK),
    Rule("query intent", [(query_intent, {"intent_factors": nothing})], _RUNS),
    Rule("intent: change", [(query_intent, {"change_not_asked": 1.0})], _RUNS),
    Rule("intent: prompt", [(query_intent, {"prompt_not_asked": 1.0})], _RUNS),
    Rule("intent: output", [(query_intent, {"output_not_asked": 1.0})], _RUNS),
    Rule("intent: agent", [(query_intent, {"agent_not_asked": 1.0})], _RUNS),
    Rule("intent: not the user", [(query_intent, {"not_the_user": 1.0})], _RUNS),
    Rule("intent: user", [(query_intent, {"user_not_asked": 1.0})], _RUNS),
    Rule("intent: announces next step", [(query_intent, {"announces_next_step": 1.0})], _RUNS),
    Rule("intent: first and last", [(query_intent, {"order": 0.0})], _RUNS),
    Rule("vectors less for memories", [(memory_score, {"similarity": nothing})], _TALK),
    Rule("recency more for newest", [(memory_score, {"newest": 1.0})], frozenset({"made"})),
    Rule("recency", [], frozenset({"made"}), recall={"recency_weight": 0.0}),
    Rule("importance", [], frozenset({"made"}), recall={"importance_weight": 0.0}),
    Rule("freshness", [(freshness, {"freshness_factors": nothing})], frozenset({"made"})),
    Rule("trust", [(trust, {"trust_factors": nothing})]),
    Rule("verbatim", [(verbatim, {"passage_factors": nothing})]),
    Rule("time named", [(nearness, {"in_time": nothing})]),
    Rule("tags", [(tags, {"tagged": 0.0})]),
)  # fmt: skip
RULES = (*CODE_RULES, *MEMORY_RULES)


class Remembered:
    """A store that is asked the same once: of one index nothing depends on a rule but the questions."""

    def __init__(self, store: MemoryStore) -> None:
        self._store = store
        self._answers: dict[Any, Any] = {}
        self._places: dict[Any, Place] = {}

    def __getattr__(self, name: str) -> Callable[..., Any]:
        async def ask(view: View, *given: Any) -> Any:
            key = (name, *map(_key, given))
            if key not in self._answers:
                self._answers[key] = await getattr(self._store, name)(view, *given)
            return self._answers[key]

        return ask

    async def view(self, where: Any) -> View:
        return await self._store.view(where)

    async def places(self, view: View, ids: Sequence[Any]) -> dict[Any, Place]:
        fresh = [id_ for id_ in ids if id_ not in self._places]
        self._places.update(await self._store.places(view, fresh))
        return {id_: self._places[id_] for id_ in ids}

    def piece(self, id_: Any) -> Any:
        return self._store.piece(id_)


def _key(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return value.tobytes()
    return repr(value)


class RememberedModel:
    """The provider, embedding a query once."""

    def __init__(self, provider: EmbeddingProvider) -> None:
        self._provider = provider
        self._vectors: dict[str, Any] = {}

    def __getattr__(self, name: str) -> Any:
        return getattr(self._provider, name)

    async def embed_query(self, text: str) -> Any:
        if text not in self._vectors:
            self._vectors[text] = await self._provider.embed_query(text)
        return self._vectors[text]


@dataclass(frozen=True, slots=True)
class Case:
    """A query over a store. `judge`: from the ids of a ranking to its two figures."""

    store: SearchStore
    text: str
    held_out: bool
    judge: Callable[[Sequence[Any]], tuple[float, float]]


def judged(relevant: frozenset[Any], ranking: Sequence[Any]) -> tuple[float, float]:
    """Reciprocal rank of the first relevant and recall@10, of a ranking in which each thing counts once."""
    once = list(dict.fromkeys(one for one in ranking if one))
    first = next((n for n, one in enumerate(once, 1) if one in relevant), 0)
    return 1.0 / first if first else 0.0, len(relevant & set(once[:10])) / len(relevant)


def _code_case(store: Any, query: Query, *, held_out: bool) -> Case:
    """By function where the query has some, else by file."""
    by_function = bool(query.functions)

    def judge(ids: Sequence[Any]) -> tuple[float, float]:
        found = [store.piece(id_) for id_ in ids]
        names = [piece.function if by_function else piece.path for piece in found]
        return judged(query.functions if by_function else query.files, names)

    return Case(store, query.text, held_out, judge)


class Sets:
    """Loads sets, each with its stores."""

    def __init__(self, args: argparse.Namespace, provider: EmbeddingProvider) -> None:
        self._args, self._provider, self._cache = args, provider, args.cache

    async def load(self, name: str) -> list[Case]:
        if name in MEMORIES:
            cases = await self._memories(name)
        elif name == "questions":
            cases = await self._questions()
        elif name == "polyglot":
            cases = await self._polyglot()
        else:
            cases = await self._packages(name)
        return sorted(
            random.Random(7).sample(cases, min(self._args.most, len(cases))), key=lambda c: c.text
        )

    async def _store(self, name: str, found: Sequence[Any], folder: str) -> Any:
        vectors = await embed(found, self._provider, self._cache / folder)
        return Remembered(MemoryStore(name, found, vectors, self._provider.model))

    async def _packages(self, name: str) -> list[Case]:
        issues = name == "issues"
        queries, versions = (
            issue_texts.read_texts(issue_texts.TEXTS) if issues else read_queries(self._args.eval)
        )
        tuned = issue_texts.TUNED if issues else TUNED
        cases: list[Case] = []
        for package, version in versions.items():
            if self._args.only and package not in self._args.only.split(","):
                continue
            found = pieces(fetch(package, version, self._cache / "sdists"))
            asked = [query for query in queries if query.package == package]
            chance = random.Random(7)
            if name in ("names", "docstrings"):
                asked = lookup.by_name(package, found, 80, chance)
            if name == "docstrings":
                found, asked = lookup.by_docstring(package, found, 80, chance)
            store = await self._store(package, found, "vectors")
            cases += [_code_case(store, query, held_out=package not in tuned) for query in asked]
        return cases

    async def _questions(self) -> list[Case]:
        cases: list[Case] = []
        projects = {project.name: project for project in WHOLE}
        for half, file in questions.HALVES.items():
            asked = questions.questions(file, half)
            for name in dict.fromkeys(question.project for question in asked):
                if self._args.only and name not in self._args.only.split(","):
                    continue
                store = Remembered(
                    await questions.store_of(projects[name], self._cache, self._provider)
                )
                for one in asked:
                    if one.project == name:
                        query = Query(name, one.text, one.files, frozenset())
                        cases.append(_code_case(store, query, held_out=half == "held out"))
        return cases

    async def _polyglot(self) -> list[Case]:
        cases: list[Case] = []
        for project in PROJECTS:
            if self._args.only and project.name not in self._args.only.split(","):
                continue
            made = await polyglot.tree(project, self._cache, 10, 400, self._provider)
            store = Remembered(made.store)
            for one in made.asked:
                query = Query(project.name, one.text, frozenset({one.path}), frozenset())
                cases.append(_code_case(store, query, held_out=project.held_out))
        return cases

    async def _memories(self, family: str) -> list[Case]:
        cases = []
        for history in memory_recall._family(family, self._args):
            vectors = await embed(
                history_pieces(history), self._provider, self._cache / "memory-vectors"
            )
            store: Any = Remembered(HistoryStore(history, vectors, self._provider.model))
            for question in history.questions:
                gold = frozenset(
                    g + 1 for g in question.gold if g >= 0
                )  # ids from 1, so that none is false
                if gold:
                    cases.append(
                        Case(
                            store,
                            question.text,
                            history.held_out,
                            partial(_judged_by_place, gold),
                        )
                    )
        return cases


def _judged_by_place(gold: frozenset[int], ids: Sequence[Any]) -> tuple[float, float]:
    return judged(gold, [id_.int + 1 for id_ in ids])


async def ranked(case: Case, rule: Rule, provider: Any, *, memories: bool) -> tuple[float, float]:
    settings = parse(SearchSettings, rule.search)
    off = rule.name == BASE
    if memories:
        variant = (
            memory_recall.Variant(BASE, frozenset({"lexical"}), memory_recall.OPTIONAL)
            if off
            else memory_recall.Variant(SHIPPED)
        )
        over: Deps = memory_recall.deps(case.store, provider, **rule.recall)
        ctx = await memory_recall.asked(
            case.text, replace(over, settings=settings), variant.stages(), silent=False
        )
        return case.judge(ctx.order)
    stages = (
        Variant(BASE, frozenset({"lexical"}), off=PLAIN) if off else Variant(SHIPPED)
    ).stages()
    service = SearchService(case.store, provider, settings, stages)
    answer = await service.search(SearchQuery(case.text, k=K))
    return case.judge([hit.item.id for hit in answer.hits])


async def run(args: argparse.Namespace) -> None:
    opened = await embedding.open(EmbeddingSettings())
    provider: Any = RememberedModel(opened)
    args.out.mkdir(parents=True, exist_ok=True)
    for name in args.sets.split(","):
        cases = await Sets(args, provider).load(name)
        found: dict[str, Any] = {"held out": [case.held_out for case in cases]}
        rules = RULES if name in MEMORIES else CODE_RULES
        named = [r for r in rules if any(part in r.name for part in args.rules.split(","))]
        for rule in (Rule(SHIPPED, ()), Rule(BASE, ()), *named):
            with rule.off():
                found[rule.name] = [
                    await ranked(case, rule, provider, memories=name in MEMORIES) for case in cases
                ]
        (args.out / f"{name}.json").write_text(json.dumps(found))
        print(f"{name}: {len(cases)} queries, {sum(found['held out'])} held out", flush=True)
    await opened.close()


def table(folder: Path) -> None:
    """Two tables in Markdown: sets of code, sets of memories."""
    read = {file.stem: json.loads(file.read_text()) for file in sorted(folder.glob("*.json"))}
    for family, rules in ((CODE, CODE_RULES), (MEMORIES, RULES)):
        sets = [name for name in family if name in read]
        counts = [f"{name} ({sum(read[name]['held out'])})" for name in sets]
        print("\n| MRR; R@10 | " + " | ".join(counts) + " |\n|---" * 1 + "|---" * len(sets) + "|")
        for rule in (Rule(SHIPPED, ()), Rule(BASE, ()), *rules):
            cells = [_cells(read[name], rule, name in rule.tuned) for name in sets]
            if any(cells):
                print(f"| {rule.name} | " + " | ".join(cell or "=" for cell in cells) + " |")


def _cells(found: Mapping[str, Any], rule: Rule, fitted: bool) -> str:
    both = [_cell(found, rule.name, metric, fitted) for metric in (0, 1)]
    return "; ".join(cell or "=" for cell in both) if any(both) else ""


def _cell(found: Mapping[str, Any], rule: str, metric: int, fitted: bool) -> str:
    held = np.array(found["held out"], bool)
    if rule not in found:
        return ""
    shipped, rows = (np.array(found[name])[held, metric] * 100.0 for name in (SHIPPED, rule))
    if rule in (SHIPPED, BASE):
        return f"{rows.mean():.1f}"
    difference = shipped - rows
    if not difference.any():
        return ""
    drawn = np.random.default_rng(7).integers(0, len(difference), (2000, len(difference)))
    low, high = np.percentile(difference[drawn].mean(axis=1), [2.5, 97.5])
    return f"{difference.mean():+.1f} ({low:+.1f} … {high:+.1f}){'*' if fitted else ''}"


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    commands = parser.add_subparsers(dest="command", required=True)
    runner = commands.add_parser("run")
    runner.add_argument("eval", type=Path, help="the commit messages, JSON lines")
    runner.add_argument("--sets", default=",".join((*CODE, *MEMORIES)))
    runner.add_argument(
        "--rules", default="", help="those whose names hold one of these, by commas"
    )
    runner.add_argument("--only", default="", help="these packages or projects, by commas")
    runner.add_argument("--most", type=int, default=400, help="queries of a set, drawn by chance")
    runner.add_argument("--histories", type=int, default=8, help="of the set `made`")
    cache = Path(platformdirs.user_cache_dir("plait-benchmarks", appauthor=False))
    runner.add_argument("--cache", type=Path, default=cache, help="trees and vectors")
    for one in (runner, commands.add_parser("table")):
        one.add_argument("--out", type=Path, required=True, help="a folder, one file a set")
    args = parser.parse_args()
    if args.command == "run":
        asyncio.run(run(args))
    else:
        table(args.out)


if __name__ == "__main__":
    main()
