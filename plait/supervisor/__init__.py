"""One shared child server per data folder: started on first use, shared, stopped when unused.

A *user* is any Plait process that holds a shared lock on `users.lock`. A *keeper* is a small detached
process that holds `keeper.lock`, runs the server as its child, publishes where it listens in
`endpoint.json`, restarts it when it dies, and stops it once it can take `users.lock` exclusively. The
kernel drops a dead process's locks, so no count goes stale and no pid file is trusted.

`lease` is the users' side, `keeper` the other; `vector.server.embedded` and `graph.server.embedded` say what to run.
"""
