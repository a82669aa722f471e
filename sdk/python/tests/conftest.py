"""Settings of every test: properties have no deadline, for the machine is shared, and leave no files behind."""

from hypothesis import settings

settings.register_profile("highwater", deadline=None, database=None, print_blob=True)
settings.load_profile("highwater")
