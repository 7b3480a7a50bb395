"""Formats answers as a context block for a prompt, in the client, without a server call."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime

from plait.domain.answers.recalls import RecallResult
from plait.domain.errors import InvalidInput
from plait.domain.memory import MemoryMatch
from plait.domain.recall import Freshness, RecalledItem, RecallFormat, Tier, Trust
from plait.domain.values import Collection, Hit, Item, ItemId
from plait.retrieval.packing import markdown, repo_map, wording
from plait.retrieval.packing.neighbours import alone
from plait.retrieval.packing.pack import Limits, pack
from plait.retrieval.packing.piece import MAX_TITLE, Body, Piece
from plait.text import token_count

BUDGET_TOKENS = 4_000
_OWN_VOICE = frozenset({"user", "assistant", "agent", "human"})
_OUTSIDE_TAGS = frozenset({"external", "web", "tool-output"})
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def format_context(
    found: RecallResult | Sequence[Hit | MemoryMatch],
    *,
    budget_tokens: int | None = None,
    tokenizer: str = "",
) -> str:
    """`## Relevant Memories` and one bullet an item, best first; "" for nothing.

    Of a recall its context, of a structured one its items: within the recall's own budget, or a smaller
    `budget_tokens`, for which items step down to a line or are left out. Hits of `search` and matches of
    memories are packed into `budget_tokens`, default 4,000, as a recall packs. `tokenizer`: the model
    that will read the block; default: for a recall its own. Text that comes, or may come, from outside
    is quoted. Raises: InvalidInput, for a budget below 1.
    """
    if budget_tokens is not None and budget_tokens < 1:
        raise InvalidInput(
            f"budget_tokens is {budget_tokens}; give 1 or more, or None for the default",
            field="budget_tokens",
        )
    if isinstance(found, RecallResult):
        return _of_recall(found, budget_tokens, tokenizer)
    if not found:
        return ""
    counter = token_count.counter(tokenizer)
    budget = BUDGET_TOKENS if budget_tokens is None else budget_tokens
    limits = Limits(budget, counter, len(found), {"code": 1.0, "memory": 1.0})
    pieces = {piece.item.id: piece for piece in map(_piece, found)}
    return pack(tuple(pieces.values()), limits, RecallFormat.MARKDOWN).context


def _of_recall(found: RecallResult, budget: int | None, tokenizer: str) -> str:
    if found.context and budget is None:
        return found.context
    counter = (
        token_count.counter(tokenizer) if tokenizer else token_count.counter_for(found.counted)
    )
    most = counter.usable(found.budget if budget is None else budget)
    if found.context and counter.count(found.context) <= most:
        return found.context
    if found.context.startswith(repo_map.HEADING):
        parts = found.context.removeprefix(repo_map.HEADING).splitlines(keepends=True)
        return _filled(repo_map.HEADING, [[line] for line in parts], most, counter)
    if not found.context:
        return _filled(
            markdown.HEADING, [[_bullet(one), _line(one)] for one in found.items], most, counter
        )
    # The lines of an impact come before the items, whose texts are the rest.
    before = found.context.removesuffix("".join(one.text for one in found.items))
    lines = before.removeprefix(markdown.HEADING).splitlines(keepends=True)
    ways = [[line] for line in lines] + [[one.text, _line(one)] for one in found.items]
    return _filled(markdown.HEADING, ways, most, counter)


def _filled(
    head: str, ways: Sequence[Sequence[str]], most: int, counter: token_count.Counter
) -> str:
    """`head` and the parts that fit into `most` tokens; "" if none does. First the least of each part in its
    order, until one is too long, then more of them: so a larger budget has no fewer parts. A place of a file,
    which begins with blanks, needs the bullet of its file, which comes with the place before it."""
    left = most - counter.count(head)
    texts: list[str] = []
    for parts in ways:
        least = parts[-1] or parts[0]
        cost = counter.count(least)
        if cost > left:
            break
        texts.append(least)
        left -= cost
    headed = False  # whether the last bullet is as it was
    for i, (least, (whole, *_)) in enumerate(zip(texts, ways, strict=False)):
        is_place = whole.startswith("  ") and head == markdown.HEADING
        more = counter.count(whole) - counter.count(least)
        fits = more <= left and (headed or not is_place)
        headed = fits
        if fits:
            texts[i] = whole
            left -= more
    while texts and counter.count(head + "".join(texts)) > most:
        texts.pop()
    return head + "".join(texts) if texts else ""


def _line(one: RecalledItem) -> str:
    """The least that a recall shows of `one`; "" where its text did not come."""
    if one.item.collection is Collection.FILES:
        return _bullet(replace(one, tier=Tier.LINE, text=""))
    sentence = wording.first_sentence(one.item.content, MAX_TITLE)
    return _bullet(replace(one, tier=Tier.LINE, text=sentence)) if sentence else ""


def _bullet(one: RecalledItem) -> str:
    text = one.text
    if one.trust is Trust.EXTERNAL:  # it is quoted already, and the bullet quotes it again
        text = "".join(line.removeprefix("> ") + "\n" for line in text.split("\n")).strip()
    piece = Piece(one.item, one.score, one.reasons, one.trust, one.freshness)
    beside = one.tier is Tier.LINE or (piece.is_code and one.tier is Tier.OUTLINE)
    if piece.is_code and one.tier is Tier.LINE:
        text = ""  # its bullet names it
    where = alone(one.item)
    body = Body(one.tier, where, line=text.strip()) if beside else Body(one.tier, where, block=text)
    return "".join(markdown.bullet(piece, body))


def _piece(found: Hit | MemoryMatch) -> Piece:
    item = found.item if isinstance(found, Hit) else _item(found)
    is_code = item.collection is Collection.FILES
    fresh = Freshness.FRESH if is_code else Freshness.UNVERIFIABLE
    return Piece(item, found.score, (), _trust(item), fresh)


def _trust(item: Item) -> Trust:
    """A hit has less about its source than a recall: turns and notes whose speaker is not known count as
    from outside."""
    if item.collection is Collection.FILES:
        return Trust.REPOSITORY
    role = str(item.meta.get("role", "")).lower()
    external = (
        item.meta.get("trust") == "external"
        or item.meta.get("rule") == "tool"
        or not _OUTSIDE_TAGS.isdisjoint(item.tags)
        or (item.kind in ("turn", "note") and role not in _OWN_VOICE)
    )
    return Trust.EXTERNAL if external else Trust.AGENT_CLAIMED


def _item(match: MemoryMatch) -> Item:
    entry = match.entry
    return Item(
        id=ItemId(entry.id),
        collection=Collection.MEMORIES,
        repo=entry.repo,
        kind=entry.kind,
        path=entry.path,
        symbol=entry.symbol,
        language="",
        start_line=0,
        end_line=0,
        content=entry.content,
        ts=entry.updated_at or entry.created_at or _EPOCH,
        meta=dict(entry.metadata.custom),
        tags=entry.metadata.tags,
    )
