"""What the pictures show: definitions and runs of an ordinary project, and of one in which everything is too large."""

from __future__ import annotations

from typing import Any

Document = dict[str, Any]
LONG = "the-quarterly-reconciliation-of-every-ledger-with-every-other-ledger-including-those-nobody-has-looked-at-since"
HEBREW, ARABIC = "סיכום שבועי של חדשות החבלים", "ملخص الأخبار الأسبوعي عن الحبال"
CHINESE, JAPANESE = "每周绳索新闻摘要与市场价格变动分析报告", "週刊ロープニュースのまとめと市場価格の動き"
HOSTILE = """<img src=x onerror="alert(1)"><script>alert(document.cookie)</script><b style="position:fixed">bold</b>"""


def call(id: str, tool: str, /, **params: Any) -> Document:
    return {"id": id, "type": "tool", "tool": tool, "params": params}


DIGEST: Document = {
    "id": "weekly-digest",
    "name": "Weekly digest",
    "description": "Reads news and papers on a topic, summarises each, and mails the digest to whoever asked for it.",
    "mode": "dag",
    "concurrency": 4,
    "inputSchema": {
        "type": "object",
        "required": ["topic"],
        "properties": {
            "topic": {"type": "string", "description": "What to read about"},
            "to": {"type": "string", "description": "Who gets the digest"},
            "days": {"type": "integer", "minimum": 1, "default": 7},
            "papers": {"type": "boolean", "description": "Also scientific papers"},
        },
    },
    "variables": {"reader": "everybody@example.org"},
    "nodes": [
        {
            "id": "sources",
            "type": "parallel",
            "nodes": [
                call("news", "search_news", topic="$input.topic"),
                {**call("papers", "search_papers", topic="$input.topic"), "errorStrategy": "fallback", "fallback": []},
            ],
        },
        {
            "id": "each",
            "type": "loop",
            "dependsOn": ["sources"],
            "items": "$output.sources.news",
            "concurrency": 2,
            "nodes": [call("summary", "summarise", title="$item.title", words="$item.words")],
        },
        {**call("digest", "write_digest", topic="$input.topic", summaries="$output.each"), "dependsOn": ["each"]},
        {
            "id": "enough",
            "type": "condition",
            "dependsOn": ["digest"],
            "condition": "length($output.each) > 2",
            "then": [call("mail", "send_mail", to="$var.reader", subject="$input.topic", body="$output.digest")],
            "otherwise": [
                call("note", "send_mail", to="editor@example.org", subject="Too little", body="$input.topic")
            ],
        },
    ],
}
IMPORT: Document = {
    "id": "nightly-import",
    "name": "Nightly import",
    "description": "Loads yesterday's rows from the warehouse.",
    "nodes": [
        call("stock", "stock", material="nylon"),
        {**call("rows", "load_rows", table="sales"), "errorStrategy": "retry", "maxRetries": 2, "retryDelay": 30},
        call("report", "write_digest", topic="sales", summaries=["done"]),
    ],
}
REFUND: Document = {
    "id": "refund",
    "name": "Refund an order",
    "description": "Pays back what was paid; large amounts only when somebody approves.",
    "inputSchema": {
        "type": "object",
        "required": ["order"],
        "properties": {"order": {"type": "string", "description": "Its number"}},
    },
    "nodes": [
        call("order", "find_order", number="$input.order"),
        {
            "id": "approve",
            "type": "wait",
            "condition": "$output.order.total > 1000",
            "approval": "Refund ${output.order.total} to ${output.order.customer} for order ${input.order}?",
            "timeout": 172_800_000,
        },
        call("pay", "refund", number="$input.order", amount="$output.order.total"),
    ],
}
DELIVERY: Document = {
    "id": "delivery",
    "name": "Wait for the carrier",
    "nodes": [
        call("order", "order", material="hemp", metres=50),
        {"id": "carrier", "type": "wait", "event": "carrier-arrived"},
        call("thanks", "send_mail", to="carrier@example.org", subject="Thanks", body="$output.carrier"),
    ],
}
SLOW: Document = {
    "name": "Follow the tide",
    "mode": "dag",
    "timeout": 0,
    "nodes": [
        call("orders", "find_order", number="A-1"),
        {**call("tide", "wait_for", event="high water"), "dependsOn": ["orders"]},
        {**call("papers", "search_papers", topic="tides"), "dependsOn": ["orders"]},
        {**call("sail", "write_digest", topic="tides", summaries=[]), "dependsOn": ["tide", "papers"]},
    ],
}
PARTIAL: Document = {
    "name": "Stock of everything",
    "errorStrategy": "continue",
    "nodes": [{"id": "each", "type": "loop", "items": ["hemp", "nylon", "silk", "steel"], "errorStrategy": "continue",
               "nodes": [{**call("stock", "stock", material="$item"), "errorStrategy": "continue"}]}],
}  # fmt: skip
AGENT: Document = {
    "kind": "agent",
    "name": "Stock keeper",
    "system": "You keep the stock of a shop. Keep 50 m of every material.",
    "prompt": "How is our stock of ${$input.material}? Order what is missing.",
    "tools": ["stock", "order"],
    "inputSchema": {"type": "object", "properties": {"material": {"type": "string"}}, "required": ["material"]},
}
LEDGER: Document = {
    "name": "Check the ledger",
    "nodes": [call("small", "count_aloud", to=40), call("large", "count_aloud", to=9_000)],
}
STRANGE: list[Document] = [
    {"name": HEBREW, "nodes": [call("חיפוש", "echo", value=f"{HEBREW} (1,234) {ARABIC}")]},
    {"name": ARABIC, "nodes": [call("بحث", "echo", value=ARABIC), call("ملخص", "echo", value="$prev")]},
    {
        "name": CHINESE,
        "nodes": [call("搜索新闻与论文", "echo", value=CHINESE * 4), call("摘要", "echo", value="$prev")],
    },
    {"name": JAPANESE, "nodes": [call("検索", "echo", value=JAPANESE)]},
    {
        "name": HOSTILE,
        "nodes": [call("<b>bold<b>", "echo", value=HOSTILE), call("ok", "echo", value=f"</pre>{HOSTILE}")],
    },
    {
        "name": LONG,
        "nodes": [call(LONG, "echo", value=LONG * 3), call("x" * 200, "echo", value="y" * 3000)],
    },
]
LARGE_OUTPUT: Document = {
    "name": "A megabyte",
    "nodes": [
        call("text", "large", bytes=1_000_000),
        call("data", "echo", value=[{"row": n, "name": f"rope {n}", "length": n * 1.5} for n in range(2_000)]),
    ],
}


def wide(count: int) -> Document:
    """A directed graph of so many nodes, each after one or two before it."""
    nodes = []
    for i in range(count):
        before = {(i - 1) // 2, i * 2 // 3} if i > 2 else set(range(min(i, 1)))
        nodes.append({**call(f"step-{i}", "echo", value=i), "dependsOn": [f"step-{b}" for b in sorted(before)]})
    return {"id": f"wide-{count}", "name": f"Wide: {count:,} steps", "mode": "dag", "timeout": 0, "nodes": nodes}


def many(count: int) -> Document:
    """A loop over so many items, one in nine of which fails."""
    inner = {**call("half", "stock", material="$item"), "errorStrategy": "continue"}
    items = ["silk" if n % 9 == 4 else "hemp" for n in range(count)]
    nodes = [
        {"id": "each", "type": "loop", "items": items, "concurrency": 20, "nodes": [inner], "maxIterations": count}
    ]
    return {"name": f"Loop over {count:,}", "errorStrategy": "continue", "timeout": 0, "nodes": nodes}
