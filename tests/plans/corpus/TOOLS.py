"""Tool stubs available to the programs. Every tool is asynchronous: call it with `await`."""
from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal, NotRequired, TypedDict

# --------------------------------------------------------------------------
# built-in functions (no import needed)
# --------------------------------------------------------------------------


class Approval:
    """Truthy when the human approved."""
    approved: bool
    note: str | None


async def approve(question: str) -> Approval:
    """Ask a human for approval and wait for the answer. Truthy when approved; `.note` holds a remark, if any."""
    ...


async def wait_for(event: str) -> dict[str, Any]:
    """Wait until the named external event happens; returns its payload."""
    ...


def now() -> datetime:
    """Current time (timezone-aware, UTC)."""
    ...


def uuid() -> str:
    """A fresh unique id."""
    ...


# --------------------------------------------------------------------------
# git
# --------------------------------------------------------------------------


class Repo(TypedDict):
    name: str
    default_branch: str
    archived: bool
    language: str | None
    open_issues: int
    pushed_at: str  # ISO 8601


class Commit(TypedDict):
    sha: str
    author: str
    author_email: str
    message: str
    date: str  # ISO 8601, e.g. "2025-03-01T10:22:00Z"
    additions: int
    deletions: int
    files: list[str]


class Branch(TypedDict):
    name: str
    sha: str
    last_commit_at: str
    merged: bool
    protected: bool


class PullRequest(TypedDict):
    number: int
    title: str
    author: str
    state: Literal["open", "closed", "merged"]
    draft: bool
    labels: list[str]
    reviewers: list[str]
    approvals: int
    created_at: str
    updated_at: str
    head: str
    base: str
    body: str | None


class FileDiff(TypedDict):
    path: str
    additions: int
    deletions: int
    patch: str


class CiStatus(TypedDict):
    state: Literal["success", "failure", "pending"]
    checks: list[dict[str, str]]  # {"name": ..., "state": ..., "url": ...}


async def list_repos(org: str, include_archived: bool = False) -> list[Repo]:
    """All repositories of an organisation."""
    ...


async def list_commits(repo: str, branch: str = "main", since: str | None = None, until: str | None = None, limit: int = 100) -> list[Commit]:
    """Commits, newest first. since/until are ISO dates."""
    ...


async def list_branches(repo: str) -> list[Branch]:
    """All branches of a repository."""
    ...


async def delete_branch(repo: str, branch: str) -> bool:
    """Delete a branch. Raises PermissionError when the branch is protected."""
    ...


async def list_pull_requests(repo: str, state: Literal["open", "closed", "merged", "all"] = "open") -> list[PullRequest]:
    """Pull requests of a repository."""
    ...


async def merge_pull_request(repo: str, number: int, method: Literal["merge", "squash", "rebase"] = "squash") -> str:
    """Merge and return the sha of the merge commit. Raises ValueError when the PR is not mergeable."""
    ...


async def comment_on_pull_request(repo: str, number: int, body: str) -> int:
    """Add a comment; returns the comment's id."""
    ...


async def get_diff(repo: str, base: str, head: str) -> list[FileDiff]:
    """Changed files between two refs."""
    ...


async def get_file(repo: str, path: str, ref: str = "main") -> str | None:
    """Text of a file in a repository, None when it does not exist."""
    ...


async def get_ci_status(repo: str, ref: str) -> CiStatus:
    """Combined state of the checks of a ref."""
    ...


async def create_tag(repo: str, tag: str, sha: str, message: str = "") -> str:
    """Create an annotated tag. Raises ValueError when the tag exists already."""
    ...


# --------------------------------------------------------------------------
# calendar
# --------------------------------------------------------------------------


class Event(TypedDict):
    id: str
    title: str
    start: str  # ISO 8601 local time without offset, "2025-03-01T10:00:00"
    end: str
    attendees: list[str]
    organizer: str
    location: str | None
    recurring: bool
    response: Literal["accepted", "declined", "tentative", "none"]


