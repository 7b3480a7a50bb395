"""Cypher that would keep a server busy or fill its memory, and Cypher that agents have a right to.

`ATTACKS` are refused; `RUNS_ON` is what the servers do not end by themselves (each was seen burning a core
after TERMINATE), for tests of the backstop; `LEGITIMATE` passes.
"""

from __future__ import annotations

import itertools
from typing import Any

Case = tuple[str, dict[str, Any]]

BIG = {
    "l": list(range(3_000)),
    "s": "a" * 60_000,
    "m": {"x": "a" * 60_000, "l": list(range(3_000))},
}


def _doubling() -> list[str]:
    """Values that double in each of forty clauses, by every operator that makes one of two."""
    start = {
        "text": "'x'",
        "list": "[1]",
        "map": "{x: 'x', l: [1]}",
        "parameter": "$m",
    }
    steps = [
        ("text", "WITH a + a AS a"),
        ("text", "WITH a || a AS a"),
        ("text", "WITH replace('xx', 'x', a) AS a"),
        ("text", "WITH {v: a + a} AS m WITH m.v AS a"),
        ("text", "WITH [a, a] AS p WITH p[0] + p[1] AS a"),
        ("text", "WITH CASE WHEN true THEN a + a ELSE a END AS a"),
        ("text", "WITH coalesce(a + a, '') AS a"),
        ("text", "WITH toUpper(a) + toLower(a) AS a"),
        ("text", "WITH reduce(t = '', x IN [1, 2] | t + a) AS a"),
        ("text", "UNWIND [a + a] AS b WITH b AS a"),
        ("text", "CALL { WITH a RETURN a + a AS b } WITH b AS a"),
        ("text", "WITH reverse(a) + left(a, 1000000000) AS a"),
        ("text", "WITH head([a + a]) AS a"),
        ("text", "WITH trim(a + '.' + a) AS a"),
        ("list", "WITH a + a AS a"),
        ("list", "WITH [a, a] AS a"),
        ("list", "WITH [x IN [1, 2] | a] AS a"),
        ("list", "WITH tail(a + a + [1]) AS a"),
        ("list", "WITH reduce(t = [], x IN [1, 2] | t + a) AS a"),
        ("list", "WITH [a, a, a][0..2] AS a"),
        ("list", "WITH collect(a) + collect(a) AS a"),
        ("list", "WITH reverse(a + a) AS a"),
        ("map", "WITH {x: a.x + a.x} AS a"),
        ("map", "WITH {x: a['x'] + a['x']} AS a"),
        ("map", "WITH a {x: a.x + a.x} AS a"),
        ("map", "WITH {l: a.l + a.l} AS a"),
        ("map", "WITH {x: a, y: a} AS a"),
        ("map", "WITH {x: {y: a, z: a}}.x AS a"),
        ("map", "WITH {x: [a.x, a.x], y: a.x} AS m WITH {x: m.x[0] + m.x[1]} AS a"),
        ("map", "WITH properties({x: a.x + a.x}) AS a"),
        ("parameter", "WITH {x: a.x + a.x, l: a.l + a.l} AS a"),
        ("parameter", "WITH {x: a.x + $m.x + a.x} AS a"),
    ]
    ends = ["RETURN size(toString(a))", "RETURN a", "RETURN 1 AS one, a ORDER BY a"]
    return [
        f"WITH {start[kind]} AS a {(step + ' ') * 40}{end}"
        for (kind, step), end in itertools.product(steps, ends)
    ]


def _loops() -> list[str]:
    """A loop over something large whose body is a loop over something large."""
    lists = [
        "$l",
        "$m.l",
        "$m['l']",
        "range(1, 5000)",
        "split($s, '')",
        "keys({}) + range(1, 5000)",
        "tail($l)",
        "reverse($l)",
        "$l + $l",
        "[y IN $l | y]",
        "[y IN $l WHERE y > 0]",
        "coalesce(null, $l)",
        "CASE WHEN true THEN $l ELSE [] END",
        "head([$l])",
        "{k: $l}.k",
        "$l[1..]",
    ]
    bodies = [
        "[a IN {0} WHERE a IN {1}]",
        "[a IN {0} WHERE any(b IN {1} WHERE a = -b)]",
        "[a IN {0} | size([b IN {1} | b])]",
        "reduce(t = 0, a IN {0} | t + size([b IN {1} WHERE b = a]))",
        "all(a IN {0} WHERE none(b IN {1} WHERE b = '' + a))",
        "single(a IN {0} WHERE a IN {1} AND a IN {1})",
    ]
    return [
        f"RETURN {body.format(one, other)} AS x"
        for body in bodies
        for one, other in itertools.product(lists[:6], lists)
    ]


