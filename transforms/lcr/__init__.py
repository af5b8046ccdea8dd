"""Logical change records (LCRs): a row change or a DDL statement as data, in ANYDATA and as XML.

A row change is an object ``SYS.LCR$_ROW_RECORD`` with ``source_database_name``, ``command_type`` (INSERT, UPDATE,
DELETE), ``object_owner``, ``object_name``, ``tag``, ``transaction_id``, ``scn``, ``old_values``, ``new_values``. Each
value has ``column_name`` and ``data`` (ANYDATA of a scalar type). A DDL change, ``SYS.LCR$_DDL_RECORD``, has
``ddl_text`` and the object it is about. An INSERT has no old values, a DELETE no new ones, an UPDATE has both.

As XML it is a document of the namespace :data:`NAMESPACE`, which is how it travels over a link: the transformation
``mgw.transforms.builtin:lcr_to_xml`` writes it, ``xml_to_lcr`` reads it.

Sources: AQ guide 12.2 §20.1.5 (the routines), §22.2 (records, an example of a document). The elements nvarchar2,
binary_double, timestamp_tz, timestamp_ltz, interval_ds and interval_ym, and those of a DDL change, are as we remember
the published schema.
"""

from __future__ import annotations

from mgw.transforms.lcr.types import COLUMN_TYPES, DDL, DDL_LCR, ROW, ROW_LCR, UNIT
from mgw.transforms.lcr.xml_form import NAMESPACE, lcr_to_xml, xml_to_lcr

__all__ = ["COLUMN_TYPES", "DDL", "DDL_LCR", "NAMESPACE", "ROW", "ROW_LCR", "UNIT", "lcr_to_xml", "xml_to_lcr"]
