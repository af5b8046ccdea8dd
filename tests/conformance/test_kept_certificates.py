"""What the hub keeps of the certificates of a link, on both databases."""

from __future__ import annotations

from mgw.gateway.services.admin import GatewayAdmin
from mgw.gateway.services.hubs import open_hub
from mgw.gateway.state.certificates import put_certificates
from mgw.links.certificates import Certificate
from tests.support.gateway_hubs import hub_url, hubs

__all__ = ["hub_url", "hubs"]

OWN = Certificate("LINK", "/etc/own.pem", "CN=own", 2_000_000_000.0)
FIRST = Certificate("BROKER", "a:9093", "CN=a", 2_000_000_000.0)
AGAIN = FIRST._replace(expires=2_100_000_000.0)


def test_a_server_that_is_named_twice_has_one_row_and_one_that_is_silent_keeps_its_own(hub_url: str) -> None:
    def kept() -> list[tuple[str, str]]:
        with hub.read() as conn:
            rows = conn.exec_driver_sql("SELECT OWNER, EXPIRES FROM MGW_CERTIFICATES ORDER BY OWNER DESC")
            return [(row[0], str(row[1])[:4]) for row in rows]

    with open_hub(hub_url, create=True) as hub:
        GatewayAdmin(hub).create_msgsystem_link("K", "MEMORY", {"broker": "kept"})
        with hub.write() as conn:
            put_certificates(conn, "k", [OWN, FIRST, FIRST, AGAIN], 1.0, anew=True)
        assert kept() == [("LINK", "2033"), ("BROKER", "2036")]
        with hub.write() as conn:
            put_certificates(conn, "K", [OWN], 2.0, anew=False)
        assert kept() == [("LINK", "2033"), ("BROKER", "2036")]
        with hub.write() as conn:
            put_certificates(conn, "K", [OWN], 3.0, anew=True)
        assert kept() == [("LINK", "2033")]