_COLLECTED = [
    "[x IN l WHERE x IN l]",
    "[x IN l WHERE any(y IN l WHERE x = y)]",
    "[x IN l | [y IN l | y]]",
    "reduce(s = '', x IN l | s + x)",
    "reduce(s = [], x IN l | s + [x])",
    "all(x IN l WHERE single(y IN l WHERE y = x))",
    "[i IN range(0, size(l) - 1) WHERE l[i] IN l]",
    "[x IN l | l]",
    "[x IN l WHERE size([y IN l WHERE y STARTS WITH x]) > 1]",
    "[x IN l | reduce(n = 0, y IN l | n + 1)]",
]
_GATHERED = [
    "MATCH (n) WITH collect(n.id) AS l RETURN {} AS x",
    "MATCH (n) WITH collect(n.path) AS k WITH k AS l RETURN {} AS x",
    "MATCH (n) WITH {{v: collect(n.id)}} AS m WITH m.v AS l RETURN {} AS x",
    "MATCH (a)-->(b) WITH a, collect(b.id) AS l RETURN {} AS x",
    "RETURN COLLECT {{ MATCH (n) RETURN n.id }} AS l UNION MATCH (n) WITH collect(n.id) AS l RETURN {} AS l",
    "CALL {{ MATCH (n) RETURN collect(n.id) AS l }} RETURN {} AS x",
    "WITH COLLECT {{ MATCH (n) RETURN n.id }} AS l RETURN {} AS x",
    "MATCH (n) WITH collect(DISTINCT n.id) AS l UNWIND l AS z WITH l, z RETURN {} AS x",
]

ATTACKS: list[Case] = [
    (text, {key: BIG[key] for key in BIG if f"${key}" in text})
    for text in [
        *_doubling(),
        *_loops(),
        *(text.format(body) for text in _GATHERED for body in _COLLECTED),
        # as the issue has them
        "MATCH (n) WITH {x: n.id} AS m " + "WITH {x: m.x + m.x} AS m " * 36 + "RETURN size(m.x)",
        "RETURN [a IN $l WHERE any(b IN $l WHERE any(c IN $l WHERE a * b * c = -1))] AS x",
        "WITH $m AS m RETURN any(a IN m.l WHERE any(b IN m.l WHERE any(c IN m.l WHERE a + b = -c))) AS x",
        # rows that are gathered with something large
        "MATCH (n) RETURN collect($s + n.id) AS x",
        "MATCH (n) WITH n, $s + n.id AS x ORDER BY x RETURN n",
        "MATCH (n) RETURN DISTINCT $s + n.id AS x",
        "MATCH (n) RETURN $s + n.id AS x, count(*) AS n",
        "UNWIND range(1, 10000) AS a UNWIND range(1, 10000) AS b RETURN collect(a) AS x",
        "UNWIND range(1, 10000) AS a WITH collect(a) AS l UNWIND l AS x UNWIND range(1, 10000) AS y "
        "RETURN collect(x + y) AS z",
        # ranges whose ends are computed
        "WITH 100000 AS n RETURN range(0, n * 1000)",
        "RETURN range(0, size($s) * size($s))",
        "MATCH (n) RETURN range(0, n.start_line) AS x",
        "RETURN range(0, toInteger('9999999999'))",
        "RETURN range(-9000000000, $l[0])",
        # text functions that multiply
        "RETURN replace($s, '', $s) AS x",
        "RETURN [x IN split($s, '') | $s + x] AS x",
        "RETURN replace(replace(replace('aaaaaaaaaa', 'a', $s), 'a', 'aaaaaaaaaa'), 'a', 'aa') AS x",
        "RETURN [x IN split($s, '') | split($s, '')] AS x",
        "RETURN [x IN split($s, '') WHERE $s CONTAINS x + $s] AS x",
        "RETURN toString([$s, $s]) + toString({x: [x IN $l | $s]}) AS x",
        # patterns of regular expressions against long texts
        "RETURN $s =~ '.*b.*c.*d' AS x",
        "RETURN $s =~ '.*a.*a' AS x",
        "MATCH (n) WHERE n.summary =~ '.*a.*a.*a.*b' RETURN n",
        "RETURN [x IN $l WHERE $s =~ 'a*b'] AS x",
        # patterns in expressions, which ArcadeDB does not stop
        "MATCH (a) WHERE (a)-[:CALLS*1..15]->({name: 'x'}) RETURN a",
        "RETURN [(a)-[:CALLS*1..12]->(b) WHERE b.name = 'zz' | 1] AS x",
        "MATCH (a) RETURN [p = (a)-[:CALLS]->()-[:CALLS]->()-[:CALLS]->()-[:CALLS]->(b) | b.id] AS x",
        "MATCH (a), (b) RETURN allShortestPaths((a)-[*..15]-(b)) AS x",
        "MATCH (a) RETURN size([(a)-[*..3]-(b) | [(b)-[*..3]-(c) | c.id]]) AS x",
        # deep trees
        "RETURN " + "CASE WHEN true THEN " * 300 + "1" + " END" * 300,
        "RETURN " + "-(" * 38 + "1" + ")" * 38 + " = " + "[" * 39 + "1" + "]" * 39 + "[0]" * 1200,
    ]
]

