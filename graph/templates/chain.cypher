// How an issue was fixed: each diff that fixes it, the code it touches, the tests that showed it.
// param issue: anything
// memory
MATCH (i) WHERE elementId(i) = $issue
MATCH (i)<-[fixes:FIXES]-(fix)
WHERE {{alive fixes}}
OPTIONAL MATCH (fix)-[touches:TOUCHES]->(code)
WHERE {{alive touches}}
OPTIONAL MATCH (code)-[shows:VALIDATED_BY]->(test)
WHERE shows.link_id IS NOT NULL AND {{alive shows}}
RETURN i AS issue, fix, code, test, fixes, touches, shows
ORDER BY fix.id, code.id, test.id
