"""A signature and the first sentence of its doc, out of chunks in many languages."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plait.domain.recall import Tier
from plait.domain.values import Collection, Item, ItemId
from plait.retrieval.packing.neighbours import join
from plait.retrieval.packing.outline import MAX_SIGNATURE, outline
from plait.retrieval.packing.piece import Piece, bodies
from plait.retrieval.packing.wording import MAX_SENTENCE


def chunk(language: str, content: str, kind: str = "function", symbol: str = "") -> Item:
    when = datetime(2026, 3, 1, tzinfo=UTC)
    return Item(
        ItemId(UUID(int=1)),
        Collection.FILES,
        "r",
        kind,
        "p",
        symbol,
        language,
        10,
        99,
        content,
        when,
    )


CASES = [
    (
        "python, decorated, over lines",
        "python",
        '@cached\n@route("/x")\nasync def get(\n    self, url: str,  # where\n    *, tries: int = 3,\n'
        ') -> Page:\n    """Get a page. Or not.\n\n    More.\n    """\n    return 1\n',
        "async def get(self, url: str, *, tries: int = 3) -> Page",
        "Get a page.",
        12,
    ),
    (
        "python, a doc of several lines",
        "python",
        "def f(x={'a': 1}):\n\n    r'''\n    Say it\n    in two lines\n\n    and more'''\n",
        "def f(x={'a': 1})",
        "Say it in two lines",
        10,
    ),
    ("python, no doc", "python", "class A(B):\n    x = 1\n", "class A(B)", "", 10),
    (
        "javascript, jsdoc",
        "javascript",
        "/**\n * Opens a door. Slowly.\n * @param {string} name\n */\nexport async function open("
        "name,\n  { wait = 3 } = {}) {\n  return name;\n}\n",
        "export async function open(name, { wait = 3 } = {})",
        "Opens a door.",
        14,
    ),
    (
        "javascript, arrow",
        "javascript",
        "const add = (a, b) => {\n  return a + b;\n};",
        "const add = (a, b)",
        "",
        10,
    ),
    (
        "typescript, interface",
        "typescript",
        "// What a door is.\nexport interface Door extends Thing {\n  open(): void;\n}",
        "export interface Door extends Thing",
        "What a door is.",
        11,
    ),
    (
        "java, annotated",
        "java",
        '/** Opens it. */\n@Override\n@SuppressWarnings("all")\npublic List<String> open(\n    int a,\n'
        "    int b) throws IOException {\n  return null;\n}\n",
        "public List<String> open(int a, int b) throws IOException",
        "Opens it.",
        13,
    ),
    (
        "go, method",
        "go",
        "// Open opens a door. It may fail.\nfunc (d *Door) Open(ctx context.Context) (int, error) {\n"
        "\treturn 0, nil\n}\n",
        "func (d *Door) Open(ctx context.Context) (int, error)",
        "Open opens a door.",
        11,
    ),
    (
        "rust, attribute",
        "rust",
        "/// Opens it.\n#[inline]\npub fn open<T>(x: &T) -> Result<(), Error>\nwhere\n    T: Door,\n{\n"
        "    Ok(())\n}\n",
        "pub fn open<T>(x: &T) -> Result<(), Error>",
        "Opens it.",
        12,
    ),
    (
        "c, declaration",
        "c",
        "/* Frees all. */\nvoid free_all(struct pool *p);\n",
        "void free_all(struct pool *p)",
        "Frees all.",
        11,
    ),
    (
        "ruby",
        "ruby",
        "# Opens a door.\n# Slowly.\ndef open(name,\n         wait: 3)\n  name\nend\n",
        "def open(name, wait: 3)",
        "Opens a door.",
        12,
    ),
    (
        "lua",
        "lua",
        "-- Adds.\nfunction add(a, b)\n  return a + b\nend",
        "function add(a, b)",
        "Adds.",
        11,
    ),
    (
        "shell",
        "shell",
        "#!/bin/sh\n# Cleans up.\nclean() {\n  rm x\n}\n",
        "clean() {",
        "Cleans up.",
        12,
    ),
]


@pytest.mark.parametrize(
    ("language", "source", "signature", "doc", "line"),
    [c[1:] for c in CASES],
    ids=[c[0] for c in CASES],
)
def test_outline(language: str, source: str, signature: str, doc: str, line: int) -> None:
    said = outline(chunk(language, source))
    assert (said.signature, said.doc, said.line) == (signature, doc, line)


def test_the_loose_lines_of_a_module_are_told_by_its_doc_and_names() -> None:
    source = (
        '"""All of the doors.\n\nMore."""\n\nimport os\nfrom a import b\n\nWIDE = 3\nnames = [\n]\n'
    )
    said = outline(chunk("python", source, "module"))
    assert (said.signature, said.doc) == ("WIDE, names", "All of the doors.")


LANGUAGES = st.sampled_from(
    ["python", "go", "rust", "ruby", "lua", "shell", "", "markdown", "json"]
)


@given(LANGUAGES, st.sampled_from(["function", "class", "module", "code"]), st.text(max_size=400))
def test_any_text_has_an_outline_of_two_short_lines(language: str, kind: str, source: str) -> None:
    said = outline(chunk(language, source, kind))
    assert len(said.signature) <= MAX_SIGNATURE
    assert len(said.doc) <= MAX_SENTENCE
    assert len(f"{said.signature}{said.doc}x".splitlines()) == 1
    assert said.line >= 10


@pytest.mark.parametrize(
    ("symbol", "kind", "language", "content", "signature", "doc", "part"),
    [
        ("m.A.get", "method", "python", "    try:\n        go()\n", "", "", True),
        ("m.get", "function", "python", "    def inner():\n        go()\n", "", "defines inner", True),
        ("m.Page", "class", "python", "    def a(\n    async def b(self):\n", "", "defines a, b", True),
        ("m.get#2", "function", "python", "@x.setter\ndef get(self, v):\n", "def get(self, v)", "", False),
        ("m.A.Get", "method", "go", "\treturn nil\n}\n", "", "", True),
        ("m.A.Get", "method", "go", "func (a *A) Get() {\n}\n", "func (a *A) Get()", "", False),
        ("m.default", "function", "javascript", "module.exports = (a) => {\n", "module.exports = (a)", "", False),
        ("m.find", "function", "c", "/* Finds. */\nstatic char *\nfind(int a)\n{\n", "static char * find(int a)", "Finds.", False),
        ("m.f", "function", "elixir", '@doc """\nFinds.\n\nMore.\n"""\n@spec f(t) :: t\ndef f(x) do\n  x\n', "def f(x) do", "Finds.", False),
        ("m.f", "function", "elixir", "# Finds.\n@impl true\ndef f(x), do: x\n", "def f(x), do: x", "Finds.", False),
        ("m.f", "function", "elixir", "  x + 1\nend\n", "", "", True),
        ("m.A.operator+", "method", "cpp", "A operator+(A b) {\n", "A operator+(A b)", "", False),
    ],
)  # fmt: skip
def test_a_later_part_of_a_symbol_has_no_signature(
    symbol: str, kind: str, language: str, content: str, signature: str, doc: str, part: bool
) -> None:
    said = outline(chunk(language, content, kind, symbol))
    assert (said.signature, said.doc, said.part) == (signature, doc, part)


def test_a_later_part_is_named_by_its_symbol_or_by_the_first_part_that_is_joined() -> None:
    late = replace(
        chunk("python", "    try:\n" + "        go()\n" * 9, symbol="m.A.get"),
        id=ItemId(UUID(int=2)),
    )
    head = replace(
        chunk("python", "def get(a):\n    b", symbol="m.A.get"), start_line=1, end_line=2
    )
    alone = {body.tier: body.line for body in bodies(Piece(late, 0.5), 9999)}
    assert Tier.OUTLINE not in alone, "its line says as much"
    joined = {
        body.tier: body.line for body in bodies(Piece(late, 0.5, joined=join(late, [head])), 9999)
    }
    assert joined[Tier.OUTLINE] == "`def get(a)`"
