"""Scenario, Cluster and RunSpec: read, validate, expand. Pure: nothing here starts a process or opens a socket."""
