# Request: Ask before: give every engineer a 3% raise proposal list (just compute) and email to hr@acme.com
engineers = await list_employees(department="Engineering")

rows = []
total_before = total_after = 0.0
for e in sorted(engineers, key=lambda e: e["name"]):
    new_salary = round(e["salary"] * 1.03, -1)
    total_before += e["salary"]
    total_after += new_salary
    rows.append(f"{e['name']:<30}{e['salary']:>12,.0f}{new_salary:>12,.0f}")

table = "\n".join([f"{'Name':<30}{'Current':>12}{'Proposed':>12}", "-" * 54, *rows])
table += f"\n{'Total':<30}{total_before:>12,.0f}{total_after:>12,.0f}"

if await approve(f"Mail the raise proposal (+{total_after - total_before:,.0f} per year) to hr@acme.com?"):
    await send_mail("hr@acme.com", "Raise proposal Engineering", table)
    print("Sent.")
else:
    print("Not sent. Here is the table:\n")
    print(table)
