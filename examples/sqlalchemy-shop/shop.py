"""A shop on SQLAlchemy's ORM: orders, and a message for each.

``python shop.py tables``, ``python shop.py order flour 3``
"""

import json
import os
import sys

import sqlalchemy as sa
from sqlalchemy import orm

from mgw import Hub, Message

HUB = os.environ.get("MGW_HUB", "sqlite:///shop.db")


class Base(orm.DeclarativeBase):
    """The program's own tables."""


class Order(Base):
    """What a customer ordered."""

    __tablename__ = "shop_order"
    id: orm.Mapped[int] = orm.mapped_column(primary_key=True)
    product: orm.Mapped[str]
    quantity: orm.Mapped[int] = orm.mapped_column(sa.CheckConstraint("quantity > 0"))


def database() -> sa.Engine:
    """The program's database, which is the hub's; a hub on SQLite needs WAL."""
    url = sa.make_url(HUB).difference_update_query(["schema"])
    if url.get_backend_name() == "postgresql":
        return sa.create_engine(url.set(drivername="postgresql+psycopg"))
    engine = sa.create_engine(url, connect_args={"timeout": 30})
    sa.event.listen(engine, "connect", lambda driver, _: driver.execute("PRAGMA journal_mode=WAL"))
    return engine


def place(hub: Hub, session: orm.Session, product: str, quantity: int) -> Order:
    """Save an order and enqueue a message for it, in the transaction of the session, which its owner commits."""
    order = Order(product=product, quantity=quantity)
    session.add(order)
    session.flush()  # it has a number now
    body = json.dumps({"order": order.id, "product": product, "quantity": quantity})
    hub.session(session).enqueue("ORDERS", Message(body, correlation=str(order.id)))
    return order


def main(engine: sa.Engine, words: list[str]) -> None:
    """Make the table, or place an order."""
    if words == ["tables"]:
        Base.metadata.create_all(engine)
    elif words[:1] == ["order"] and len(words) == 3:
        with Hub.open(HUB) as hub, orm.Session(engine) as session, session.begin():
            sys.stdout.write(f"{place(hub, session, words[1], int(words[2])).id}\n")
    else:
        sys.exit("usage: shop.py tables | shop.py order PRODUCT QUANTITY")


if __name__ == "__main__":
    shop = database()
    try:
        main(shop, sys.argv[1:])
    finally:
        shop.dispose()
