"""JavaScript and TypeScript: one extractor, for the grammars share their node names.

Named by assignment as people read it: `const f = () =>`, `exports.f = function`, `Foo.prototype.f =`,
`const o = { f() {} }` (`o.f`), and class fields that hold arrows are definitions. In test files each
`it("…", fn)` is one, named `describe title it title`. Everything else anonymous belongs to the
definition round it.
"""

from __future__ import annotations

import re
from collections.abc import Callable

import tree_sitter_javascript
import tree_sitter_typescript
from tree_sitter import Language, Node

from etl.facts import Chain, FileFacts, ReferenceKind, SymbolKind
from etl.languages.javascript.assignments import ScriptAssignments
from etl.languages.javascript.definitions import CLASSES, TYPES, Naming
from etl.languages.javascript.modules import required_module
from etl.languages.javascript.syntax import FUNCTIONS, chain_of, string_value
from etl.languages.kit import chains
from etl.languages.kit.chains import UNKNOWN
from etl.languages.kit.grammar import Grammar
from etl.languages.kit.nodes import line_of, named, short_text, text_of
from etl.languages.kit.scopes import FactsBuilder, clean_title

_TEST = re.compile(r"(?:Deno\.)?(?:it|test|specify|fit|xit|xtest|bench)(?:\.[A-Za-z]+)*")
_SUITE = re.compile(r"(?:describe|suite|context|fdescribe|xdescribe)(?:\.[A-Za-z]+)*")
_SUITES = 12  # describe blocks inside each other that lend their titles
_FOR_KEYWORDS = frozenset({"const", "let", "var"})


_GRAMMARS = {
    "javascript": tree_sitter_javascript.language,
    "typescript": tree_sitter_typescript.language_typescript,
    "tsx": tree_sitter_typescript.language_tsx,
}


class ScriptWalk(ScriptAssignments):
    """One file's whole walk. `handlers` maps a node type to what is done when it is entered."""

    def handlers(self) -> dict[str, Callable[[Node], None]]:
        table: dict[str, Callable[[Node], None]] = {
            "comment": self.on_comment,
            "import_statement": self.modules.import_statement,
            "export_statement": self.on_export,
            "lexical_declaration": self.on_declaration,
            "variable_declaration": self.on_declaration,
            "function_declaration": self.on_function_declaration,
            "generator_function_declaration": self.on_function_declaration,
            "function_signature": self.on_function_signature,
            "method_definition": self.on_function,
            "ambient_declaration": self.on_ambient,
            "internal_module": self.on_namespace,
            "module": self.on_namespace,
            "assignment_expression": self.on_assignment,
            "statement_block": self.on_block,
            "for_statement": self.on_block,
            "for_in_statement": self.on_for_in,
            "catch_clause": self.on_catch,
            "return_statement": self.on_return,
            "call_expression": self.on_call,
            "new_expression": self.on_new,
            "decorator": self.on_decorator,
            "jsx_opening_element": self.on_jsx,
            "jsx_self_closing_element": self.on_jsx,
        }
        table.update(dict.fromkeys(FUNCTIONS, self.on_function))
        table.update(dict.fromkeys(CLASSES, self.on_class))
        table.update(dict.fromkeys(TYPES, self.on_type))
        return table

    # -- blocks ------------------------------------------------------------------------------------

    def on_block(self, node: Node) -> None:
        if node.end_byte != self.facts.frame.end:  # a function's own block shares its frame
            self.facts.enter(node.end_byte)

    def on_for_in(self, node: Node) -> None:
        left, right = node.child_by_field_name("left"), node.child_by_field_name("right")
        self.facts.enter(node.end_byte)
        if left is None:
            return
        value = UNKNOWN
        if any(child.type == "of" for child in node.children):
            chain = chain_of(right, self.modules.require)
            value = chains.element(self.own(chain))
        if any(child.type in _FOR_KEYWORDS for child in node.children):
            self._declare_pattern(left, value)
        elif left.type == "identifier":
            self.facts.assign(text_of(left), value)

    def on_catch(self, node: Node) -> None:
        self.facts.enter(node.end_byte)
        parameter = node.child_by_field_name("parameter")
        if parameter is not None:
            self._declare_pattern(parameter, UNKNOWN)

    def on_return(self, node: Node) -> None:
        value = named(node)
        if value is not None and value.type != "comment":
            self._returns(value)

    # -- uses --------------------------------------------------------------------------------------

    def own(self, chain: str) -> str:
        """`chain`, its `this` or `super` made unknown where no class gives them a meaning."""
        if chain.startswith(("this", "super")) and self.facts.frame.this != "this":
            head, _, rest = chains.split_head(chain)
            if head in ("this", "super"):
                return UNKNOWN + rest
        return chain

    def on_call(self, node: Node) -> None:
        if node.id in self.skip:
            return
        function = node.child_by_field_name("function")
        if function is None:
            return
        if required_module(node) is not None:
            self.modules.require(node)
            return
        arguments = node.child_by_field_name("arguments")
        if self.in_tests and arguments is not None:
            self._test_block(node, function, arguments)
        chain = self.own(chain_of(function, self.modules.require))
        place = function.child_by_field_name("property") or function
        if chain == chains.called("super"):
            chain = chains.member(chain, "constructor")
        self.facts.use(chain, line_of(place))
        self._callbacks(arguments)

    def on_new(self, node: Node) -> None:
        constructor = node.child_by_field_name("constructor")
        if constructor is None:
            return
        chain = self.own(chain_of(constructor, self.modules.require))
        self.facts.use(chain, line_of(constructor), ReferenceKind.NEW)
        self._callbacks(node.child_by_field_name("arguments"))

    def _callbacks(self, arguments: Node | None) -> None:
        """Names passed as arguments: `finish` keeps those that can be functions of this repository."""
        if arguments is None or arguments.type != "arguments":
            return
        for argument in arguments.named_children:
            if argument.type == "identifier":
                self.facts.use(text_of(argument), line_of(argument), ReferenceKind.CALLBACK)
            elif argument.type == "member_expression":
                chain = self.own(chain_of(argument, self.modules.require))
                self.facts.use(chain, line_of(argument), ReferenceKind.CALLBACK)

    def on_decorator(self, node: Node) -> None:
        target = named(node)
        if target is None:
            return
        if target.type == "call_expression":
            self.skip.add(target.id)
            self._callbacks(target.child_by_field_name("arguments"))
            target = target.child_by_field_name("function") or target
        chain = self.own(chain_of(target, self.modules.require))
        self.facts.use(chain, line_of(target), ReferenceKind.DECORATOR)

    def on_jsx(self, node: Node) -> None:
        name = node.child_by_field_name("name")
        if name is None:
            return
        text = text_of(name)
        if text[:1].isupper() or "." in text:  # lower case: an element of HTML
            self.facts.use(text if len(text) < 200 else UNKNOWN, line_of(name), ReferenceKind.JSX)

    # -- tests -------------------------------------------------------------------------------------

    def _test_block(self, call: Node, function: Node, arguments: Node) -> None:
        """`it("title", fn)`: its function is a definition; `describe("title", fn)` lends its title."""
        name = _runner_name(function)
        if not name:
            return
        is_test = _TEST.fullmatch(name) is not None
        if not is_test and _SUITE.fullmatch(name) is None:
            return
        body = next((a for a in reversed(arguments.named_children) if a.type in FUNCTIONS), None)
        first = named(arguments)
        if body is None or first is None or first.type not in ("string", "template_string"):
            return
        title = string_value(first)
        title = text_of(first)[1:-1] if title is None else title
        if not is_test:
            self.titles[body.id] = title
            return
        while self.suites and self.suites[-1][0] <= call.start_byte:
            self.suites.pop()
        path = clean_title(" ".join([*(t for _, t in self.suites[:_SUITES]), title]), 240)
        self.pending[body.id] = Naming(
            clean_title(title), path, SymbolKind.FUNCTION, self.facts.frame.scope, call.start_byte,
            line_of(call), call.end_byte, True,
        )  # fmt: skip


