"""The administration as SQL functions on PostgreSQL: schema ``mgwadm``."""
