"""What the shop does."""

import json

from django.db import transaction

from mgw import Message
from shop.hub import session
from shop.models import Order


def place(product, quantity):
    """Save an order and enqueue a message for it: both, or neither."""
    with transaction.atomic():
        order = Order.objects.create(product=product, quantity=quantity)
        body = json.dumps({"order": order.pk, "product": product, "quantity": quantity})
        session().enqueue("ORDERS", Message(body, correlation=str(order.pk)))
    return order
