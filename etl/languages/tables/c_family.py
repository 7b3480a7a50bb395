"""C and C++: functions wherever they are defined, types with a body, and macros of several lines.

A prototype is no definition: it stays in the text of its file or its class. Macros that stand where
the grammar has no place for them are blanked out when a file does not parse, see `repair`.
"""

from __future__ import annotations

import re

from tree_sitter import Language, Node

from etl.languages.kit.nodes import named, text_of
from etl.languages.kit.scopes import clean_title
from etl.languages.tables.rules import File, Found, Rule, Table, bases_of, dotted, head, segment

_HOPS = 24  # pointers, references and brackets round a declared name
_WRAPPED = frozenset(
    {"pointer_declarator", "reference_declarator", "parenthesized_declarator"}
    | {"function_declarator", "array_declarator", "attributed_declarator", "init_declarator"}
)
_PLAIN = frozenset(
    {"identifier", "field_identifier", "destructor_name", "operator_name", "type_identifier"}
    | {"template_function", "template_method", "template_type", "operator_cast"}
)
_NO_NAMES = frozenset(
    [
        "if",
        "else",
        "for",
        "while",
        "do",
        "switch",
        "case",
        "return",
        "catch",
        "sizeof",
        "throw",
        "new",
        "delete",
        "defined",
    ]
)
_RECORDS = {
    "struct_specifier": "struct",
    "union_specifier": "struct",
    "class_specifier": "class",
    "enum_specifier": "enum",
}
_BASES = frozenset({"base_class_clause"})
_ACCESS = frozenset({"public", "private", "protected", "virtual"})
_MACRO = re.compile(r"[A-Z][A-Z0-9_]*")
_TEST_MACRO = re.compile(
    r"(?:TYPED_|FRIEND_)?TEST(?:_[FPG]|_CASE|_METHOD)?|SCENARIO|BOOST_\w*TEST_CASE"
)
_WORD = re.compile(r"\w+")
_TEST_NAME = re.compile(r"test(?:_|[A-Z]|$)|Test[A-Z_]")
_CPP = re.compile(
    rb"^[ \t]*(?:class\s+\w+|namespace\b[^;\n]*\{?|template\s*<|using\s+\w|(?:public|private|protected)\s*:)",
    re.MULTILINE,
)

# `class EXPORT Name {`, `struct ATTRIBUTE(x) Name :`
_EXPORT = re.compile(
    rb"\b(?:class|struct|union)[ \t]+((?:[A-Z][A-Z0-9_]{2,}(?:\([^()\n]{0,80}\))?[ \t]+){1,3})(?=[A-Za-z_]\w*)"
)
# A macro alone on its line, as in BEGIN_NAMESPACE, Q_OBJECT, DISALLOW_COPY(Foo).
_ALONE = re.compile(
    rb"^[ \t]*[A-Z][A-Z0-9_]{3,}(?:\([^()\n]{0,200}\))?[ \t]*;?[ \t]*\r?$(?!\s*\{)", re.MULTILINE
)
# A macro before a declaration's type or name: `EXPORT int f()`, `int CALLBACK f()`.
_BEFORE = re.compile(rb"\b[A-Z][A-Z0-9]*_[A-Z0-9_]+(?=[ \t]+[a-z_A-Z])")

# Clang's annotations of what a mutex guards, by the names that its manual proposes or proposed.
_GUARDS = (
    rb"(?:PT_)?GUARDED_(?:BY|VAR)|ACQUIRED_(?:BEFORE|AFTER)|(?:REQUIRES|ACQUIRE|RELEASE|TRY_ACQUIRE)(?:_SHARED"
    rb"|_GENERIC)?|EXCLUDES|(?:ASSERT|RETURN)_CAPABILITY|(?:EXCLUSIVE|SHARED)_LOCKS_REQUIRED|LOCKS_EXCLUDED"
    rb"|LOCK_RETURNED|(?:EXCLUSIVE|SHARED)_(?:TRY)?LOCK_FUNCTION|UNLOCK_FUNCTION"
)
_GUARDED = re.compile(
    rb"\b(?:[A-Z]{2,12}_)?(?:(?:%b)\([^(){};]{0,200}\)|NO_THREAD_SAFETY_ANALYSIS\b)"
    rb"(?=\s{0,80}(?:[;{=:]|[A-Z]|(?:const|final|noexcept|override)\b))" % _GUARDS
)