class Slot(TypedDict):
    start: str
    end: str


async def list_events(user: str, start: str, end: str) -> list[Event]:
    """Events of a user between two dates (YYYY-MM-DD, end exclusive), sorted by start."""
    ...


async def create_event(title: str, start: str, end: str, attendees: list[str], location: str | None = None, description: str = "") -> Event:
    """Create an event. Raises ValueError when end is not after start."""
    ...


async def update_event(event_id: str, title: str | None = None, start: str | None = None, end: str | None = None, location: str | None = None) -> Event:
    """Change the given fields. Raises KeyError when there is no such event."""
    ...


async def delete_event(event_id: str, notify: bool = True) -> None:
    """Delete an event. Raises KeyError when there is no such event."""
    ...


async def find_free_slots(users: list[str], day: str, minutes: int = 30) -> list[Slot]:
    """Slots on a day (9:00-17:00) in which all users are free, at least `minutes` long."""
    ...


# --------------------------------------------------------------------------
# mail and chat
# --------------------------------------------------------------------------


class Mail(TypedDict):
    id: str
    thread_id: str
    sender: str
    to: list[str]
    subject: str
    body: str
    received_at: str
    unread: bool
    labels: list[str]
    attachments: list[dict[str, Any]]  # {"name": str, "size": int, "document_id": str}


async def search_mail(query: str = "", folder: str = "inbox", unread_only: bool = False, limit: int = 50) -> list[Mail]:
    """Search mails, newest first. Query supports from:, to:, subject: and plain words."""
    ...


async def send_mail(to: str | list[str], subject: str, body: str, cc: list[str] | None = None, attachments: list[str] | None = None) -> str:
    """Send a mail, returns its id. Raises ValueError when an address is invalid."""
    ...


async def reply_mail(mail_id: str, body: str, reply_all: bool = False) -> str:
    """Reply to a mail, returns the id of the reply."""
    ...


async def label_mail(mail_id: str, label: str) -> None:
    """Put a label on a mail."""
    ...


async def archive_mail(mail_id: str) -> None:
    """Move a mail to the archive."""
    ...


async def post_message(channel: str, text: str, thread: str | None = None) -> str:
    """Post to a chat channel ("#ops") or person ("@ann"), returns the message id."""
    ...


# --------------------------------------------------------------------------
# CRM
# --------------------------------------------------------------------------


class Contact(TypedDict):
    id: str
    name: str
    email: str | None
    phone: str | None
    company: str | None
    country: str | None
    tags: list[str]
    owner: str
    last_contacted: str | None
    address: NotRequired[dict[str, str]]


class Deal(TypedDict):
    id: str
    name: str
    contact_id: str
    stage: Literal["lead", "qualified", "proposal", "negotiation", "won", "lost"]
    amount: float
    currency: str
    owner: str
    close_date: str | None
    updated_at: str


async def search_contacts(query: str = "", tag: str | None = None, country: str | None = None, limit: int = 100) -> list[Contact]:
    """Search contacts by name, mail or company."""
    ...


async def get_contact(contact_id: str) -> Contact | None:
    """One contact, None when unknown."""
    ...


async def update_contact(contact_id: str, fields: dict[str, Any]) -> Contact:
    """Change fields of a contact. Raises KeyError when unknown."""
    ...


async def list_deals(stage: str | None = None, owner: str | None = None) -> list[Deal]:
    """Deals, optionally of a stage or owner."""
    ...


async def update_deal(deal_id: str, stage: str | None = None, amount: float | None = None, owner: str | None = None, close_date: str | None = None) -> Deal:
    """Change a deal. Raises ValueError on an invalid stage."""
    ...


async def add_crm_note(contact_id: str, text: str) -> str:
    """Add a note to a contact; returns the note id."""
    ...


