"""Other hosts: what they are, whether they are fit, what the links between them carry, and cleaning up on them.

One program does the work on a host, `agent.py`, started over ssh as Open MPI starts its daemons. `remote.py` starts it,
asks it, and has it clean up; `describe.py`, `links.py` and `doctor/` are what else it is asked for.
"""

# The agent prints it before each answer: a shell that logs in may print anything.
MARK = "dlbench-agent: "
