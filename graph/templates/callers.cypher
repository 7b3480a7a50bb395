// Who calls a symbol directly: one row a caller, with the call sites.
// param symbol: symbol
MATCH (caller)-[call:CALLS]->(s) WHERE elementId(s) = $symbol
RETURN caller, call, call.lines AS lines
ORDER BY caller.id
