# Request: clean the chart data: weekly "active_users" for this year, fill missing values with linear interpolation, then create a line chart
year = now().year
points = await get_metric("active_users", f"{year}-01-01", now().date().isoformat(), granularity="week")

values = [p["value"] for p in points]
labels = [p["date"] for p in points]
n = len(values)

i = 0
while i < n:
    if values[i] is not None:
        i += 1
        continue
    # find the end of the gap
    j = i
    while j < n and values[j] is None:
        j += 1
    left = values[i - 1] if i > 0 else None
    right = values[j] if j < n else None
    for k in range(i, j):
        if left is None:
            values[k] = right or 0
        elif right is None:
            values[k] = left
        else:
            values[k] = left + (right - left) * (k - i + 1) / (j - i + 1)
    i = j

link = await create_chart(f"Active users {year}", "line", labels, values)
print(link)
