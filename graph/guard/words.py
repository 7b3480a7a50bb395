"""The words the guard knows. What is not here is refused, so a server's new clause is no new hole."""

from __future__ import annotations

# A statement, a UNION's branch and a subquery begin with one of these.
OPENING = frozenset({"MATCH", "OPTIONAL", "WITH", "UNWIND", "RETURN", "CALL"})
CLAUSES = OPENING | {"WHERE", "ORDER", "SKIP", "OFFSET", "LIMIT", "UNION"}
OPERATORS = frozenset(
    [
        "AND",
        "OR",
        "XOR",
        "NOT",
        "IN",
        "STARTS",
        "ENDS",
        "CONTAINS",
        "IS",
        "AS",
        "DISTINCT",
        "BY",
        "ASC",
        "ASCENDING",
        "DESC",
        "DESCENDING",
        "CASE",
        "WHEN",
        "THEN",
        "ELSE",
        "END",
        "ALL",
    ]
)
# Words that end an operand although they are not names.
CLOSING = frozenset({"END", "NULL", "TRUE", "FALSE", "ASC", "ASCENDING", "DESC", "DESCENDING"})

# Named here for a better message, and refused wherever a name is not certain.
WRITES = frozenset(
    ["CREATE", "MERGE", "SET", "DELETE", "DETACH", "NODETACH", "REMOVE", "FOREACH", "INSERT"]
)
ADMIN = frozenset(
    [
        "DROP",
        "ALTER",
        "GRANT",
        "DENY",
        "REVOKE",
        "SHOW",
        "TERMINATE",
        "USE",
        "START",
        "STOP",
        "ENABLE",
        "RENAME",
        "DEALLOCATE",
        "REALLOCATE",
        "DRYRUN",
        "LOAD",
        "CSV",
        "PERIODIC",
        "COMMIT",
        "TRANSACTIONS",
        "EXPLAIN",
        "PROFILE",
        "CYPHER",
        "USING",
        "FINISH",
        "NEXT",
        "FILTER",
        "LET",
        "SHORTEST",
        "INSTALL",
        "UNINSTALL",
        "BEGIN",
        "ROLLBACK",
        "IMPORT",
        "EXPORT",
        "BACKUP",
    ]
)

AGGREGATES = frozenset(
    [
        "count",
        "sum",
        "avg",
        "min",
        "max",
        "collect",
        "stdev",
        "stdevp",
        "percentilecont",
        "percentiledisc",
    ]
)
# `name(x IN list WHERE …)`
QUANTIFIERS = frozenset({"any", "all", "none", "single"})
PATTERN_FUNCTIONS = frozenset({"shortestpath", "allshortestpaths", "exists"})
TEMPORAL = frozenset({"date", "time", "datetime", "localtime", "localdatetime", "duration"})
FUNCTIONS = (
    AGGREGATES
    | QUANTIFIERS
    | PATTERN_FUNCTIONS
    | TEMPORAL
    | frozenset(f"{name}.truncate" for name in TEMPORAL - {"duration"})
    | frozenset(
        [
            "duration.between",
            "duration.inmonths",
            "duration.indays",
            "duration.inseconds",
            "datetime.fromepoch",
            "datetime.fromepochmillis",
        ]
    )
    | frozenset(
        [
            "abs",
            "ceil",
            "floor",
            "round",
            "sign",
            "sqrt",
            "exp",
            "log",
            "log10",
            "rand",
            "pi",
            "e",
            "sin",
            "cos",
            "tan",
            "toboolean",
            "tointeger",
            "tofloat",
            "tostring",
            "tobooleanornull",
            "tointegerornull",
            "tofloatornull",
            "tostringornull",
            "left",
            "right",
            "substring",
            "trim",
            "ltrim",
            "rtrim",
            "tolower",
            "toupper",
            "lower",
            "upper",
            "split",
            "reverse",
            "size",
            "length",
            "char_length",
            "head",
            "last",
            "tail",
            "range",
            "coalesce",
            "nullif",
            "isempty",
            "keys",
            "properties",
            "labels",
            "type",
            "nodes",
            "relationships",
            "startnode",
            "endnode",
            "timestamp",
            "isnan",
            "id",
            "elementid",
            "reduce",
            "replace",
        ]
    )
)
# Words of ADMIN with more to say than that the graph is read-only.
INSTEAD = {
    "SHORTEST": "not every server has it: write shortestPath((a)-[:CALLS*..15]->(b)), or "
    "allShortestPaths(…) for every path of that length",
    "EXPLAIN": "a plan is each server's own and no part of an answer: ask the server itself",
    "PROFILE": "a plan is each server's own and no part of an answer: ask the server itself",
}
SUBQUERIES = frozenset({"EXISTS", "COUNT", "COLLECT"})
