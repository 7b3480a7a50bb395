// What imports a module, file, class or function, or anything inside it.
// param symbol: symbol
MATCH (s) WHERE elementId(s) = $symbol
MATCH (s)-[:CONTAINS*0..2]->(part)<-[imports:IMPORTS]-(importer)
RETURN importer, imports, part.id AS imported
ORDER BY importer.id, imported
