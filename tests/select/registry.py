"""Some tools that tests select from."""

from __future__ import annotations

from typing import Any


def definition(name: str, description: str, *parameters: str, **more: Any) -> dict[str, Any]:
    properties = {parameter: {"type": "string"} for parameter in parameters}
    return {
        "name": name,
        "description": description,
        "inputSchema": {"type": "object", "properties": properties},
        **more,
    }


TOOLS = [
    definition("get_weather", "Current weather and forecast for a city.", "city", category="weather"),
    definition("send_email", "Send an e-mail message to somebody.", "recipient", "subject", category="mail"),
    definition("searchFlights", "Find flights between two airports on a date.", "origin", "destination"),
    definition("create_invoice", "Create an invoice for a customer.", "customer_id", "amount", category="billing"),
    definition("delete_invoice", "Delete an invoice that was created by mistake.", "invoice_id", category="billing"),
    definition("translate_text", "Translate a text into another language.", "text", "language"),
    definition("movie_search", "Look for films by title, actor or genre.", "title", "genre"),
    definition("run_query", "Execute an SQL statement on the database.", "sql", category="data"),
    definition("resize_image", "Change the size of a picture.", "width", "height"),
    definition("book_table", "Reserve a table in a restaurant.", "restaurant", "people"),
]


def names(result: Any) -> list[str]:
    return [one["name"] for one in result["results"]]
