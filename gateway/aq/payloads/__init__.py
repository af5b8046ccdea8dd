"""What messages hold: payload types, their storage, transformations."""
