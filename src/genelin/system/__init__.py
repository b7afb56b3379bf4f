"""The machine: threads, memory, forks, Ctrl-C."""
