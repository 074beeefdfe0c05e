"""What makes a host's times vary: its clock, siblings of its cores, other programs, huge pages, neighbours.

As pyperf's `system` command looks at them. None of it stops a run; all of it is in `machine.json`, too.
"""

from collections.abc import Iterator

from dlbench.hosts.doctor.facts import ClusterFacts, Finding, HostReport, passed, warned

# More than that of a core, taken by other programs in the last minute, shows in the times of a worker on it.
MOST_LOAD = 0.5
_CPUS = "/sys/devices/system/cpu"


def noise(_: ClusterFacts, report: HostReport) -> Iterator[Finding]:
    """Whether times on this host vary for reasons that are not the run's, and how to calm it."""
    findings = [*_clock(report), *_siblings(report), *_load(report), *_huge_pages(report)]
    yield from findings
    if not findings:
        virtual = report.get("machine", "virtualisation", "hypervisor")
        neighbours = (
            "; a virtual machine: `steal_fraction` of each run says what its neighbours took" if virtual else ""
        )
        yield passed(f"nothing known makes times vary{neighbours}")


def _clock(report: HostReport) -> Iterator[Finding]:
    governor = report.get("machine", "cpu", "governor")
    if governor is not None and governor != "performance":
        yield warned(
            f"the frequency governor is {governor}: the clock follows the load, and first steps are slower",
            report.command(f"echo performance | sudo tee {_CPUS}/cpu*/cpufreq/scaling_governor"),
        )
    if report.get("machine", "cpu", "boost"):
        by_intel = report.get("machine", "cpu", "vendor") == "GenuineIntel"
        file, value = ("intel_pstate/no_turbo", 1) if by_intel else ("cpufreq/boost", 0)
        yield warned(
            "turbo is on: few busy cores run at a higher clock than many, so that one worker looks better than each of "
            "several",
            report.command(f"echo {value} | sudo tee {_CPUS}/{file}"),
        )


def _siblings(report: HostReport) -> Iterator[Finding]:
    if report.get("machine", "cpu", "smt"):
        yield warned(
            "two hardware threads share a core: workers on both slow each other down",
            report.command(f"echo off | sudo tee {_CPUS}/smt/control"),
        )


def _load(report: HostReport) -> Iterator[Finding]:
    load = report.get("load")
    if load is not None and load >= MOST_LOAD:
        yield warned(
            f"programs (a run that has just ended among them) kept {load:.1f} cores busy in the last minute",
            report.command("ps -eo pcpu,pid,user,args --sort=-pcpu | head"),
        )


def _huge_pages(report: HostReport) -> Iterator[Finding]:
    if report.get("machine", "memory", "transparent_hugepages") == "always":
        yield warned(
            "transparent huge pages are always used: the kernel moves memory of a run when it likes",
            report.command("echo madvise | sudo tee /sys/kernel/mm/transparent_hugepage/enabled"),
        )
