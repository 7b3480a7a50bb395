// Who calls a symbol directly: one row a caller, with the call sites.
// param symbol: symbol
MATCH (s) WHERE elementId(s) = $symbol
MATCH (s)<-[call:CALLS]-(caller)
RETURN caller, call, call.lines AS lines
ORDER BY caller.id
