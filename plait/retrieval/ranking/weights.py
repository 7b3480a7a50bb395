"""Every number that ranks an answer, with the set that it was fitted on.

One frozen tree of values, `DEFAULT`. A module that ranks takes its branch as `WEIGHTS` and has no number of its own;
benchmarks/ablation.py switches rules off by replacing a branch. What a caller may change (the weights of importance
and recency, the bound of feedback, the bar of silence) is in `plait/settings.py`.

The sets: *messages* (benchmarks/localisation.py, 300 commit messages), *lookups* (lookup.py), *questions*
(questions.py), *issues* (issue_texts.py), *polyglot* (polyglot.py), *histories*, *chats*, *runs*, *transcripts*
(memory_recall.py), *contexts* (context_budget.py), *impact* (tests_to_run.py), *rounds* (feedback_rounds.py). "Guessed"
means that nobody measured it. docs/experiments/rules.md has what each rule is worth on sets that it was not fitted on.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TypeVar

from plait.domain.recall import Freshness, Tier, Trust

K = TypeVar("K")
V = TypeVar("V")


def _table(values: dict[K, V]) -> Mapping[K, V]:
    """A read-only table as a field's default."""
    table: Mapping[K, V] = field(default_factory=lambda: MappingProxyType(values))
    return table


@dataclass(frozen=True, slots=True)
class ArmWeights:
    """What an arm's scaled scores count in the fused score."""

    # Of `semantic` by kind of query; `lexical` has the rest. Messages, lookups.
    semantic: Mapping[str, float] = _table({"identifiers": 0.4, "plain": 0.6})
    # Of `semantic`, where no code has a vector yet. Guessed.
    least_semantic: float = 0.3
    # The same where the static table has all of it. Messages.
    semantic_by_table: float = 0.5
    # Of `semantic` for agents' items in a plain question. Chats, histories, runs.
    memories_semantic: float = 0.6
    phrase: float = 0.5  # messages
    identifiers: float = 0.5  # messages
    exact: float = 1.0  # histories
    # Above so many items a number tells them apart from nothing. Histories.
    most_exact: int = 20
    # Of a name whose words the query has, beside the words: 0.5 and 1 are the same on polyglot.
    joined_name: float = 0.5
    # 0.3 to 0.6 are the same on messages. For traces and diffs: traces made of Django's functions.
    anchors_in_prose: float = 0.5
    anchors: Mapping[str, float] = _table({"stack-trace": 1.5, "diff": 1.5})
    # Added to the fused score, of what no other arm found. Guessed.
    relations: float = 0.3
    relations_at_locations: float = 0.5
    links: float = 0.3
    relation_seeds: int = 20  # messages: a little better than 10 or 60
    of_file: float = 0.4  # a file's links beside those of the symbol itself; guessed
    rrf_k: int = 60  # Cormack, Clarke and Büttcher, SIGIR 2009
    placed: int = 80  # messages: with 50 recall@10 falls by 3 points, 240 give nothing


@dataclass(frozen=True, slots=True)
class LocationWeights:
    """How sure it is that a location named in the text is meant. Guessed; only the order is used where one kind
    of location is alone."""

    path_line: float = 1.0
    path: float = 0.8
    test: float = 0.9
    symbol: float = 0.8
    leaf: float = 0.4
    frame_decay: float = 0.85  # the next frame out, of the repository's own
    whole_file: float = 0.5  # a chunk of a file that is named without a line
    around: float = 0.8  # the next wider chunk round the same lines


@dataclass(frozen=True, slots=True)
class ExpansionWeights:
    """Further terms beside 1.0 for the query's own."""

    related: float = 0.3  # for a word that no name holds, one of its family; lookups, issues
    joined: float = 0.25  # a name made of words that follow each other; lookups, issues
    by_model: float = 0.3  # guessed


@dataclass(frozen=True, slots=True)
class ReportWeights:
    """Terms of a bug report beside 1.0 for those of its prose. Issues of other projects."""

    title: float = 2.0
    shown: float = 0.3  # in code and logs alone
    least_words: int = 30
    least_telling: int = 3  # guessed


@dataclass(frozen=True, slots=True)
class SignalWeights:
    """What a chunk's location and name add to its score or take from it. Messages."""

    definition: float = 0.3  # the query writes its name as code does, or in plain words
    definition_in_long: float = 0.15  # a long text names what it calls, too
    name: float = 0.15  # all words of its name are in the query; half of it for class and file
    factors: Mapping[str, float] = _table(
        {"test": 0.3, "prose": 0.3, "example": 0.3, "config": 0.5, "stub": 0.5, "minified": 0.3}
    )
    class_in_long: float = 0.8  # a class's own chunk, its methods apart
    long_words: int = 20
    short_words: int = 5  # a query up to here that says "test" asks for tests


