"""The App and its services: definitions, jobs, runs, plans and stored definitions.

`app.py` is the class that users make. It builds the `Context` (`context.py`) and delegates to the services, which take
the Context and not the App.
"""
