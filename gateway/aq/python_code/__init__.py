"""Python functions that rules, conditions and transformations of a hub call: kept in it, loaded where one is called."""
