"""Small programs that tests start under the real mpirun; each rank writes its result as JSON."""
