"""Hundreds of tools: those of a company that gives every system of its own to its models."""

from __future__ import annotations

from ropewalk import tool

SYSTEMS = ["ledger", "crm", "warehouse", "mail", "calendar", "tickets", "wiki", "payroll", "fleet", "billing"]
WORK = ["read", "list", "create", "change", "delete", "search", "export", "reconcile"]
THINGS = ["invoices", "customers", "messages", "vehicles", "pages"]


def one(system: str, work: str, thing: str) -> None:
    @tool(
        name=f"{system}_{work}_{thing}",
        description=f"{work.capitalize()} {thing} of the {system} system.",
        tags=[system, work],
    )
    def act(id: str, since: str = "") -> str:
        return f"{system} {work} {id}"

    globals()[f"{system}_{work}_{thing}"] = act


for system in SYSTEMS:
    for work in WORK:
        for thing in THINGS:
            one(system, work, thing)
