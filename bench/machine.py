"""machine.py - the heading of a table of figures: the machine and the commit."""
import os
import pathlib
import platform
import subprocess

ROOT = pathlib.Path(__file__).resolve().parent.parent


def here():
    """Processor, cores, load and cerium's commit."""
    commit = subprocess.run(["git", "-C", str(ROOT), "describe", "--always", "--dirty"],
                            capture_output=True, text=True, check=False).stdout.strip()
    with open("/proc/cpuinfo", encoding="utf-8") as cpus:
        cpu = next((line.split(":")[1].strip() for line in cpus if line.startswith("model name")),
                   platform.machine())
    return (f"{cpu}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f} at the beginning, "
            f"cerium {commit or 'of no commit'}")
