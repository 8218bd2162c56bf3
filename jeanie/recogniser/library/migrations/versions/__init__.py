"""One module per migration; each names the migration before it."""