# --------------------------------------------------------------------------
# shop
# --------------------------------------------------------------------------


class OrderLine(TypedDict):
    sku: str
    title: str
    quantity: int
    unit_price: float


class Order(TypedDict):
    id: str
    customer_id: str
    customer_email: str
    status: Literal["pending", "paid", "shipped", "delivered", "cancelled", "refunded"]
    lines: list[OrderLine]
    total: float
    currency: str
    created_at: str
    shipping: dict[str, Any]  # {"country": str, "city": str, "zip": str, "carrier": str | None, "tracking": str | None}
    coupon: str | None


class OrderPage(TypedDict):
    items: list[Order]
    page: int
    pages: int
    total: int


class Product(TypedDict):
    sku: str
    title: str
    price: float
    cost: float
    stock: int
    reorder_level: int
    category: str
    active: bool


class Shipment(TypedDict):
    carrier: str
    tracking: str
    status: Literal["created", "in_transit", "delivered", "lost", "returned"]
    eta: str | None
    events: list[dict[str, str]]


async def list_orders(status: str | None = None, since: str | None = None, until: str | None = None, page: int = 1, per_page: int = 50) -> OrderPage:
    """One page of orders, newest first."""
    ...


async def get_order(order_id: str) -> Order:
    """One order. Raises KeyError when there is no such order."""
    ...


async def cancel_order(order_id: str, reason: str) -> Order:
    """Cancel an order. Raises ValueError when it was shipped already."""
    ...


async def refund_order(order_id: str, amount: float | None = None, reason: str = "") -> dict[str, Any]:
    """Refund an order wholly or partly: {"refund_id": str, "amount": float}. Raises ValueError when amount exceeds the total."""
    ...


async def list_products(category: str | None = None, active_only: bool = True) -> list[Product]:
    """Products of the shop."""
    ...


async def get_product(sku: str) -> Product | None:
    """One product, None when unknown."""
    ...


async def update_product(sku: str, price: float | None = None, stock: int | None = None, active: bool | None = None) -> Product:
    """Change a product. Raises KeyError when unknown, ValueError on a negative price or stock."""
    ...


async def get_shipment(order_id: str) -> Shipment | None:
    """The shipment of an order, None when it was not shipped yet. May raise TimeoutError when the carrier does not answer."""
    ...


# --------------------------------------------------------------------------
# HR and expenses
# --------------------------------------------------------------------------


class Employee(TypedDict):
    id: str
    name: str
    email: str
    department: str
    title: str
    manager_id: str | None
    start_date: str
    birthday: str | None
    salary: float
    location: str
    active: bool


class LeaveRequest(TypedDict):
    id: str
    employee_id: str
    kind: Literal["vacation", "sick", "parental", "unpaid"]
    start: str
    end: str
    status: Literal["pending", "approved", "rejected"]


class Expense(TypedDict):
    id: str
    employee_id: str
    amount: float
    currency: str
    category: str
    date: str
    description: str
    receipt: str | None
    status: Literal["submitted", "approved", "rejected", "paid"]


async def list_employees(department: str | None = None, active_only: bool = True) -> list[Employee]:
    """Employees, optionally of one department."""
    ...


async def get_employee(employee_id: str) -> Employee | None:
    """One employee (by id or mail address), None when unknown."""
    ...


async def list_leave(start: str, end: str, employee_id: str | None = None) -> list[LeaveRequest]:
    """Leave requests overlapping the period."""
    ...


async def get_leave_balance(employee_id: str) -> dict[str, float]:
    """Days left by kind, e.g. {"vacation": 12.5, "sick": 5.0}."""
    ...


async def request_leave(employee_id: str, start: str, end: str, kind: str = "vacation") -> LeaveRequest:
    """Request leave. Raises ValueError when the balance does not suffice."""
    ...


async def list_expenses(status: str | None = None, employee_id: str | None = None, since: str | None = None) -> list[Expense]:
    """Expense claims."""
    ...


