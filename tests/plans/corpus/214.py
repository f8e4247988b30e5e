# Request: compare Q1 and Q2 revenue per category with SQL and highlight categories which lost more than 10%
QUERY = """
    SELECT p.category,
           SUM(CASE WHEN EXTRACT(QUARTER FROM o.created_at) = 1 THEN l.quantity * l.unit_price ELSE 0 END) AS q1,
           SUM(CASE WHEN EXTRACT(QUARTER FROM o.created_at) = 2 THEN l.quantity * l.unit_price ELSE 0 END) AS q2
    FROM order_lines l
    JOIN orders o ON o.id = l.order_id
    JOIN products p ON p.sku = l.sku
    WHERE EXTRACT(YEAR FROM o.created_at) = %s
    GROUP BY p.category
"""

try:
    rows = await run_sql(QUERY, [now().year])
except ValueError as e:
    return f"The query failed: {e}"

lines = []
for row in sorted(rows, key=lambda r: r["category"]):
    q1, q2 = float(row["q1"]), float(row["q2"])
    change = (q2 - q1) / q1 if q1 else 0.0
    marker = "  <-- !!" if change < -0.10 else ""
    lines.append(f"{row['category']:<15}{q1:>12,.0f}{q2:>12,.0f}{change:>+9.1%}{marker}")

return "\n".join(lines)