def _runner_name(function: Node) -> str:
    """`it.only`, `test.each` (of `test.each(table)("…")`): the callee's name, "" if it is long."""
    if function.type == "call_expression":
        function = function.child_by_field_name("function") or function
    return short_text(function, 40)


class Script:
    """The extractor for one grammar: JavaScript, TypeScript or TSX."""

    def __init__(self, language: str, grammar: Language) -> None:
        self.language = language
        kinds = ScriptWalk(FactsBuilder(b"", "", language, "")).handlers()
        self._grammar = Grammar(grammar, kinds)

    def extract(self, source: bytes, path: str, module: str) -> FileFacts:
        """See `etl.languages.base.Extractor.extract`."""
        facts = FactsBuilder(source, path, self.language, module)
        lines = source.count(b"\n") + (not source.endswith(b"\n"))
        facts.define(module.rpartition(".")[2], SymbolKind.MODULE, 0, (1, max(lines, 1)), (0, len(source)),
                     path="")  # fmt: skip
        root = self._grammar.parse(source)
        walk = ScriptWalk(facts)
        self._grammar.walk(root, walk.handlers(), facts.leave)
        return facts.finish(root.has_error, _Keep(facts), globals_too=False)


class _Keep:
    """Drops callbacks that cannot be functions: every variable passed along is one by its looks."""

    def __init__(self, facts: FactsBuilder) -> None:
        self._members = {d.name for d in facts.definitions}

    def __call__(self, chain: Chain, kind: ReferenceKind, known: bool) -> bool:
        if kind is not ReferenceKind.CALLBACK:
            return True
        if chain.startswith("this."):
            return chain[5:] in self._members
        return known and not chains.is_result(chain)


def extractor(language: str) -> Script:
    """`language` is "javascript", "typescript" or "tsx": only the last two differ by JSX and `<T>x` casts."""
    return Script(language, Language(_GRAMMARS[language]()))
