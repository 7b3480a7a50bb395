"""Imports and exports of JavaScript and TypeScript, in their ECMAScript and CommonJS forms.

`import D, { a as b } from "m"` binds `D` to the name `default` and `b` to the name `a`. `require("m")`
and `import("m")` inside an expression bind a made-up alias, `require:1`, which the expression's chain
begins with. A module that is one value (`module.exports = a`) exports that as `WHOLE`.
"""

from __future__ import annotations

from tree_sitter import Node

from etl.facts import Export, Import, ImportKind, Slot, SymbolKind
from etl.languages.javascript.syntax import chain_of, string_value
from etl.languages.kit.chains import UNKNOWN
from etl.languages.kit.nodes import line_of, named, text_of
from etl.languages.kit.scopes import KEEP, FactsBuilder

WHOLE = "module.exports"
DECLARATIONS = (".d.ts", ".d.mts", ".d.cts")  # suffixes of files without code


class ScriptModules:
    """Writes one file's imports and exports into its facts."""

    def __init__(self, facts: FactsBuilder) -> None:
        self.facts = facts
        self._required: dict[int, str] = {}  # node id of a require() call → the alias it binds

    # -- imports ---------------------------------------------------------------------------------------

    def add(self, module: str, name: str, alias: str, node: Node) -> None:
        """Bind `alias` in the current scope to `name` of `module`, or to the module itself."""
        kind = ImportKind.NAME if name else ImportKind.MODULE
        self._add(module, name, alias, node, kind)
        if alias:
            self.facts.declare(alias, KEEP)

    def _add(self, module: str, name: str, alias: str, node: Node, kind: ImportKind) -> None:
        scope, line = self.facts.frame.scope, line_of(node)
        self.facts.imports.append(Import(scope, module[:500], name, alias, 0, line, kind))

    def reexport(self, module: str, name: str, exported: str, node: Node) -> None:
        """Export `name` of `module`, or the module itself, as `exported`."""
        self._add(module, name, exported, node, ImportKind.REEXPORT)
        self.export(exported)

    def import_statement(self, node: Node) -> None:
        module = string_value(node.child_by_field_name("source"))
        clause = next((c for c in node.named_children if c.type.startswith("import_")), None)
        if clause is not None and clause.type == "import_require_clause":
            module = string_value(clause.child_by_field_name("source"))
            if module is not None:
                self.add(module, "", text_of(clause.named_children[0]), node)
            return
        if module is None:
            return
        if clause is None:
            self.add(module, "", "", node)
            return
        for part in clause.named_children:
            self._import_clause(module, part, node)

    def _import_clause(self, module: str, part: Node, statement: Node) -> None:
        if part.type == "identifier":
            self.add(module, "default", text_of(part), statement)
        elif part.type == "namespace_import" and part.named_children:
            self.add(module, "", text_of(part.named_children[-1]), statement)
        elif part.type == "named_imports":
            for specifier in part.named_children:
                name, alias = _specifier(specifier)
                if name:
                    self.add(module, name, alias or name, specifier)

    def require(self, call: Node) -> str:
        """The alias a `require("m")` or `import("m")` call binds; "" for every other call."""
        known = self._required.get(call.id)
        if known is not None:
            return known
        module = required_module(call)
        if module is None:
            return ""
        alias = f"require:{len(self._required) + 1}"
        self._required[call.id] = alias
        self.add(module, "", alias, call)
        return alias

    def required_declarator(self, name: Node | None, value: Node | None) -> bool:
        """`const x = require("m")` and `const { a, b: c } = require("m")`: bound like imports."""
        if name is None or value is None:
            return False
        if value.type == "member_expression":
            return self._required_member(name, value)
        module = required_module(value) if value.type == "call_expression" else None
        if module is None or name.type not in ("identifier", "object_pattern"):
            return False
        if name.type == "identifier":
            alias = text_of(name)
            self.add(module, "", alias, value)
            self._required[value.id] = alias
            return True
        for part in name.named_children:
            self._required_part(module, part)
        self._required[value.id] = "require:0"
        return True

    def _required_member(self, name: Node, value: Node) -> bool:
        """`const x = require("m").y`."""
        call, member = value.child_by_field_name("object"), value.child_by_field_name("property")
        if name.type != "identifier" or call is None or member is None:
            return False
        module = required_module(call) if call.type == "call_expression" else None
        if module is None:
            return False
        self._required[call.id] = "require:0"
        self.add(module, text_of(member), text_of(name), value)
        return True

    def _required_part(self, module: str, part: Node) -> None:
        if part.type == "object_assignment_pattern":
            part = part.child_by_field_name("left") or part
        if part.type == "shorthand_property_identifier_pattern":
            self.add(module, text_of(part), text_of(part), part)
        elif part.type == "pair_pattern":
            key, value = part.child_by_field_name("key"), part.child_by_field_name("value")
            if key is not None and value is not None and value.type == "identifier":
                self.add(module, text_of(key), text_of(value), part)
            else:
                self._unknown_names(value)
        else:
            self._unknown_names(part)

    def _unknown_names(self, pattern: Node | None) -> None:
        for name in pattern_names(pattern):
            self.facts.declare(name, UNKNOWN)

    # -- exports ---------------------------------------------------------------------------------------

    def export(self, name: str, local: str = "") -> None:
        """Export what is called `local` here as `name`; a namespace's exports are its members."""
        scope = self.facts.frame.scope
        if scope and self.facts.definitions[scope].kind is SymbolKind.MODULE:
            return
        self.facts.exports.append(Export(name, local or name))

    def export_clauses(self, node: Node) -> None:
        """`export … from "m"`, `export { a as b }` and `export = a`; declarations are the walk's."""
        module = string_value(node.child_by_field_name("source"))
        for part in node.named_children:
            if part.type == "export_clause":
                for specifier in part.named_children:
                    self._export_specifier(module, specifier)
            elif part.type == "namespace_export" and module is not None and part.named_children:
                self.reexport(module, "", text_of(part.named_children[0]), part)
            elif part.type == "identifier" and any(c.type == "=" for c in node.children):
                self.export(WHOLE, text_of(part))
        if module is not None and any(c.type == "*" for c in node.children):
            self._add(module, "", "", node, ImportKind.REEXPORT_ALL)

    def _export_specifier(self, module: str | None, specifier: Node) -> None:
        name, alias = _specifier(specifier)
        if not name:
            return
        if module is None:
            self.export(alias or name, name)
        else:
            self.reexport(module, name, alias or name, specifier)

    def whole_value(self, exported: str, value: Node) -> None:
        """Export the value of an expression as `exported` ("default" or `module.exports`)."""
        if value.type == "identifier":
            self.export(exported, text_of(value))
            return
        if value.type == "call_expression" and (module := required_module(value)):
            self._required[value.id] = "require:0"
            self.reexport(module, "", exported, value)
            return
        slot = Slot.PATH if exported == WHOLE else Slot.NAME
        self.facts.bind(0, exported, chain_of(value, self.require), slot)
        self.export(exported)