async def decide_expense(expense_id: str, decision: Literal["approved", "rejected"], comment: str = "") -> Expense:
    """Approve or reject a submitted claim. Raises ValueError when it was decided already."""
    ...


# --------------------------------------------------------------------------
# weather and travel
# --------------------------------------------------------------------------


@dataclass
class DayForecast:
    date: str
    high_c: float
    low_c: float
    rain_mm: float
    wind_kmh: float
    summary: str


@dataclass
class Weather:
    city: str
    temp_c: float
    humidity: int
    wind_kmh: float
    summary: str


class Flight(TypedDict):
    id: str
    airline: str
    origin: str
    destination: str
    departs: str
    arrives: str
    stops: int
    price: float
    currency: str
    seats_left: int


class Hotel(TypedDict):
    id: str
    name: str
    stars: int
    rating: float
    price_per_night: float
    currency: str
    distance_km: float
    amenities: list[str]


async def get_weather(city: str) -> Weather:
    """Current weather. Raises LookupError for an unknown city."""
    ...


async def get_forecast(city: str, days: int = 7) -> list[DayForecast]:
    """Daily forecast, today first, at most 14 days."""
    ...


async def search_flights(origin: str, destination: str, date: str, max_stops: int | None = None) -> list[Flight]:
    """Flights on a date (YYYY-MM-DD) between airport codes."""
    ...


async def book_flight(flight_id: str, passenger: str) -> dict[str, Any]:
    """Book a seat: {"booking_ref": str, "price": float}. Raises RuntimeError when sold out."""
    ...


async def search_hotels(city: str, checkin: str, checkout: str, max_price: float | None = None) -> list[Hotel]:
    """Hotels with free rooms."""
    ...


async def get_exchange_rate(base: str, quote: str, date: str | None = None) -> float:
    """Units of quote for one unit of base. Raises ValueError for an unknown currency."""
    ...


# --------------------------------------------------------------------------
# tickets
# --------------------------------------------------------------------------


class Ticket(TypedDict):
    id: str
    title: str
    description: str
    status: Literal["open", "in_progress", "waiting", "resolved", "closed"]
    priority: Literal["low", "normal", "high", "urgent"]
    assignee: str | None
    reporter: str
    labels: list[str]
    created_at: str
    updated_at: str
    due: str | None


class TicketPage(TypedDict):
    tickets: list[Ticket]
    next_cursor: str | None


class Comment(TypedDict):
    author: str
    text: str
    created_at: str


async def search_tickets(query: str = "", status: str | None = None, assignee: str | None = None, label: str | None = None, cursor: str | None = None) -> TicketPage:
    """One page (up to 50) of tickets; pass next_cursor to get the next page."""
    ...


async def get_ticket(ticket_id: str) -> Ticket | None:
    """One ticket, None when unknown."""
    ...


async def create_ticket(title: str, description: str, priority: str = "normal", labels: list[str] | None = None, assignee: str | None = None) -> Ticket:
    """Create a ticket."""
    ...


async def update_ticket(ticket_id: str, status: str | None = None, priority: str | None = None, assignee: str | None = None, labels: list[str] | None = None) -> Ticket:
    """Change the given fields. Raises KeyError when unknown."""
    ...


async def add_ticket_comment(ticket_id: str, text: str, internal: bool = False) -> None:
    """Comment on a ticket."""
    ...


async def list_ticket_comments(ticket_id: str) -> list[Comment]:
    """Comments, oldest first."""
    ...


# --------------------------------------------------------------------------
# files and documents
# --------------------------------------------------------------------------


class FileInfo(TypedDict):
    id: str
    name: str
    path: str
    size: int  # bytes
    mime: str
    owner: str
    modified_at: str
    shared_with: list[str]


async def list_files(folder: str = "/", recursive: bool = False) -> list[FileInfo]:
    """Files in a folder. Raises FileNotFoundError when there is no such folder."""
    ...


