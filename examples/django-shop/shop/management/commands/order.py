"""``python manage.py order PRODUCT QUANTITY``: place an order."""

from django.core.management.base import BaseCommand

from shop.orders import place


class Command(BaseCommand):
    """Place an order."""

    help = "Place an order."

    def add_arguments(self, parser):
        """The product and how many of it."""
        parser.add_argument("product")
        parser.add_argument("quantity", type=int)

    def handle(self, *args, **options):
        """Place it and print its number."""
        self.stdout.write(str(place(options["product"], options["quantity"]).pk))
