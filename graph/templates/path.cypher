// A shortest chain of calls from one symbol to another; no row when there is none.
// param source: symbol
// param target: symbol
// param depth: int = 8 in 1..8
MATCH (a) WHERE elementId(a) = $source
MATCH (b) WHERE elementId(b) = $target
MATCH chain = shortestPath((a)-[:CALLS*1..{{depth}}]->(b))
RETURN [n IN nodes(chain) | n.id] AS ids, chain, length(chain) AS hops