# Each keeps a core busy after its deadline on ArcadeDB, TERMINATE notwithstanding.
RUNS_ON: list[Case] = [
    ("RETURN [a IN $l WHERE any(b IN $l WHERE any(c IN $l WHERE a * b * c = -1))] AS x", {"l": BIG["l"]}),
    (
        "WITH $m AS m RETURN any(a IN m.l WHERE any(b IN m.l WHERE any(c IN m.l WHERE a + b = -c - 1))) AS x",
        {"m": BIG["m"]},
    ),
    ("RETURN [(a:Function)-[:CALLS*1..14]->(b) WHERE b.name = 'zz' | 1] AS x", {}),
]  # fmt: skip
# Ends the embedded server by lack of memory.
FILLS_MEMORY: Case = (
    "WITH left($s, 20000) AS s RETURN size(replace(s, 'a', s)) AS n",
    {"s": BIG["s"]},
)

LEGITIMATE: list[Case] = [
    (text, {"names": ["a", "b", "c"], "id": "q:m.f1", "repo": "q", "ids": [f"q:m.f{i}" for i in range(50)]})
    for text in [
        # who calls what
        "MATCH (f:Function {id: $id})<-[:CALLS]-(c) RETURN c.qualified_name, c.path, c.start_line",
        "MATCH (f:Function {name: 'main'})-[:CALLS*1..5]->(c) RETURN DISTINCT c.qualified_name LIMIT 50",
        "MATCH (f:Function {name: 'main'})-[:CALLS*]->(c) RETURN DISTINCT c.qualified_name LIMIT 50",
        "MATCH (f:Function {name: 'main'})-[:CALLS*1..12]->(c) RETURN DISTINCT c.id",
        "MATCH p = shortestPath((a:Function {id: $id})-[:CALLS*]->(b:Function {name: 'x'})) RETURN p",
        "MATCH p = shortestPath((a:Function {id: $id})-[:CALLS*..15]->(b:Function {name: 'x'})) "
        "RETURN [n IN nodes(p) | n.qualified_name] AS names, length(p) AS hops",
        "MATCH p = allShortestPaths((a:Function {id: $id})-[:CALLS*..6]->(b:Function {name: 'x'})) RETURN p",
        "MATCH (a)-[r:CALLS]->(b) WHERE r.confidence < 0.5 RETURN a.id, b.id, r.resolver ORDER BY r.confidence",
        "MATCH (a)-[r:CALLS]->(b:Function {id: $id}) UNWIND r.lines AS line RETURN a.path, line ORDER BY line",
        "MATCH (a)-[r:CALLS]->(b) UNWIND r.lines AS line RETURN b.id, collect(line) AS lines LIMIT 20",
        "MATCH (f:Function) WHERE NOT (f)<-[:CALLS]-() RETURN f.qualified_name LIMIT 100",
        "MATCH (f:Function) WHERE NOT EXISTS { (f)<-[:CALLS]-() } AND NOT f:Test RETURN f.id",
        "MATCH (f:Function) RETURN f.id, COUNT { (f)<-[:CALLS]-() } AS callers ORDER BY callers DESC LIMIT 10",
        "MATCH (f:Function) WITH f, size([(f)<-[:CALLS]-(c) | c]) AS n WHERE n > 5 RETURN f.id, n",
        "MATCH (f:Function)-[:CALLS]->(f) RETURN f.id AS recursive",
        "MATCH (a:Function)-[:CALLS]->(b:Function)-[:CALLS]->(a) WHERE a.id < b.id RETURN a.id, b.id",
        "MATCH (f:Function {id: $id}) RETURN [(f)-[:CALLS]->(x) | x.name] AS callees, [(f)<-[:CALLS]-(y) | y.name] AS callers",
        "MATCH (f:Function)-[:CALLS]->(g) WHERE f.path <> g.path RETURN f.path, g.path, count(*) AS n ORDER BY n DESC LIMIT 30",
        "MATCH (a:Function {id: $id}) CALL (a) { MATCH (a)-[:CALLS*1..3]->(b) RETURN count(DISTINCT b) AS reach } RETURN reach",
        "MATCH (a:Function {id: $id}) CALL { WITH a MATCH (a)<-[:CALLS]-(b) RETURN collect(b.name)[..5] AS some } RETURN some",
        # where things are
        "MATCH (f:File) WHERE f.path ENDS WITH '.py' RETURN f.path ORDER BY f.path",
        "MATCH (f:File {repo: $repo}) RETURN count(f) AS files",
        "MATCH (f:File)-[:CONTAINS*1..4]->(x:Function) WHERE f.path = 'src/app.py' RETURN x.name, x.start_line ORDER BY x.start_line",
        "MATCH (c:Class)-[:CONTAINS]->(m:Function) WHERE c.name = 'Flask' RETURN m.name, m.kind ORDER BY m.start_line",
        "MATCH (c:Class)-[:CONTAINS]->(m) WITH c, collect(m.name) AS methods RETURN c.name, methods ORDER BY size(methods) DESC LIMIT 5",
        "MATCH (m:Module) RETURN m.qualified_name, split(m.qualified_name, '.')[0] AS top",
        "MATCH (m:Module) WITH split(m.path, '/') AS parts, m RETURN parts[0] AS folder, count(m) AS n ORDER BY n DESC",
        "MATCH (m:Module) RETURN DISTINCT left(m.qualified_name, 10) AS head",
        "MATCH (f:Function) WHERE f.end_line - f.start_line > 100 RETURN f.id, f.end_line - f.start_line AS length ORDER BY length DESC",
        "MATCH (f:Function) RETURN f.language, avg(f.end_line - f.start_line) AS mean, percentileCont(f.end_line, 0.9) AS p90",
        "MATCH (f:Function) WHERE f.name =~ '(?i).*handle.*' RETURN f.id LIMIT 20",
        "MATCH (f:Function) WHERE f.name =~ 'get_[a-z]+_by_[a-z]+' RETURN f.id",
        "MATCH (f:Function) WHERE toLower(f.name) CONTAINS 'error' RETURN f.id, f.path",
        "MATCH (f:Function) WHERE f.name STARTS WITH '_' AND NOT f.name STARTS WITH '__' RETURN count(f)",
        "MATCH (f) WHERE f.id IN $ids RETURN f.id, labels(f) AS labels, f.path",
        "UNWIND $ids AS id MATCH (f:Function {id: id}) RETURN f.id, f.start_line",
        "UNWIND $names AS name OPTIONAL MATCH (f:Function {name: name}) RETURN name, collect(f.id) AS found",
        "MATCH (f:Function) RETURN replace(f.qualified_name, '.', '/') + '.py' AS guess LIMIT 5",
        "MATCH (f:Function {id: $id}) RETURN f {.*, callers: COUNT { (f)<-[:CALLS]-() }} AS f",
        "MATCH (f:Function {id: $id}) RETURN properties(f) AS p, keys(f) AS k, id(f) AS i, elementId(f) AS e",
        # types and tests
        "MATCH (c:Class)-[:INHERITS*1..6]->(base:Class {name: 'Exception'}) RETURN c.qualified_name",
        "MATCH (c:Class)-[:INHERITS*]->(base:Class) RETURN base.name, count(DISTINCT c) AS n ORDER BY n DESC LIMIT 10",
        "MATCH (m:Function)-[:OVERRIDES]->(o:Function) RETURN m.id, o.id",
        "MATCH (f:Function)-[:VALIDATED_BY]->(t:Test) RETURN f.id, collect(DISTINCT t.name) AS tests ORDER BY size(tests) DESC LIMIT 10",
        "MATCH (f:Function) WHERE NOT (f)-[:VALIDATED_BY]->(:Test) RETURN f.id LIMIT 100",
        "MATCH (f:Function {id: $id})-[v:VALIDATED_BY]->(t) RETURN t.id, v.confidence, v.lines",
        "MATCH (a:Module)-[:IMPORTS]->(b:Module) RETURN a.id, b.id",
        "MATCH (a:Module)-[:IMPORTS*2..4]->(a) RETURN DISTINCT a.id AS in_a_cycle",
        "MATCH (m:Module) OPTIONAL MATCH (m)<-[:IMPORTS]-(n) RETURN m.id, count(n) AS importers ORDER BY importers",
        "MATCH (a:Class)-[:INHERITS]->(b:Class) WITH b, collect(a) AS subs WHERE size(subs) > 2 RETURN b.name, [s IN subs | s.name] AS names",
        # what happened
        "MATCH (d:Diff)-[:TOUCHES]->(f:Function {id: $id}) RETURN d.id, d.path ORDER BY d.recorded_at DESC LIMIT 5",
        "MATCH (e:Episode)-[:CONTAINS]->(d:Diff)-[:TOUCHES]->(f:Function) RETURN e.id, e.status, collect(f.name) AS touched",
        "MATCH (i:Issue)<-[:FIXES]-(d:Diff)-[:TOUCHES]->(f)-[:VALIDATED_BY]->(t:Test) RETURN i.id, d.id, f.id, t.id",
        "MATCH (m:Memory)-[:MENTIONS]->(f:Function) WHERE m.superseded_at IS NULL RETURN m.name, f.id, m.importance ORDER BY m.importance DESC",
        "MATCH (m:Memory) WHERE any(t IN m.tags WHERE t = 'decision') RETURN m.id, m.name",
        "MATCH (m:Memory) WHERE 'decision' IN m.tags AND m.created_at > $valid_as_of - 86400000 RETURN m.id",
        "MATCH (i:Issue)<-[r:FIXES]-(d:Diff) WHERE r.recorded_from <= $recorded_as_of "
        "AND (r.recorded_to IS NULL OR r.recorded_to > $recorded_as_of) RETURN d",
        "MATCH (e:Episode) RETURN e.status, count(*) AS n, min(e.started_at) AS first, max(e.started_at) AS last",
        "MATCH (e:Episode) WITH e ORDER BY e.started_at DESC LIMIT 10 RETURN e {.id, .status, .summary}",
        "MATCH (e:Episode) WHERE e.summary CONTAINS 'retry' RETURN e.id, substring(e.summary, 0, 200) AS beginning",
        "MATCH (e:Episode) WHERE toLower(e.summary) CONTAINS toLower('Retry') RETURN e.id, size(e.summary) AS n",
        # lists, bounded
        "MATCH (f:Function) WITH collect(f.name) AS names RETURN [n IN names WHERE n STARTS WITH 'get_'] AS getters",
        "MATCH (f:Function) WITH f.name AS name, collect(f) AS same WHERE size(same) > 1 RETURN name, [f IN same | f.path] AS paths",
        "MATCH (f:Function) WITH collect(f.name) AS names RETURN [n IN names[..100] WHERE n IN names[..100]] AS few",
        "MATCH (f:Function) WITH f ORDER BY f.name LIMIT 50 WITH collect(f.name) AS l RETURN [x IN l WHERE size([y IN l WHERE y = x]) > 1] AS twice",
        "MATCH p = (a:Function {id: $id})-[:CALLS*1..4]->(b) RETURN reduce(c = 1.0, r IN relationships(p) | c * coalesce(r.confidence, 1.0)) AS sure, b.id",
        "MATCH p = (a:Function {id: $id})-[:CALLS*1..4]->(b) WHERE all(n IN nodes(p) WHERE n.repo = 'q') RETURN length(p), b.id",
        "MATCH p = (a:Function {id: $id})-[:CALLS*1..4]->(b) RETURN reduce(s = '', n IN nodes(p) | s + ' > ' + n.name) AS chain",
        "MATCH (f:Function) RETURN f.language AS language, [x IN collect(f.name) | toUpper(x)][..10] AS names",
        "UNWIND range(0, 9) AS i RETURN i, i * i AS square",
        "WITH $names AS names UNWIND range(0, size(names) - 1) AS i RETURN i, names[i] AS name",
        "MATCH (a:Function {id: $id})-[:CALLS]->(b) WITH collect(b) AS l UNWIND l AS x UNWIND l AS y WITH x, y WHERE x.id < y.id RETURN x.id, y.id",
        "MATCH (f:Function) RETURN CASE WHEN f.name STARTS WITH 'test' THEN 'test' WHEN f:Test THEN 'test' ELSE 'code' END AS kind, count(*) AS n",
        "MATCH (f:Function) RETURN f.name UNION MATCH (c:Class) RETURN c.name AS `f.name`",
        # what there is
        "MATCH (n) UNWIND labels(n) AS label RETURN label, count(*) AS n ORDER BY n DESC",
        "MATCH ()-[r]->() RETURN type(r) AS type, count(*) AS n",
        "CALL db.labels()",
        "CALL db.relationshipTypes() YIELD relationshipType AS t RETURN t ORDER BY t",
        "CALL db.propertyKeys() YIELD propertyKey RETURN propertyKey",
        "MATCH (n) RETURN DISTINCT keys(n) AS keys LIMIT 10",
    ]
]  # fmt: skip
