// The symbols of a file in source order, each with the one that contains it.
// param file: file
MATCH (f) WHERE elementId(f) = $file
MATCH (f)-[:CONTAINS*0..7]->(parent)-[:CONTAINS]->(symbol)
RETURN symbol, parent.id AS parent
ORDER BY symbol.start_line, symbol.id
