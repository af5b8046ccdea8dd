"""The names of the documented messaging gateway (AQ guide 12.2 §17 to §21, DBMS_MGWADM, DBMS_MGWMSG, DBMS_HQADM).

They are data for the page that lists ours next to them (``docs/compatibility.md``); nothing else reads them.
"""

from __future__ import annotations

from mgw.gateway.config.guide.model import Coming, Number, Parameter, Procedure, Row, View

__all__ = ["Coming", "Number", "Parameter", "Procedure", "Row", "View"]
