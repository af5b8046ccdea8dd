"""Bodies of messages: forms, declared types, XML."""
