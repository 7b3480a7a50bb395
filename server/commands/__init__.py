"""The subcommands of `plait`, one module each with `main(argv, prog)`."""
