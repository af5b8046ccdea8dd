"""What every face calls: look-up, health, configuration, exception handling, connection tests, the hub's queues.

A face (command line, HTTP) translates words into calls of these functions and prints what they return. They decide, and
raise errors whose text a face shows as it is. Each module is imported when a command needs it.
"""
