"""Named questions about code, answered from the compact code graph of one revision.

`catalogue` says what there is, `lookup` finds the node that a name means, `steps` goes along the edges,
`answers` has a function for each template, `cells` makes rows of what it finds."""
