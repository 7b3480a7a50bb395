"""A language that needs no parser: `to NAME` begins a function, `run NAME` calls one."""
