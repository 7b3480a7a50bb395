// What a change of a symbol can reach: its callers, their callers, and so on, each once, nearest first.
// param symbol: symbol
// param depth: int = 3 in 1..8
// walk: depth
UNWIND $frontier AS at
MATCH (s) WHERE elementId(s) = at
MATCH (s)<-[call:CALLS]-(caller)
RETURN elementId(caller) AS at, caller, head(collect(call)) AS call
