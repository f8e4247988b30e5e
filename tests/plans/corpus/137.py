# Request: send the contract "NDA_template" to the three new partners: a@x.com, b@y.com, c@z.com
import asyncio

partners = ["a@x.com", "b@y.com", "c@z.com"]
files = await search_files("NDA_template", limit=1)
assert files, "NDA_template not found"
nda = files[0]


async def send_nda(email):
    link = await share_file(nda["id"], email)
    await send_mail(email, "NDA", f"Hello,\n\nplease find our NDA here: {link}\n\nKind regards")
    return email


done = await asyncio.gather(*[send_nda(p) for p in partners], return_exceptions=True)
for partner, res in zip(partners, done):
    if isinstance(res, BaseException):
        print(f"{partner}: failed ({res})")
    else:
        print(f"{partner}: sent")
