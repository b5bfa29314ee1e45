"""Builds the page for people, whose built files are part of what is deployed."""

import subprocess

from tools.deploy.digest import ROOT


def build_page() -> None:
    """Does nothing where what is built is not older than its source."""
    subprocess.run(["make", "--no-print-directory", "--silent", "page"], cwd=ROOT, check=True)
