"""The demonstration on Spark: many messages really bridged, then measured, archived and audited."""
