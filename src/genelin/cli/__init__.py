"""The command line: parse, call, print. Modules are light; what is heavy loads when it runs."""
