"""What is said of Horovod's workers that did not meet."""

from dlbench.drivers._horovod_meeting import complaint

ONE = [("a", 7)]


def test_over_gloo_the_launcher_is_named() -> None:
    text = complaint(3, ONE, "", {})
    assert text.startswith("3 workers were to meet over Gloo, but 1 did (process 7 on a). No horovodrun is seen")
    assert "`horovodrun --gloo -np 3`" in text


def test_over_gloo_another_number_is_told() -> None:
    assert complaint(3, [*ONE, ("a", 8)], "", {"HOROVOD_SIZE": "2"}).endswith(
        "horovodrun started 2 processes: start 3."
    )


def test_over_mpi_it_is_told_as_for_mpi() -> None:
    text = complaint(2, ONE, "Open MPI 5.0.11 at /lib/libmpi.so", {})
    assert text.startswith("2 MPI ranks were to meet, but 1 did")
    assert "No mpirun is seen above this process" in text