async def search_files(query: str, limit: int = 20) -> list[FileInfo]:
    """Full text search over all documents."""
    ...


async def read_document(file_id: str) -> str:
    """Text of a document. Raises FileNotFoundError when unknown, UnicodeDecodeError when it is not text."""
    ...


async def write_document(path: str, content: str, overwrite: bool = False) -> FileInfo:
    """Write a document. Raises FileExistsError when it exists and overwrite is not set."""
    ...


async def move_file(file_id: str, folder: str) -> FileInfo:
    """Move a file to another folder."""
    ...


async def delete_file(file_id: str) -> None:
    """Delete a file for good. Raises PermissionError when not allowed."""
    ...


async def share_file(file_id: str, email: str, role: Literal["viewer", "editor"] = "viewer") -> str:
    """Share a file; returns the link."""
    ...


# --------------------------------------------------------------------------
# payments
# --------------------------------------------------------------------------


class Invoice(TypedDict):
    id: str
    number: str
    customer_id: str
    customer_email: str
    amount: float
    currency: str
    issued: str
    due: str
    status: Literal["draft", "open", "paid", "void", "overdue"]
    items: list[dict[str, Any]]  # {"description": str, "quantity": int, "price": float}


class Transaction(TypedDict):
    id: str
    date: str
    amount: float  # negative: outgoing
    currency: str
    counterparty: str
    reference: str
    kind: Literal["charge", "payout", "refund", "fee", "transfer"]


async def list_invoices(status: str | None = None, customer_id: str | None = None, since: str | None = None) -> list[Invoice]:
    """Invoices."""
    ...


async def get_invoice(invoice_id: str) -> Invoice | None:
    """One invoice, None when unknown."""
    ...


async def create_invoice(customer_id: str, items: list[dict[str, Any]], currency: str = "EUR", due_days: int = 30) -> Invoice:
    """Create an open invoice. Raises ValueError when items is empty."""
    ...


async def send_invoice_reminder(invoice_id: str, tone: Literal["friendly", "firm", "final"] = "friendly") -> str:
    """Send a payment reminder; returns the mail id."""
    ...


async def charge_customer(customer_id: str, amount: float, currency: str = "EUR", description: str = "", idempotency_key: str | None = None) -> dict[str, Any]:
    """Charge the stored card: {"charge_id": str, "status": "succeeded"|"failed", "failure_reason": str|None}. May raise ConnectionError."""
    ...


async def list_transactions(account: str = "main", since: str | None = None, until: str | None = None) -> list[Transaction]:
    """Transactions of an account, oldest first."""
    ...


async def get_balance(account: str = "main") -> dict[str, float]:
    """Balance by currency."""
    ...


# --------------------------------------------------------------------------
# analytics
# --------------------------------------------------------------------------


class MetricPoint(TypedDict):
    date: str
    value: float | None


async def run_sql(query: str, params: list[Any] | None = None) -> list[dict[str, Any]]:
    """Run a read-only query on the warehouse. Raises ValueError on a syntax error."""
    ...


async def get_metric(name: str, start: str, end: str, granularity: Literal["hour", "day", "week", "month"] = "day") -> list[MetricPoint]:
    """Time series of a metric. Raises KeyError when there is no such metric."""
    ...


async def list_tables(schema: str = "public") -> list[str]:
    """Names of the tables."""
    ...


async def describe_table(table: str) -> list[dict[str, str]]:
    """Columns: [{"name": ..., "type": ..., "nullable": "yes"|"no"}]."""
    ...


async def create_chart(title: str, kind: Literal["line", "bar", "pie"], labels: list[str], values: list[float]) -> str:
    """Create a chart; returns its link."""
    ...


async def track_event(name: str, properties: dict[str, Any] | None = None) -> None:
    """Record an analytics event."""
    ...
