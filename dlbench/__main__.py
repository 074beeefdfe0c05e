"""`python -m dlbench` is the command `dlbench`."""

from dlbench.cli import main

if __name__ == "__main__":
    main()
