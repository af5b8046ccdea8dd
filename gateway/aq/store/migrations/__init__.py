"""Upgrades of a hub: numbered steps of every part of its schema, and what runs them.

How to change a table, a view, a function or a trigger:

1. change it in the part (of the queues: :mod:`mgw.gateway.aq.store.tables` and others): a new hub has it;
2. add a :class:`~mgw.gateway.aq.store.schema_part.Step` to the part's steps that makes the same of a hub of the version
   before: its number is the part's version;
3. record the new shape: ``python -m tests.support.schemas``.

A test fails as long as this is forgotten, and another one as long as an upgraded hub differs from a new one.
"""
