# shellcheck shell=bash
# The image's entry point reads this, as root, before it starts the server. It sets the password of the login
# `neo4j` where there are no data yet; once there are, Neo4j leaves it as it is and says so.
# The image's own NEO4J_AUTH=neo4j/PASSWORD refuses a password with a '/' and takes `x/true` for `x`.
mkdir -p /data/dbms
chown neo4j:neo4j /data/dbms
gosu neo4j:neo4j neo4j-admin dbms set-initial-password -- "$PLAIT_NEO4J_PASSWORD"
