"""JavaScript and TypeScript: extract and resolve."""