def _declared(node: Node | None) -> tuple[Node | None, bool]:
    """The name inside a declarator, and whether it is a function's."""
    is_function = False
    for _ in range(_HOPS):
        if node is None or node.type in _PLAIN or node.type == "qualified_identifier":
            break
        if node.type not in _WRAPPED:
            return None, False
        is_function = is_function or node.type == "function_declarator"
        inner = node.child_by_field_name("declarator")
        if inner is None:
            inner = next(
                (
                    c
                    for c in node.named_children
                    if c.type in _WRAPPED or c.type in _PLAIN or c.type == "qualified_identifier"
                ),
                None,
            )
        node = inner
    return node, is_function or (node is not None and node.type == "operator_cast")


def _name(node: Node) -> tuple[str, str]:
    """`(owner, name)` of `a::b<T>::name`."""
    owner: list[str] = []
    for _ in range(_HOPS):
        if node.type != "qualified_identifier":
            break
        scope, inner = node.child_by_field_name("scope"), node.child_by_field_name("name")
        if scope is not None:
            owner.append(_bare(scope))
        if inner is None:
            return "", ""
        node = inner
    return ".".join(part for part in owner if part), _bare(node)


def _bare(node: Node) -> str:
    """A name without template arguments; an operator as it is written, without blanks."""
    kind = node.type
    if kind in ("template_function", "template_method", "template_type"):
        return text_of(node.child_by_field_name("name"), 200)
    if kind == "operator_cast":
        type_ = node.child_by_field_name("type")
        return f"operator {segment(text_of(type_, 100))}"
    if kind == "operator_name":
        return text_of(node, 60).replace(" ", "").replace(".", "_")
    return text_of(node, 200)


def _function(node: Node, file: File) -> Found | None:
    body = node.child_by_field_name("body")
    declarator = node.child_by_field_name("declarator")
    at, is_function = _declared(declarator)
    if at is None:
        return None
    owner, name = _name(at)
    if not name or name in _NO_NAMES:
        return None
    type_ = node.child_by_field_name("type")
    if not is_function:
        if type_ is not None and type_.type == "type_identifier" and _is_macro_call(declarator):
            return Found(name, "function", at=at, body=body)  # `FUNCTION(name) { … }`
        # `class EXPORT Foo : Base { … }` is read as a function called Foo of type `class EXPORT`.
        if type_ is None or type_.type not in _RECORDS or at.type != "identifier":
            return None
        return Found(name, _RECORDS[type_.type], at=at, body=body)
    if type_ is None and not owner and _MACRO.fullmatch(name):
        return _macro_function(at, name, declarator, body)
    return Found(name, "function", at=at, body=body, owner=owner)


def _is_macro_call(declarator: Node | None) -> bool:
    return declarator is not None and declarator.type == "parenthesized_declarator"


def _macro_function(
    at: Node, macro: str, declarator: Node | None, body: Node | None
) -> Found | None:
    """`TEST(Suite, name) { … }`: a function made by a macro."""
    parameters = declarator.child_by_field_name("parameters") if declarator is not None else None
    return _made(at, macro, parameters, body)


def _macro_call(node: Node, file: File) -> Found | None:
    """`DEFINE_CALL(name, int, x) { … }` and `TEST_CASE("title") { … }`, which parse as a call and a block."""
    del file
    call, block = named(node), node.next_named_sibling
    if call is None or block is None or block.type != "compound_statement":
        return None
    macro = text_of(call.child_by_field_name("function"), 100)
    if not _MACRO.fullmatch(macro) or node.end_byte > call.end_byte:  # a statement of its own
        return None
    return _made(call, macro, call.child_by_field_name("arguments"), block)


def _made(at: Node, macro: str, arguments: Node | None, body: Node | None) -> Found | None:
    """What a macro in capitals defines, by its arguments: their first name, of a test both or its title."""
    words = []
    for argument in arguments.named_children[:4] if arguments is not None else ():
        words.append(text_of(argument, 120).strip())
    if not words:
        return None
    if _TEST_MACRO.fullmatch(macro):
        if words[0].startswith('"'):
            return Found(clean_title(words[0].strip('"')), "function", at, body, body, is_test=True)
        title = ".".join(segment(word) for word in words[:2])
        return Found(title, "function", at, body, body, is_test=True)
    if _WORD.fullmatch(words[0]):
        return Found(words[0], "function", at, body, body)
    return None


def _record(node: Node, file: File) -> Found | None:
    del file
    name, body = node.child_by_field_name("name"), node.child_by_field_name("body")
    if name is None or body is None:
        return None
    owner, own = _name(name)
    bases = tuple(base for base in bases_of(node, _BASES) if base not in _ACCESS)
    return Found(own, _RECORDS[node.type], at=name, body=body, owner=owner, bases=bases)


