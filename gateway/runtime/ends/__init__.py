"""The ends of a route: a link or the hub, as source or destination; :mod:`runtime.route` tells what happens between.

* :mod:`~mgw.gateway.runtime.ends.link_source`: read, select, keep the receiving log, acknowledge.
* :mod:`~mgw.gateway.runtime.ends.hub_source`: plan and claim, complete.
* :mod:`~mgw.gateway.runtime.ends.link_destination`: publish, wait for the confirmation, read the sending log.
* :mod:`~mgw.gateway.runtime.ends.hub_destination`: put, in the transaction that completes the batch at its source.
"""
