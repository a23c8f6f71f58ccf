"""Start the probe in the programs of a check, and receive what it reports.

``probe_copies`` copies the modules of ``injected`` under random names, and ``report_channel`` receives their signed
reports.
"""
