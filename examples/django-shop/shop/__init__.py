"""A shop: orders, and a message for each."""
