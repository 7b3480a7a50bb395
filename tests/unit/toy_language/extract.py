"""Facts of a toy file: a function a `to` to the end of the file, a call a `run`."""

from __future__ import annotations

from etl.facts import FileFacts, SymbolKind
from etl.languages.kit.scopes import KEEP, FactsBuilder


class Toy:
    """See `etl.languages.base.Extractor`."""

    language = "toy"

    def extract(self, source: bytes, path: str, module: str) -> FileFacts:
        facts = FactsBuilder(source, path, "toy", module)
        lines = source.decode().splitlines()
        name = module.rpartition(".")[2]
        facts.define(name, SymbolKind.MODULE, 0, (1, max(len(lines), 1)), (0, len(source)))
        byte = 0
        for number, line in enumerate(lines, 1):
            word, _, name = line.strip().partition(" ")
            if word == "to":
                span = (byte, len(source))
                scope = facts.define(name, SymbolKind.FUNCTION, 0, (number, len(lines)), span)
                facts.declare(name, KEEP, facts.root)
                facts.enter(len(source), scope, is_function=True)
            elif word == "run":
                facts.use(name, number)
            byte += len(line) + 1
        return facts.finish(has_error=False)


def extractor(language: str) -> Toy:
    del language
    return Toy()
