"""How good generated reports are."""
