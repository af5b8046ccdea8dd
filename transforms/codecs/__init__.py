"""Bodies in forms that the gateway itself does not read: compressed bodies and CloudEvents."""
