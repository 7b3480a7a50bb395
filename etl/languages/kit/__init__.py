"""What languages with calls share: grammars, chains, scopes, and the values that chains stand for."""
