"""Go's packages across files: which folder an import names, and what a package declares."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from posixpath import dirname

from etl.facts import Definition, FileFacts, Import, Slot, SymbolKind
from etl.resolve.surface import surface
from etl.resolve.table import Key, Table

Place = tuple[int, int]  # (file, definition)
TYPES = frozenset({SymbolKind.STRUCT, SymbolKind.INTERFACE, SymbolKind.TYPE})


FILES = "* files"  # a lookup of all files of a package
FOLDERS = "folders"  # the unit of packages by the last name of their folder


class Package:
    """The files of one folder that share a package clause, and what they declare together."""

    __slots__ = (
        "fields",
        "files",
        "folder",
        "key",
        "members",
        "methods",
        "name",
        "others",
        "types",
        "values",
    )

    def __init__(self, folder: str, name: str) -> None:
        self.folder = folder
        self.name = name  # the module's name in the facts
        self.key = (folder, name)  # the unit of its names
        self.files: list[int] = []  # by path
        self._clear()

    def _clear(self) -> None:
        self.members: dict[str, Place] = {}  # functions and types at the top
        self.types: dict[str, Place] = {}
        self.methods: dict[tuple[str, str], list[Place]] = {}  # (type, method)
        self.fields: dict[tuple[str, str], tuple[int, str]] = {}  # (type, field) → (file, its type)
        self.others: dict[str, str] = {}  # type → the type it is another name for
        self.values: dict[str, tuple[int, str]] = {}  # variables at the top → (file, chain)

    def fill(self, files: Sequence[FileFacts]) -> None:
        """Read anew what its files declare."""
        self._clear()
        self.files.sort(key=lambda file: files[file].path)
        for file in self.files:
            self._add(file, files[file])

    def _add(self, file: int, facts: FileFacts) -> None:
        for number, definition in enumerate(facts.definitions):
            if number and "." not in definition.qualname:
                self.members.setdefault(definition.name, (file, number))
                if definition.kind in TYPES:
                    self.types.setdefault(definition.name, (file, number))
            elif definition.kind is SymbolKind.METHOD:
                owner = definition.qualname.rpartition(".")[0]
                self.methods.setdefault((owner, definition.name), []).append((file, number))
        for binding in facts.bindings:
            owner = facts.definitions[binding.scope].qualname
            if binding.slot is Slot.MEMBER:
                self.fields[owner, binding.name] = (file, binding.value)
            elif binding.slot is Slot.SELF:
                self.others[owner] = binding.value
            else:
                self.values.setdefault(binding.name, (file, binding.value))


class Packages:
    """Every package of the repository. What is looked up in one is noted in the table."""

    def __init__(self, table: Table) -> None:
        self._table = table
        self._of_file: dict[int, Package] = {}
        self._by_key: dict[tuple[str, str], Package] = {}
        self._by_folder: dict[str, list[Package]] = {}
        self._suffixes: dict[str, set[str]] = {}  # last folder name → folders that end in it
        self._imports: dict[int, dict[str, Import]] = {}
        self._changed: set[Package] = set()  # to be filled
        self._found: dict[str, Package | None] = {}

    def put(self, file: int) -> None:
        facts = self._table.files[file]
        folder = dirname(facts.path)
        key = (folder, facts.module)
        package = self._by_key.get(key)
        if package is None:
            package = self._by_key[key] = Package(*key)
            self._by_folder.setdefault(folder, []).append(package)
            self._suffixes.setdefault(_last(folder), set()).add(folder)
        package.files.append(file)
        self._changed.add(package)
        self._found.clear()
        self._of_file[file] = package
        self._imports[file] = {each.alias: each for each in facts.imports if each.alias}

    def drop(self, file: int) -> None:
        del self._imports[file]
        package = self._of_file.pop(file)
        package.files.remove(file)
        self._changed.add(package)
        self._found.clear()
        if package.files:
            return
        self._changed.discard(package)
        folder = package.folder
        del self._by_key[package.key]
        self._by_folder[folder].remove(package)
        if not self._by_folder[folder]:
            self._suffixes[_last(folder)].discard(folder)

    def begin(self) -> None:
        """Fill the packages that have changed."""
        for package in self._changed:
            package.fill(self._table.files)
        self._changed.clear()

    def surface(self, file: int) -> dict[Key, object]:
        """See `etl.resolve.table.Binder.surface`: names are a package's, from a file of it."""
        facts, ids = self._table.files[file], self._table.ids[file]
        key = self._of_file[file].key
        found: dict[Key, object] = {
            (key, name): (facts.path, what) for name, what in surface(facts, ids).items()
        }
        found[key, FILES] = facts.path, ids[0]
        return found

    def shared(self, file: int) -> Iterator[tuple[Key, Hashable]]:
        """See `etl.resolve.table.Binder.shared`: that a package is there."""
        package = self._of_file[file]
        yield (FOLDERS, _last(package.folder)), package.key

    # -- lookups -----------------------------------------------------------------------------------

    def of_file(self, file: int, name: str) -> Package:
        """The package of a file, to look `name` up in it; FILES: for its files."""
        package = self._of_file[file]
        self._table.noted.add((package.key, name))
        return package

    def definition(self, file: int, number: int) -> Definition:
        """A definition in any file."""
        table = self._table
        definition = table.files[file].definitions[number]
        if file != table.home:
            table.noted.add((self._of_file[file].key, definition.name))
        return definition

    def id(self, file: int, number: int) -> str:
        """The node id of a definition as `definition` gives it."""
        self.definition(file, number)
        return self._table.ids[file][number]

    def imports(self, file: int, name: str) -> dict[str, Import]:
        """A file's imports by alias, to look `name` up in them; IMPORTS: to go through them."""
        if file != self._table.home:
            self._table.note(self._of_file[file].key, name)
        return self._imports[file]

    def find(self, path: str) -> Package | None:
        """The package an import path names: the one whose folder is its longest suffix.

        `go.mod` is not read, so the part before the folder is taken on trust, but only for paths that
        look like a module's (a dot in the first part): the standard library is never this repository.
        """
        self._table.note(FOLDERS, _last(path))
        self._table.note(FOLDERS, "")
        if path not in self._found:
            self._found[path] = self._search(path)
        return self._found[path]

    def _search(self, path: str) -> Package | None:
        parts = path.split("/")
        if "." not in parts[0]:
            return None
        named = self._suffixes.get(parts[-1], ())
        for cut in range(1, len(parts)):
            suffix = "/".join(parts[cut:])
            ends = "/" + suffix
            folders = [f for f in named if f == suffix or f.endswith(ends)]
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


def _last(folder: str) -> str:
    return folder.rpartition("/")[2]
