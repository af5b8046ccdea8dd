"""The tables and views that pipelines have in a hub."""
