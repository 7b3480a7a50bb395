// What happened to a symbol, file, issue or commit: runs, diffs and memories that touch or name it, newest first.
// param thing: anything
// memory
MATCH (s) WHERE elementId(s) = $thing
MATCH (s)<-[link:TOUCHES|MENTIONS|FIXES|CAUSES|VALIDATED_BY|CONTAINS|SUPERSEDES|SIMILAR_TO|DERIVED_FROM]-(what)
WHERE link.link_id IS NOT NULL AND {{alive link}}
  AND (what:Episode OR what:Diff OR what:Memory)
RETURN what, link, type(link) AS relation, link.recorded_from AS recorded_from
ORDER BY recorded_from DESC, what.id
