"""Go's packages across files: which folder an import names, and what a package declares."""

from __future__ import annotations

from posixpath import dirname

from etl.facts import FileFacts, Import, Slot, SymbolKind
from etl.resolve.table import Table

Place = tuple[int, int]  # (file, definition)
TYPES = frozenset({SymbolKind.STRUCT, SymbolKind.INTERFACE, SymbolKind.TYPE})


class Package:
    """The files of one folder that share a package clause, and what they declare together."""

    __slots__ = ("fields", "files", "members", "methods", "name", "others", "types", "values")

    def __init__(self, name: str) -> None:
        self.name = name  # the module's name in the facts
        self.files: list[int] = []
        self.members: dict[str, Place] = {}  # functions and types at the top
        self.types: dict[str, Place] = {}
        self.methods: dict[tuple[str, str], list[Place]] = {}  # (type, method)
        self.fields: dict[tuple[str, str], tuple[int, str]] = {}  # (type, field) → (file, its type)
        self.others: dict[str, str] = {}  # type → the type it is another name for
        self.values: dict[str, tuple[int, str]] = {}  # variables at the top → (file, chain)


class Packages:
    """Every package of the repository."""

    def __init__(self, table: Table) -> None:
        self.files = table.files
        self.of_file: list[Package | None] = []
        self._by_key: dict[tuple[str, str], Package] = {}
        self._by_folder: dict[str, list[Package]] = {}
        self._suffixes: dict[str, set[str]] = {}  # last folder name → folders that end in it
        for file, facts in enumerate(table.files):
            self.of_file.append(self._add(file, facts) if facts.language == "go" else None)
        self.imports = [_by_alias(facts) for facts in table.files]
        self._found: dict[str, Package | None] = {}

    def _add(self, file: int, facts: FileFacts) -> Package:
        folder = dirname(facts.path)
        key = (folder, facts.module)
        package = self._by_key.get(key)
        if package is None:
            package = self._by_key[key] = Package(facts.module)
            self._by_folder.setdefault(folder, []).append(package)
            self._suffixes.setdefault(folder.rpartition("/")[2], set()).add(folder)
        package.files.append(file)
        for number, definition in enumerate(facts.definitions):
            if number and "." not in definition.qualname:
                package.members.setdefault(definition.name, (file, number))
                if definition.kind in TYPES:
                    package.types.setdefault(definition.name, (file, number))
            elif definition.kind is SymbolKind.METHOD:
                owner = definition.qualname.rpartition(".")[0]
                package.methods.setdefault((owner, definition.name), []).append((file, number))
        for binding in facts.bindings:
            owner = facts.definitions[binding.scope].qualname
            if binding.slot is Slot.MEMBER:
                package.fields[owner, binding.name] = (file, binding.value)
            elif binding.slot is Slot.SELF:
                package.others[owner] = binding.value
            else:
                package.values.setdefault(binding.name, (file, binding.value))
        return package

    def find(self, path: str) -> Package | None:
        """The package an import path names: the one whose folder is its longest suffix.

        `go.mod` is not read, so the part before the folder is taken on trust, but only for paths that
        look like a module's (a dot in the first part): the standard library is never this repository.
        """
        if path not in self._found:
            self._found[path] = self._search(path)
        return self._found[path]

    def _search(self, path: str) -> Package | None:
        parts = path.split("/")
        if "." not in parts[0]:
            return None
        for cut in range(1, len(parts)):
            suffix = "/".join(parts[cut:])
            ends = "/" + suffix
            folders = [
                folder
                for folder in self._suffixes.get(parts[-1], ())
                if folder == suffix or folder.endswith(ends)
            ]
            if folders:
                return self._main(folders[0]) if len(folders) == 1 else None
        return self._at_root(parts)

    def _at_root(self, parts: list[str]) -> Package | None:
        """`example.com/me/tool` is the package at the root, where its name fits."""
        package = self._main("")
        if package is None or package.name == "main":
            return None
        last = parts[-2] if len(parts) > 2 and parts[-1][1:].isdigit() else parts[-1]
        return package if package.name in (last, last.removeprefix("go-")) else None

    def _main(self, folder: str) -> Package | None:
        """The package of a folder that is not its external tests."""
        found = [p for p in self._by_folder.get(folder, ()) if not p.name.endswith("_test")]
        return found[0] if len(found) == 1 else None


def _by_alias(facts: FileFacts) -> dict[str, Import]:
    return {each.alias: each for each in facts.imports if each.alias}
