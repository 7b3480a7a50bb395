"""Views of code that are kept while its version is the same: a small read, shared by those who ask at once, in place
of one of repositories, segments and their dead."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import fields, replace
from operator import attrgetter

from plait.domain.memory import NOW
from plait.domain.values import Collection, Filter
from plait.ports import View
from vector.connection.pool import Scoped
from vector.search.snapshots import PinnedView, read_view
from vector.search.versions import Versions

MOST = 200
_CODE = (Collection.FILES,)
# Of a filter what chooses among a view's rows, and not the view; whatever else it says is part of the key.
_NARROWING = frozenset(
    [
        "kinds",
        "languages",
        "path_glob",
        "tags_any",
        "tags_all",
        "since",
        "until",
        "agent_id",
        "session_key",
        "sources",
        "types",
        "importance_min",
        "created_after",
        "created_before",
    ]
)
_of_view = attrgetter(*(f.name for f in fields(Filter) if f.name not in _NARROWING))


class Views:
    """Of one process. A view that was read for a tenant is kept for that tenant."""

    def __init__(self, app: Scoped, versions: Versions) -> None:
        self._app = app
        self._versions = versions
        self._kept: OrderedDict[tuple[object, ...], PinnedView] = OrderedDict()

    async def view(self, where: Filter) -> View:
        """As `SearchStore.view`."""
        if (
            where.collections != _CODE
            or not where.repos
            or where.as_of != NOW
            or where.skip_unknown
        ):
            return await read_view(self._app, where)
        key = _of_view(where)
        kept = self._kept.get(key)
        if kept is not None:
            read = await self._versions.read(where.repos)
            if read.of(where.repos) == kept.version:
                return replace(kept, valid=read.now, seen={})
        made = await read_view(self._app, where)
        # What agents wrote has no part in the version.
        segments = tuple(s for s in made.segments if s.collection == Collection.FILES)
        self._kept[key] = made = replace(made, segments=segments)
        self._kept.move_to_end(key)
        while len(self._kept) > MOST:
            self._kept.popitem(last=False)
        return made
