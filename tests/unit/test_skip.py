"""Which texts need no memory: a labelled table, and that nothing is asked for them."""

from __future__ import annotations

from typing import cast

import pytest

from plait.domain.recall import PackingOptions
from plait.ports import SearchStore
from plait.retrieval.query import skip
from plait.retrieval.query.analysis import SearchQuery
from plait.retrieval.query.skip import transactional
from plait.retrieval.query.strategy import Kind
from plait.retrieval.recall import RecallService
from plait.retrieval.search_context import Deps
from plait.settings import SearchSettings

SKIPPED = {
    skip.GREETING: """
        hello | Hi! | hey there | Good morning, Claude! | Thanks a lot!! | thank you so much | bye
        Guten Tag | Danke schön! | Tschüss | Grüß Gott | Bonjour ! | Merci beaucoup | À bientôt
        ¡Hola! | Muchas gracias | Buenos días | Olá | Muito obrigado | Bom dia! | Ciao | Grazie mille
        Dank je wel | Hej då | Kiitos | Cześć | Dziękuję | Привет! | Спасибо большое | Merhaba
        Teşekkür ederim | 你好 | 谢谢！ | こんにちは | ありがとうございます。 | 안녕하세요 | 감사합니다
        مرحبا | شكرا جزيلا | שלום | नमस्ते | สวัสดี | Xin chào | Terima kasih | Ευχαριστώ | hello 👋
    """,
    skip.ACKNOWLEDGEMENT: """
        ok | OK, thanks! | yes please | no | Got it. | sounds good | LGTM | go ahead | continue
        please continue | keep going | yes, do it | alles klar | ja, genau | d'accord | de acuerdo
        va bene | хорошо | 好的 | 继续 | はい | 네 | perfect, thank you | great job!
    """,
    skip.COMMAND: """
        /clear | /compact | /help | /model opus | /exit | /add-dir ../lib | /compact keep the plan | :q | exit | quit | /mcp | /export notes.md
    """,
    skip.CLOCK: """
        what time is it | What time is it now? | what's the date today? | What day is it
        Wie spät ist es? | Quelle heure est-il ? | ¿Qué hora es? | Che ore sono? | Который час?
        现在几点了？ | 今何時ですか？ | 지금 몇 시야? | what's the weather like
    """,
    skip.SMALL_TALK: """
        how are you? | What's up? | Who are you? | what can you do | tell me a joke | Wie geht's?
        Comment ça va ? | ¿Cómo estás? | Как дела? | 你是谁？ | help
    """,
    skip.EMPTY: """
        ??? | 👍 | ... | 🎉🎉
    """,
}
# What looks like it and is not: said in a recall, each of these has something to look up.
ANSWERED = """
    hello.py | hello_world | where is hello printed | greet() | say hello to the user in the CLI
    how do I clear the cache? | /usr/local/bin/python | /api/v1/users returns 500 | /review the parser
    what time is it stored in | what time zone does the scheduler use? | what is the date format
    which day is the release | when did we deploy? | what's the weather API key called?
    thanks to the retry it works, why? | thank_you_page | yes or no prompt in the installer
    continue statement in the loop | go module path | ok() helper | no such file or directory
    fix it | try the other approach | what did I say about tests? | who wrote the parser
    which model do we use for embeddings? | what model are embeddings made with | ping | test | retry | clear
    init | config | stop the server | done callback | next() | hello = 1 | `hello` | Where did I go on holiday?
    What did Melanie say about pottery? | What is my dog's name? | How old am I? | What do you know about me?
    Danke-Seite anzeigen | où est le parseur | ¿dónde está el analizador? | 你好世界程序在哪里 | парсер
    パーサーはどこ | what can you do about the timeout | how are you handling retries
    /clear cache endpoint | /help option | /login redirect | /status returns 500 | /config reload handler
    /export csv button | /version header | /reset password form | /model validation error
    #42 | E401 | 42 | 404 | v1.2.3 | 3.11
"""


def rows(table: str) -> list[str]:
    return [cell.strip() for line in table.strip().splitlines() for cell in line.split("|")]


@pytest.mark.parametrize(
    ("text", "cause"), [(text, cause) for cause, table in SKIPPED.items() for text in rows(table)]
)
def test_a_transactional_text_is_told_with_its_cause(text: str, cause: str) -> None:
    assert transactional(text) == cause


@pytest.mark.parametrize("text", rows(ANSWERED))
def test_a_text_that_asks_for_something_is_answered(text: str) -> None:
    assert transactional(text) == ""


def test_a_phrase_inside_a_longer_text_skips_nothing() -> None:
    assert not transactional("hello, the login is broken")
    assert not transactional("hello\nthe login is broken")
    assert not transactional("hello " * 40)


async def test_nothing_is_asked_for_a_greeting() -> None:
    async def no_model() -> object:
        raise AssertionError("a model was opened")

    # No store at all: whatever asked it would fail.
    deps = Deps(cast(SearchStore, None), cast("object", no_model), SearchSettings())  # type: ignore[arg-type]
    answer = await RecallService(deps).recall(SearchQuery("hello!"), PackingOptions())
    assert answer.kind is Kind.TRANSACTIONAL
    assert (answer.block.context, answer.block.items, answer.recall_id) == ("", (), None)
    assert answer.block.silence
    assert answer.timings == ()
