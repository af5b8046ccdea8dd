"""The expression language of rules, conditions and transformations."""
