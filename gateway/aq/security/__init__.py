"""Who may do what: privileges, roles, AQ agents."""
