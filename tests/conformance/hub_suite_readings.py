"""What rules and dequeue conditions mean to a reader of SQL. Run on both databases."""

from __future__ import annotations

import json

from mgw.gateway.aq.errors import NoMessage
from mgw.gateway.aq.model import DequeueMode, DequeueOptions, Navigation
from mgw.transforms.message import Header, Message, ValueType
from tests.conformance.hub_suite import HubCase

ORDER = Message(
    json.dumps(
        {
            "region": "EU",
            "amount": 120.5,
            "qty": 3,
            "paid": True,
            "note": None,
            "customer": {"name": "O'Neil", "tags": ["a"]},
            "code": "007",
        }
    ),
    (Header("channel", ValueType.TEXT, "web"), Header("n", ValueType.LONG, 5)),
    priority=2,
    correlation="ord-17_a",
    sender_name="SHOP",
    expiration=3600,
)
#: What a rule says of :data:`ORDER`, for a reader of SQL; None is unknown.
READINGS: list[tuple[str, bool | None]] = [
    ("tab.user_data.region = 'EU'", True),
    ("tab.user_data.region <> 'US'", True),
    ("tab.user_data.region != 'EU'", False),
    ("tab.user_data.region ^= 'US'", True),
    ("tab.user_data.amount > 100 AND tab.user_data.amount <= 120.5", True),
    ("tab.user_data.amount BETWEEN 100 AND 121", True),
    ("tab.user_data.amount NOT BETWEEN 100 AND 121", False),
    ("tab.user_data.qty IN (1,2,3)", True),
    ("tab.user_data.qty NOT IN (1,2,NULL)", None),
    ("tab.user_data.qty IN (3,NULL)", True),
    ("tab.user_data.missing = 1", None),
    ("NOT (tab.user_data.missing = 1)", None),
    ("tab.user_data.missing IS NULL", True),
    ("tab.user_data.note IS NULL", True),
    ("tab.user_data.note = NULL", None),
    ("tab.user_data.missing = 1 OR priority = 2", True),
    ("tab.user_data.missing = 1 AND priority = 3", False),
    ("NOT (tab.user_data.missing = 1 AND priority = 2)", None),
    ("tab.user_data.paid", True),
    ("tab.user_data.paid = TRUE", True),
    ("tab.user_data.paid IS NOT FALSE", True),
    ("NOT tab.user_data.paid", False),
    ("tab.user_data.customer.name = 'O''Neil'", True),
    ("tab.user_data.customer.name LIKE 'O''N%'", True),
    ("UPPER(tab.user_data.customer.name) LIKE '%NEIL'", True),
    ("tab.user_data.code = '007'", True),
    ("tab.user_data.code = 7", True),
    ("TO_NUMBER(tab.user_data.code) = 7", True),
    ("priority < 3", True),
    ("tab.priority = 2", True),
    ("PRIORITY IN (1, 2)", True),
    ("Priority BETWEEN 1 AND 3", True),
    ("MOD(priority, 2) = 0", True),
    ("priority / 4 = 0.5", True),
    ("-priority = -2", True),
    ("priority + 1 * 2 = 4", True),
    ("corrid LIKE 'ord-__\\_a' ESCAPE '\\'", True),
    ("corrid LIKE 'ord-%'", True),
    ("corrid LIKE 'ORD%'", False),
    ("tab.corrid = 'ord-17_a'", True),
    ("SUBSTR(corrid, 5, 2) = '17'", True),
    ("SUBSTR(corrid, -1) = 'a'", True),
    ("INSTR(corrid, '-') = 4", True),
    ("LENGTH(corrid) = 8", True),
    ("corrid || '!' = 'ord-17_a!'", True),
    ("CONCAT(corrid, '!') = 'ord-17_a!'", True),
    ("sender_name = 'SHOP'", True),
    ("expiration = 3600", True),
    ("retry_count = 0", True),
    ("exception_queue IS NULL", True),
    ("delay = 0", True),
    ("HEADER('channel') = 'web'", True),
    ("tab.user_data.header.channel = 'web'", True),
    ("HEADER('n') > 4", True),
    ("HEADER('none') IS NULL", True),
    ("CASE WHEN priority = 2 THEN 'low' ELSE 'high' END = 'low'", True),
    ("CASE priority WHEN 2 THEN TRUE END", True),
    ("NVL(tab.user_data.missing, 'x') = 'x'", True),
    ("COALESCE(tab.user_data.missing, tab.user_data.region) = 'EU'", True),
    ("NULLIF(priority, 2) IS NULL", True),
    ("ROUND(tab.user_data.amount) = 121", True),
    ("FLOOR(tab.user_data.amount) = 120", True),
    ("CEIL(tab.user_data.amount) = 121", True),
    ("ABS(-priority) = 2", True),
    ("TRIM(' x ') = 'x'", True),
    ("LTRIM(tab.user_data.code,'0') = '7'", True),
    ("REPLACE(corrid,'_a','') = 'ord-17'", True),
    ("LOWER(sender_name) = 'shop'", True),
    ("TO_CHAR(priority) = '2'", True),
    ("priority = 2 -- comment", True),
    ("/* c */ priority = 2", True),
    ("priority\n=\n2", True),
    ("(priority = 2)", True),
    ("NOT NOT priority = 2", True),
    ("priority = 2 OR priority = 3 AND corrid = 'x'", True),
    ("(priority = 2 OR priority = 3) AND corrid = 'x'", False),
    ("tab.user_data IS NOT NULL", True),
    ("tab.user_data.customer IS NOT NULL", True),
    ("tab.user_data.\"region\" = 'EU'", True),
    ("tab.user_data.Region IS NULL", True),
    ("'a' < 'b'", True),
    ("'' IS NULL", False),
    ("tab.user_data.amount = 1.205e2", True),
    ("tab.user_data.customer.tags IS NOT NULL", True),
    ("tab.user_data.region IN ('EU', 'US') AND NOT priority IN (3)", True),
]


class ReadingSuite(HubCase):
    """Rules and conditions mean what they say."""

    def test_rules_mean_what_a_reader_of_sql_expects(self) -> None:
        self.topic("ALL")
        for number, (text, _) in enumerate(READINGS):
            self.admin.add_subscriber("events", f"S{number}", rule=text)
        with self.hub.session() as session:
            session.enqueue("events", ORDER)
            session.commit()
        routed = {row["CONSUMER_NAME"] for row in self.view("events_t")}
        wrong = [text for n, (text, truth) in enumerate(READINGS) if (f"S{n}" in routed) is not (truth is True)]
        assert wrong == []

    def test_dequeue_conditions_mean_the_same_and_unknown_is_neither(self) -> None:
        self.queue()
        with self.hub.session() as session:
            session.enqueue("orders", ORDER)
            session.commit()
            for text, truth in READINGS:
                for condition, wanted in ((text, truth is True), (f"NOT (\n{text}\n)", truth is False)):
                    look = DequeueOptions(
                        deq_condition=condition,
                        dequeue_mode=DequeueMode.BROWSE,
                        navigation=Navigation.FIRST_MESSAGE,
                        wait=0,
                    )
                    try:
                        session.dequeue("orders", look)
                        found = True
                    except NoMessage:
                        found = False
                    assert (condition, found) == (condition, wanted)