def _typedef(node: Node, file: File) -> Found | None:
    """`typedef struct { … } Name;`: one definition, called by the new name."""
    type_ = node.child_by_field_name("type")
    at, _ = _declared(node.child_by_field_name("declarator"))
    if type_ is None or at is None or type_.type not in _RECORDS:
        return None
    body = type_.child_by_field_name("body")
    if body is None:
        return None
    file.skip.add(type_.id)
    return Found(text_of(at, 200), _RECORDS[type_.type], at=at, body=body)


def _macro(node: Node, file: File) -> Found | None:
    """A macro with parameters and a body of several lines; a shorter one is a line of its file."""
    del file
    name = node.child_by_field_name("name")
    if name is None or node.end_point[0] - node.start_point[0] < 2:
        return None
    return Found(text_of(name, 200), "macro", at=name, body=node.child_by_field_name("value"))


def _namespace(node: Node, file: File) -> Found | None:
    del file
    return Found(dotted(text_of(node.child_by_field_name("name"), 300)), "")


def _concept(node: Node, file: File) -> Found | None:
    del file
    name = node.child_by_field_name("name") or named(node)
    return Found(text_of(name, 200), "type", at=name) if name is not None else None


def is_cpp(source: bytes, path: str) -> bool:
    """True for a header called `.h` that only C++ can read."""
    return path.endswith(".h") and _CPP.search(source) is not None


def _blank(match: re.Match[bytes]) -> bytes:
    return re.sub(rb"[^\r\n]", b" ", match.group())


def prepare(source: bytes, path: str) -> bytes:
    """The source without annotations of mutexes: `int f() REQUIRES(mu) {` seems to define `REQUIRES`."""
    del path
    return _GUARDED.sub(_blank, source)


def repair(source: bytes) -> bytes:
    """The source with what looks like macros outside any grammar blanked out, byte for byte."""

    def blank_group(match: re.Match[bytes]) -> bytes:
        whole, group = match.group(), match.group(1)
        at = match.start(1) - match.start()
        return whole[:at] + b" " * len(group) + whole[at + len(group) :]

    return _BEFORE.sub(_blank, _ALONE.sub(_blank, _EXPORT.sub(blank_group, source)))


_CALLS = "(translation_unit (expression_statement (call_expression)) @n)"
_CALLS_CPP = f"{_CALLS} (declaration_list (expression_statement (call_expression)) @n)"


_NOT = r"(?!(?:if|else|for|while|switch|return|do|case|goto|delete|new|throw|typedef|using)\b)"
_C_HEADS = (
    head("struct", r"(?:typedef +)?(?:struct|union) +(?:[A-Z_]+ +)?(?P<name>\w+)[^;()]*$"),
    head("enum", r"(?:typedef +)?enum +(?P<name>\w+)[^;()]*$"),
    head(
        "function",
        rf"{_NOT}(?:[\w:<>,]+[ *&]+)+?(?:[\w<>]+::)*(?P<name>~?\w+) *\([^;={{}}]*(?:[,()]|\) *(?:const|noexcept|override)?) *(?:\{{.*)?$",
    ),
)
_HEADS = (
    head("", r"(?:inline +)?namespace +(?P<name>[\w:]+)"),
    head("class", r"class +(?:[A-Z_]+ +)?(?P<name>\w+)[^;()]*$"),
    *_C_HEADS,
)


def _c() -> Language:
    import tree_sitter_c

    return Language(tree_sitter_c.language())


def _cpp() -> Language:
    import tree_sitter_cpp

    return Language(tree_sitter_cpp.language())


def table(language: str) -> Table:
    rules: dict[str, Rule] = {
        "function_definition": _function,
        "type_definition": _typedef,
        "preproc_function_def": _macro,
        "expression_statement": _macro_call,
        **dict.fromkeys(_RECORDS, _record),
    }
    if language == "cpp":
        rules |= {
            "inline_method_definition": _function,
            "constructor_or_destructor_definition": _function,
            "operator_cast_definition": _function,
            "namespace_definition": _namespace,
            "concept_definition": _concept,
        }
    return Table(
        load=_cpp if language == "cpp" else _c,
        heads=_HEADS if language == "cpp" else _C_HEADS,
        rules=rules,
        wrappers=frozenset({"template_declaration"}) if language == "cpp" else frozenset(),
        test_name=_TEST_NAME,
        patterns={"expression_statement": _CALLS_CPP if language == "cpp" else _CALLS},
        prepare=prepare,
        repair=repair,
        dialect=(lambda source, path: "cpp" if is_cpp(source, path) else "")
        if language == "c"
        else None,
    )
