// Classes that inherit from a class, directly or through others, nearest first.
// param symbol: symbol
// param depth: int = 8 in 1..8
// walk: depth
UNWIND $frontier AS at
MATCH (s) WHERE elementId(s) = at
MATCH (s)<-[inherits:INHERITS]-(subclass)
RETURN elementId(subclass) AS at, subclass, head(collect(inherits)) AS inherits
