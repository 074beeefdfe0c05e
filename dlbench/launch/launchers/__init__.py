"""Who starts the processes, one file each.

A launcher file holds a one-line doc, `OPTIONS`, `PROVIDES` (the collectives its processes can use: `("mpi",)`),
`MULTIPLE_HOSTS` (whether it reaches other hosts) and

    def available() -> str: ...    # "" where it can be used on this machine, else what is missing and how to install it
    def argv(layout: Layout, program: tuple[str, ...], options: Options, settings: Settings,
             variables: tuple[str, ...]) -> tuple[str, ...]: ...
    def environment(layout: Layout, options: Options, settings: Settings) -> dict[str, str]: ...

and, where scripts connect by the variables that it sets, `CONNECTS_SCRIPTS = True`: it may then start scripts of any
strategy; where it may be another program with other words, or has daemons on other hosts that it starts by ssh, or
cannot reach some addresses,

    def refuse(options: Options, settings: Settings) -> str: ...   # "" where the run can be, else why not
    def refuse_hosts(addresses: Sequence[str]) -> str: ...         # of other hosts; "" where it reaches them
    def daemons(layout: Layout, ssh: str, silence_s: float, variable: str) -> dict[str, str]: ...  # see `mpirun`

All pure but `available` and, where `mpirun` is asked once which MPI it is of, what depends on the answer. `argv`
returns one command that starts every process and ends with the last of them; `variables` are the names of those that
every process needs, on other hosts too. Their values are never on a command line: the assignment holds a secret.
"""