def required_module(call: Node) -> str | None:
    """`m` of `require("m")` and `import("m")`."""
    function = call.child_by_field_name("function")
    if function is None or function.type not in ("identifier", "import"):
        return None
    if function.type == "identifier" and text_of(function, 7) != "require":
        return None
    arguments = call.child_by_field_name("arguments")
    if arguments is None or not arguments.named_child_count:
        return None
    return string_value(named(arguments))


def pattern_names(pattern: Node | None) -> list[str]:
    """Every name that a destructuring pattern or a parameter binds."""
    names = []
    stack = [pattern] if pattern is not None else []
    while stack:
        node = stack.pop()
        kind = node.type
        if kind in ("identifier", "shorthand_property_identifier_pattern"):
            names.append(text_of(node))
        elif kind in ("assignment_pattern", "object_assignment_pattern"):
            left = node.child_by_field_name("left")
            stack.extend([left] if left is not None else [])
        elif kind == "pair_pattern":
            value = node.child_by_field_name("value")
            stack.extend([value] if value is not None else [])
        elif kind in ("object_pattern", "array_pattern", "rest_pattern"):
            stack.extend(node.named_children)
    return names


def _specifier(node: Node) -> tuple[str, str]:
    """`(name, alias)` of `a as b`; a quoted name loses its quotes."""
    name, alias = node.child_by_field_name("name"), node.child_by_field_name("alias")
    return (
        text_of(name).strip("'\"") if name is not None else "",
        text_of(alias).strip("'\"") if alias is not None else "",
    )
