"""Who may do what on which cluster."""
