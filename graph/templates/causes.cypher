// What caused an issue: commits, diffs and functions that a text or a test run names, the most certain first, each with its run.
// param issue: anything
// memory
MATCH (i) WHERE elementId(i) = $issue
MATCH (i)<-[causes:CAUSES]-(cause)
WHERE {{alive causes}}
OPTIONAL MATCH (cause)<-[contains:CONTAINS]-(run:Episode)
WHERE {{alive contains}}
RETURN cause, causes, causes.confidence AS confidence, run
ORDER BY confidence DESC, cause.id
