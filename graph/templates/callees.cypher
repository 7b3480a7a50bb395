// What a symbol calls directly: one row a callee, with the call sites.
// param symbol: symbol
MATCH (s) WHERE elementId(s) = $symbol
MATCH (s)-[call:CALLS]->(callee)
RETURN callee, call, call.lines AS lines
ORDER BY callee.id
