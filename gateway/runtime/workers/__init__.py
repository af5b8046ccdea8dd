"""The jobs of one agent in several processes, where its option ``workers`` asks for it.

The process of ``mgw run`` stays the only owner of the agent: it has the lease, the definitions and the chores, and
starts the worker processes (:mod:`pool`). Each worker (:mod:`worker`) has a fencing token of its own, which every hub
transaction of its jobs checks, and runs the same job threads as an agent without workers. Which worker runs a job is
decided by :mod:`assignment`; the agent handles a job in a worker as one of its own threads (:mod:`remote`).

Supervisor and worker speak over a socket pair (:mod:`channel`): one JSON object a line. Who waits for messages in one
process is woken by a commit in another over datagrams (:mod:`wake`).
"""
