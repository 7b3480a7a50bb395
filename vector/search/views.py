"""Views of code that are kept while its version is the same: a small read, shared by those who ask at once, in place
of one of repositories, segments and their dead."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import replace

from plait.domain.memory import NOW
from plait.domain.scope import check_tenant
from plait.domain.values import Collection, Filter
from plait.ports import View
from vector.connection.pool import Scoped
from vector.search.snapshots import PinnedView, read_view
from vector.search.versions import Versions

MOST = 200
_CODE = (Collection.FILES,)


class Views:
    """Of one process. A view that was read for a tenant is kept for that tenant."""

    def __init__(self, app: Scoped, versions: Versions) -> None:
        self._app = app
        self._versions = versions
        self._kept: OrderedDict[tuple[str, tuple[str, ...]], PinnedView] = OrderedDict()

    async def view(self, where: Filter) -> View:
        """As `SearchStore.view`."""
        if (
            where.collections != _CODE
            or not where.repos
            or where.as_of != NOW
            or where.skip_unknown
        ):
            return await read_view(self._app, where)
        key = (check_tenant(where.tenant), tuple(sorted(set(where.repos))))
        kept = self._kept.get(key)
        if kept is not None:
            read = await self._versions.read(key[1])
            if read.of(key[1]) == kept.version:
                return replace(kept, valid=read.now, seen={})
        made = await read_view(self._app, where)
        # What agents wrote has no part in the version.
        segments = tuple(s for s in made.segments if s.collection == Collection.FILES)
        self._kept[key] = made = replace(made, segments=segments)
        self._kept.move_to_end(key)
        while len(self._kept) > MOST:
            self._kept.popitem(last=False)
        return made
