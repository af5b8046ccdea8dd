"""Declarative configuration: read it, check it, apply it, write it out again."""
