"""The objects an operator defines."""
