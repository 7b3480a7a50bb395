// Tests that exercise a symbol, or anything inside it when it is a class, module or file.
// param symbol: symbol
MATCH (s) WHERE elementId(s) = $symbol
MATCH (s)-[:CONTAINS*0..6]->(part)-[covers:VALIDATED_BY]->(test)
RETURN test, head(collect(covers)) AS covers, collect(DISTINCT part.id) AS exercised
ORDER BY test.id
