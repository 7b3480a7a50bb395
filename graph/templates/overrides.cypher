// Methods that override a method, directly or through others, nearest first.
// param symbol: symbol
// param depth: int = 8 in 1..8
// walk: depth
UNWIND $frontier AS at
MATCH (s) WHERE elementId(s) = at
MATCH (s)<-[overrides:OVERRIDES]-(method)
RETURN elementId(method) AS at, method, head(collect(overrides)) AS overrides
