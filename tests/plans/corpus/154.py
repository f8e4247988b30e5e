# Request: List the languages of our repos and how many repos use each
import asyncio


async def main():
    repos = await list_repos("acme", include_archived=False)
    languages = {}
    for repo in repos:
        lang = repo["language"] or "unknown"
        languages[lang] = languages.get(lang, 0) + 1

    print("Languages used in the acme organization:")
    for i, (lang, count) in enumerate(sorted(languages.items(), key=lambda x: x[1], reverse=True), start=1):
        print(f"{i}. {lang}: {count} {'repo' if count == 1 else 'repos'}")


asyncio.run(main())
