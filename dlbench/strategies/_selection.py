"""Which all-reduce Open MPI is to use, how it is told, and how its own account of that is judged; pure.

An MCA parameter is a wish: another component may stand above `tuned` (`han` does, over several hosts), a rules file
may outrank it, and a misspelt name is ignored without a word. So a run asks the library what it selected.
"""

from collections.abc import Callable, Sequence

# dlbench's names, and the names in Open MPI's own enumeration of `coll_tuned_allreduce_algorithm`, which takes names
# as well as numbers: the library maps them, whatever numbers its version gives.
NAMES = {"recursive-doubling": "recursive_doubling", "ring": "ring", "rabenseifner": "rabenseifner"}

DYNAMIC = "coll_tuned_use_dynamic_rules"
ALGORITHM = "coll_tuned_allreduce_algorithm"
RULES_FILE = "coll_tuned_dynamic_rules_filename"

# Makes the library say which component serves a communicator: levels 1 to 9 print one short line for each.
ASK = {"coll_base_verbose": "9"}

# These stand above the others and pass every call on.
INTERPOSERS = frozenset({"monitoring", "sync", "accelerator", "cuda"})


def parameters(algorithm: str) -> dict[str, str]:
    """Return the MCA parameters that make Open MPI use one of `NAMES`, and say so; for others only the latter.

    `tuned` gets a priority above all components that can reduce (`han` 35, `xhc`, `acoll`, `ucc`), rather than
    those being excluded one by one: the list differs between versions and builds.
    """
    if algorithm not in NAMES:
        return dict(ASK)
    return ASK | {"coll_tuned_priority": "100", DYNAMIC: "1", ALGORITHM: NAMES[algorithm], "coll_han_priority": "0"}


def prove(algorithm: str, components: Sequence[str], read: Callable[[str], str | None]) -> str:
    """Return the library's own account of the all-reduce it uses.

    Args:
        algorithm: One of `NAMES`, or another name where the choice is the library's.
        components: Components that serve the communicator, the last one first asked, as the library printed them.
        read: Reads the effective value of a control variable (MPI_T).

    Raises:
        RuntimeError: The account contradicts the algorithm, or there is none.
    """
    serving = [name for name in components if name not in INTERPOSERS]
    if algorithm not in NAMES:
        return f"component {serving[-1]}" if serving else ""
    found = {"component": serving[-1] if serving else None, DYNAMIC: read(DYNAMIC), ALGORITHM: read(ALGORITHM)}
    wanted = {"component": "tuned", DYNAMIC: "true", ALGORITHM: NAMES[algorithm]}
    if found != wanted or read(RULES_FILE):
        raise RuntimeError(_contradiction(algorithm, found, read(RULES_FILE)))
    return f"component tuned; {DYNAMIC} = true; {ALGORITHM} = {NAMES[algorithm]}"


def _contradiction(algorithm: str, found: dict[str, str | None], rules_file: str | None) -> str:
    said = [f"{name} = {value or 'unknown'}" for name, value in found.items()]
    if rules_file:
        said.append(f"{RULES_FILE} = {rules_file}, which outranks them")
    options = " ".join(f"--mca {name} {value}" for name, value in parameters(algorithm).items())
    return (
        f"the all-reduce was to be {algorithm}, but the MPI library says: {'; '.join(said)}. "
        f"It is told by `mpirun {options}`, or by OMPI_MCA_ variables of these names; Open MPI 4 and 5 understand them"
    )