@dataclass(frozen=True, slots=True)
class PartWeights:
    """Parts of one long symbol, of which each has a share of its words only. Messages; lookups lose 0.4 of MRR."""

    share: float = 0.1  # of the other parts' scores; 0.05 to 0.2 are all better than none
    long_words: int = 20
    long_share: float = 0.2


@dataclass(frozen=True, slots=True)
class FileWeights:
    """Several chunks of one file among hits. Questions, messages."""

    best: int = 3  # chunks whose scores make the file's; 2 to 5 are much the same
    share: float = 1.0  # what the best file's chunks gain over a file that has nothing
    again: float = 0.95  # each further hit of a file
    part: float = 0.5  # each further part of a symbol


@dataclass(frozen=True, slots=True)
class ThreadWeights:
    """Turns of one session: the neighbour boost, and what a turn is. Chats, histories, runs."""

    reach: int = 4  # turns on either side
    share: float = 0.2  # of a neighbour's score, by its distance
    answer: float = 0.3  # of what the words say of the turn right before
    seeds: int = 32
    short_reply: int = 16  # tokens up to which a turn is shown with what it replies to; guessed
    question: float = 0.7  # a turn that is nothing but a question
    short: float = 0.5  # a turn of n tokens counts 1 − short · e^(−n / tokens)
    tokens: float = 5.0


@dataclass(frozen=True, slots=True)
class IntentWeights:
    """Items of an agent's run by what the question is about. Runs, transcripts; 0.5 to 0.85 are within two points
    of MRR of each other."""

    change_not_asked: float = 0.6
    prompt_not_asked: float = 0.6
    output_not_asked: float = 0.75
    agent_not_asked: float = 0.75
    not_the_user: float = 0.75
    user_not_asked: float = 0.75
    announces_next_step: float = 0.7
    order: float = 0.3  # what is last, where the first is asked for; 0.15 gives half as much


@dataclass(frozen=True, slots=True)
class MemoryWeights:
    """What multiplies scores of agents' items."""

    newest: float = 3.0  # recency, in a question for what is so now; histories
    outside_time: float = 0.6  # written outside the time that the query names; guessed
    same_session: float = 1.1  # guessed
    other_agent: float = 0.95  # guessed
    compacted: float = 0.6  # guessed
    verbatim: float = 3.0  # holds all of a pasted passage; guessed
    passage_chars: int = 40
    passage_question_chars: int = 100
    tagged: float = 0.1  # added to 1; guessed
    # Bounded, so that a memory of code that is gone can still be the best answer. Guessed.
    freshness: Mapping[Freshness, float] = _table(
        {
            Freshness.FRESH: 1.0,
            Freshness.DRIFTED: 0.9,
            Freshness.ORPHANED: 0.75,
            Freshness.UNVERIFIABLE: 1.0,
        }
    )
    # Where only the text names the code, maybe in passing. Guessed.
    freshness_of_text: Mapping[Freshness, float] = _table(
        {
            Freshness.FRESH: 1.0,
            Freshness.DRIFTED: 0.95,
            Freshness.ORPHANED: 0.85,
            Freshness.UNVERIFIABLE: 1.0,
        }
    )
    # What outranks by more than this is the better answer whoever claims it. Guessed.
    trust: Mapping[Trust, float] = _table(
        {
            Trust.REPOSITORY: 1.0,
            Trust.TEST_PASSED: 1.05,
            Trust.AGENT_CLAIMED: 1.0,
            Trust.EXTERNAL: 0.9,
        }
    )


@dataclass(frozen=True, slots=True)
class FeedbackWeights:
    """What a report counts as evidence on an item. Rounds."""

    prior: float = 2.0  # pseudo-reports on either side: one verdict moves a factor by a fifth
    named: float = 1.0  # a verdict on the item itself
    unused: float = 0.1  # read, and made no difference
    success: float = 0.5  # of an outcome, over all items it is attributed to
    failure: float = 0.25  # failures have more causes than the context
    unproven: float = 0.5  # of an outcome for which no test or CI job is named
    source_cap: float = 2.0  # of one source on one item, decayed, to each side


@dataclass(frozen=True, slots=True)
class SilenceRegression:
    """Coefficients of a logistic regression over `silence.Features`, in the order of `silence.row`."""

    bias: float
    covered: float  # of coverage · ln(1 + terms): longer texts are covered less
    terms: float  # of ln(1 + terms)
    unseen: float
    cosine: float


