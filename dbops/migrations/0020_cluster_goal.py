from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("dbops", "0019_data_identity"),
    ]

    operations = [
        migrations.AddField(
            model_name="cluster",
            name="redundancy_goal_seconds",
            field=models.PositiveIntegerField(blank=True, null=True),
        ),
    ]
