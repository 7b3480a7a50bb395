"""What a graph server's error becomes for who asked with Cypher of theirs."""

from __future__ import annotations

import pytest
from neo4j.exceptions import Neo4jError

from graph.bolt import translated
from graph.reader import _user_errors
from plait.domain.deadline import Deadline
from plait.domain.errors import (
    CypherInvalid,
    DeadlineExceeded,
    GraphUpdating,
    PlaitError,
    ResultTooLarge,
    StoreUnavailable,
)


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        ("Neo.ClientError.Statement.SyntaxError", CypherInvalid),
        ("Neo.ClientError.Security.Forbidden", CypherInvalid),
        ("Neo.ClientError.Statement.EntityNotFound", GraphUpdating),
        ("Neo.ClientError.Transaction.TransactionTimedOut", DeadlineExceeded),
        ("Neo.TransientError.Transaction.Terminated", DeadlineExceeded),
        ("Neo.TransientError.General.MemoryPoolOutOfMemoryError", ResultTooLarge),
        # The server stops or starts: nothing is wrong with the statement.
        ("Neo.TransientError.General.DatabaseUnavailable", StoreUnavailable),
        ("Neo.TransientError.Transaction.DeadlockDetected", StoreUnavailable),
    ],
)
def test_an_error_says_whose_it_is(code: str, kind: type[PlaitError]) -> None:
    error = Neo4jError._hydrate_neo4j(code=code, message="said the server")
    with pytest.raises(kind), translated("graph"), _user_errors(Deadline.after(5)):
        raise error