@dataclass(frozen=True, slots=True)
class SilenceWeights:
    """By `benchmarks.memory_silence --fit` on the first half of its sets: histories, messages without celery."""

    with_cosine: SilenceRegression = SilenceRegression(-3.981, 1.417, -0.853, -1.69, 12.56)
    words_alone: SilenceRegression = SilenceRegression(0.212, 1.661, -0.875, -2.231, 0.0)
    same_name: float = (
        0.8  # trigram similarity from which a symbol is the one named: `ping` is not `typing` (0.5)
    )
    min_idf: float = 1.0


@dataclass(frozen=True, slots=True)
class SecondOpinionWeights:
    """A model's score of a candidate beside the one it had. Guessed: no such model comes in any package."""

    local_model: float = 0.5
    chat_model: float = 0.7


@dataclass(frozen=True, slots=True)
class GraphWeights:
    """What a relation passes on."""

    # Mass along a relation, to its target and to its source. Guessed: none left out changed messages.
    pagerank: Mapping[str, tuple[float, float]] = _table(
        {
            "CALLS": (1.0, 1.0),
            "CONTAINS": (0.5, 0.5),
            "IMPORTS": (0.3, 0.3),
            "INHERITS": (0.7, 0.7),
            "OVERRIDES": (1.0, 1.0),
            "VALIDATED_BY": (0.5, 0.5),
        }
    )
    # That both ends of a link belong together, times its confidence. Guessed.
    links: Mapping[str, float] = _table(
        {
            "TOUCHES": 1.0,
            "FIXES": 1.0,
            "CAUSES": 1.0,
            "VALIDATED_BY": 0.8,
            "MENTIONS": 0.8,
            "DERIVED_FROM": 0.5,
            "SIMILAR_TO": 0.5,
            "CONTAINS": 0.5,
        }
    )
    # One hop back from a changed symbol: 0.5 to 0.8 for calls differ by half a point. Impact.
    back: Mapping[str, float] = _table({"CALLS": 0.65, "INHERITS": 0.6, "OVERRIDES": 0.3})
    forth: Mapping[str, float] = _table({"VALIDATED_BY": 1.0})
    imported: float = 0.4  # from modules alone: who imports them
    least_reached: float = 0.02  # below it a path says nothing
    frame: float = 0.5  # a frame of a trace beside the one inside it; less than a call passes on
    test_words: float = 0.5  # impact: from 0.2 to 1.0 little changes
    proven_test: float = 0.9  # a test that a change of the symbol turned green
    sure: float = 0.9  # confidence of a call whose definition was seen, not just its name
    # Of the candidates of code, from which their package is the repository's own. Guessed.
    own_package: float = 0.5


@dataclass(frozen=True, slots=True)
class PackingWeights:
    """What an item is worth in a context, and what each way to show it shows of that. Contexts."""

    code_shown: Mapping[Tier, float] = _table({Tier.FULL: 1.0, Tier.OUTLINE: 0.15, Tier.LINE: 0.13})
    memory_shown: Mapping[Tier, float] = _table(
        {Tier.FULL: 1.0, Tier.OUTLINE: 0.2, Tier.LINE: 0.05}
    )
    sharpness: float = 3.0  # an item is worth its score to this power
    size: float = 0.75  # worth grows with length to this power
    usual_chars: int = 480  # at which length counts 1
    max_chars: int = 1200  # from which it counts no more
    outside: float = 0.4  # what is in no function; a compromise
    joined: float = 1.05  # joined neighbours make an item readable; guessed
    impact_share: float = 0.3  # of the budget, for what a change reaches; guessed
    names_first: int = 300  # tokens that names may have before any source is shown
    names_share: float = 0.4  # and their share of a larger budget
    names_beside_source: float = 0.2  # and of any, where source is asked for
    repeated: float = 0.8  # share of a text's lines that shown code has already; guessed


@dataclass(frozen=True, slots=True)
class Weights:
    arms: ArmWeights = ArmWeights()
    locations: LocationWeights = LocationWeights()
    expansion: ExpansionWeights = ExpansionWeights()
    reports: ReportWeights = ReportWeights()
    signals: SignalWeights = SignalWeights()
    parts: PartWeights = PartWeights()
    files: FileWeights = FileWeights()
    threads: ThreadWeights = ThreadWeights()
    intent: IntentWeights = IntentWeights()
    memories: MemoryWeights = MemoryWeights()
    feedback: FeedbackWeights = FeedbackWeights()
    silence: SilenceWeights = SilenceWeights()
    second_opinions: SecondOpinionWeights = SecondOpinionWeights()
    graph: GraphWeights = GraphWeights()
    packing: PackingWeights = PackingWeights()


DEFAULT = Weights()
