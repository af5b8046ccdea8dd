"""The faults: each is injected while messages move, and leaves the stage able to go on."""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager

from tests.faults.oracle import Publisher
from tests.faults.stage import Stage
from tests.faults.ways import Way
from tests.support.waiting import eventually

__all__ = ["Fault", "Injuries"]

_MOMENT = 0.4  # seconds; a fault falls anywhere within so long after messages were seen to move


Fault = str | Callable[["Injuries"], None]


class Injuries:
    """Faults on one stage at moments drawn from ``rng``; counts what it did."""

    def __init__(self, stage: Stage, way: Way, publisher: Publisher, rng: random.Random) -> None:
        self._stage = stage
        self._publisher = publisher
        self._way = way
        self._rng = rng
        self.counts: Counter[str] = Counter()

    @property
    def stage(self) -> Stage:
        """Where the faults happen."""
        return self._stage

    @property
    def way(self) -> Way:
        """What messages go through."""
        return self._way

    @property
    def rng(self) -> random.Random:
        """The dice."""
        return self._rng

    def publisher_paused(self) -> AbstractContextManager[object]:
        """See :meth:`tests.faults.oracle.Publisher.paused`."""
        return self._publisher.paused()

    def plan(self, *faults: Fault, times: int = 1) -> Callable[[], Sequence[tuple[str, int]]]:
        """The faults, all of them ``times`` over, for :meth:`tests.faults.oracle.Oracle.run`.

        A fault is the name of a method of this class, or a function that is called with this object.
        """

        def injure() -> Sequence[tuple[str, int]]:
            for _ in range(times):
                for fault in faults:
                    if isinstance(fault, str):
                        getattr(self, fault)()
                        self.counts[fault] += 1
                    else:
                        self._at_random()
                        fault(self)
                        self.counts[fault.__name__] += 1
            self._stage.recover()
            self._stage.await_progress()
            return list(self.counts.items())

        return injure

    def _at_random(self) -> None:
        """Messages move now; a random moment later."""
        self._stage.await_progress(self._rng.randint(1, 300))
        time.sleep(self._rng.uniform(0, _MOMENT))

    # ------------------------------------------------------------------------------------------------------ the agent

    def kill_agent(self) -> None:
        """SIGKILL, and at once another process."""
        self._at_random()
        self._stage.restart()

    def terminate_agent(self) -> None:
        """SIGTERM: drains, ends with 0."""
        self._at_random()
        code = self._stage.agent.terminate()
        assert code == 0, f"mgw run ended with {code} after SIGTERM:\n{self._stage.agent.tail()}"
        self._stage.agent.start()

    # ------------------------------------------------------------------------------------------------------- the wire

    def cut_wire(self) -> None:
        """Every connection of the gateway to its brokers is reset."""
        self._at_random()
        for proxy in self._stage.proxies.values():
            proxy.cut()

    def stall_wire(self) -> None:
        """Nothing goes through and nobody says so, until every job has noticed."""
        self._stall()

    def half_open_wire(self) -> None:
        """The brokers hear the gateway and it hears nothing from them, until every job has noticed."""
        self._stall(requests=False)

    def deaf_wire(self) -> None:
        """The gateway hears the brokers and they hear nothing from it, until every job has noticed."""
        self._stall(answers=False)

    def _stall(self, *, requests: bool = True, answers: bool = True) -> None:
        self._at_random()
        for proxy in self._stage.proxies.values():
            proxy.stall(requests=requests, answers=answers)
        try:
            eventually(
                lambda: set(self._stage.failing()) >= set(self._way.jobs),
                deadline=60,
                what=f"every one of {self._way.jobs} noticing that its connection is dead",
            )
        finally:
            for proxy in self._stage.proxies.values():
                proxy.resume()
        self._stage.reset_retrying()

    # ---------------------------------------------------------------------------------------------------- the brokers

    def restart_broker(self) -> None:
        """Orderly restart of every broker of the way."""
        self._at_random()
        for system in self._way.systems:
            self._stage.brokers.server(system).restart()
        self._stage.reset_retrying()

    def kill_broker(self) -> None:
        """SIGKILL of every broker of the way.

        Mosquitto answers before it writes to disk, so what it confirmed last may be lost by itself. To see what the
        gateway loses, the publisher pauses and Mosquitto saves before it is killed.
        """
        if "rabbitmq" in self._way.systems:
            self._stage.brokers.rabbitmq.flush_declarations()
        self._at_random()
        for system in self._way.systems:
            server = self._stage.brokers.server(system)
            if system == "mqtt":
                with self._publisher.paused():
                    self._let_through()
                    self._stage.brokers.save_mqtt()
                    server.kill()
            else:
                server.kill()
            server.start()
        self._stage.reset_retrying()

    def _let_through(self) -> None:
        """Wait until everything published has been carried by every job."""
        acknowledged = self._publisher.ledger.acknowledged
        eventually(
            lambda: self._stage.carried() >= len(acknowledged) or self._stage.reset_retrying(),
            deadline=60,
            what="everything published carried to the end",
        )
