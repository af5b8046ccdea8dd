"""The hub from SQL: functions of PostgreSQL, and their installation."""
