"""One shared child server per data folder: started on first need, kept, stopped when unused."""
