"""Layer 4: reports on delegations: the ledger of costs, and the page of a result's evidence."""
