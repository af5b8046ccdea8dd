"""The table of orders."""

from django.db import migrations, models


class Migration(migrations.Migration):
    """Made by ``python manage.py makemigrations``."""

    initial = True
    dependencies = []
    operations = [
        migrations.CreateModel(
            name="Order",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("product", models.CharField(max_length=100)),
                ("quantity", models.PositiveIntegerField()),
                ("placed", models.DateTimeField(auto_now_add=True)),
            ],
        ),
    ]
