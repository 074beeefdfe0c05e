"""Several hosts on one Linux machine, for tests and for people: `python -m tests.cluster up 3`.

Each host is a network namespace with its own address and link, and the processes in it have their own hostname,
process ids, `/run`, `/dev/shm`, `/proc`, `/sys` and sshd, as on a machine of their own. They share this machine's
cores, kernel and clock, and all folders that are not made private.
"""
