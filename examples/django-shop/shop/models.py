"""The project's own table."""

from django.db import models


class Order(models.Model):
    """What a customer ordered."""

    product = models.CharField(max_length=100)
    quantity = models.PositiveIntegerField()
    placed = models.DateTimeField(auto_now_add=True)
