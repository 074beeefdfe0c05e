"""Who starts the processes, one file each.

A launcher file holds a one-line doc, `OPTIONS`, `PROVIDES` (the collectives its processes can use: `("mpi",)`),
`MULTIPLE_HOSTS` (whether it reaches other hosts) and

    def available() -> str: ...    # "" where it can be used on this machine, else what is missing and how to mend it
    def argv(layout: Layout, program: tuple[str, ...], options: Options, settings: Settings,
             variables: tuple[str, ...]) -> tuple[str, ...]: ...
    def environment(layout: Layout, options: Options, settings: Settings) -> dict[str, str]: ...

All pure but `available`. `argv` returns one command that starts every process and ends with the last of them;
`variables` are the names of those that every process needs, on other hosts too. Their values are never on a command
line: the assignment holds a secret.
"""
