"""Make src/ropewalk/select/words.npz: word vectors and nearest words out of all-MiniLM-L6-v2.

    python bench/select_words.py TEXTS.txt [MODEL.onnx [OUT.npz]]

Takes some minutes, and `onnxruntime` and `scipy`; without a path the model of the extra `minilm`. Each word piece goes
through the model by itself, which gives the nearest words. Then its vector is taught: so that the sum of the vectors of
the words of a text points where the model's vector of that text does, reduced to 128 numbers by their principal
components; TEXTS.txt (see select_texts.py) has one text a line. A vector's direction is rounded to int8, its length
kept beside it. Only pieces of latin letters are kept, whole words first, in the order of the model's vocabulary, which
is by frequency. No tool and no query of a set that the selector is measured on has any part in it.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import Stemmer

from ropewalk.select.embedding import MiniLM, WordPiece
from ropewalk.select.lexicon import Lexicon
from ropewalk.select.text import informative_words, normalised

SIZE, NEIGHBOURS, LEAST = 128, 8, 0.5
LONGEST = 64  # pieces of a text that the model reads
ROUNDS, STEP = 60, 0.02  # of the descent
HOLD = 0.3  # how hard a vector is held to what the model makes of its word alone
SEEN_LATER = 20  # one text in so many is not learnt from, and tells how well it goes

# Words of software and of everyday requests that the tokenizer has only in pieces.
MORE = """
delete deletes deleting deleted upload uploading uploads download downloading downloads downloadable url urls api
apis json csv xml yaml html css sql pdf docx xlsx zip png jpeg svg webhook webhooks login logout logon signup username
usernames timestamp timestamps timezone datetime endpoint endpoints config configs configure configuration repo repos
repository repositories commit commits merge merges rebase changelog issue issues todo todos checklist reminder
reminders spreadsheet spreadsheets workflow workflows workspace workspaces dashboard dashboards backup backups
firewall subnet hostname dns ssh ftp smtp oauth token tokens auth authenticate authenticated authorization authorize
validate validator validation encrypt encryption decrypt decryption decode encode encoder encoding compress
decompress parse parser parsing scrape scraper scraping crawler crawl screenshot screenshots thumbnail thumbnails
resize crop ocr transcribe transcription transcript translate translator translation summarise summarize summarizer
summarization paraphrase rewrite proofread grammar plagiarism chatbot chatbots llm prompt prompts embed embedding
embeddings cluster clustering classifier classify regression dataset datasets dataframe analytics analyze analyse
analyzer visualize visualise visualization histogram chart charts plot plots heatmap kpi crm erp saas invoice invoices
invoicing payroll payslip refund refunds checkout coupon coupons voucher vouchers discount discounts cashback cart
crypto cryptocurrency bitcoin ethereum blockchain nft nfts wallet wallets forex stock stocks ticker portfolio
portfolios dividend dividends mortgage mortgages refinance loan loans budgeting subscription subscriptions
unsubscribe newsletter newsletters seo keyword keywords hashtag hashtags influencer tweet tweets retweet podcast
podcasts playlist playlists lyrics soundtrack subtitle subtitles remix youtube instagram facebook twitter linkedin
whatsapp telegram slack github gitlab jira trello notion airbnb uber spotify netflix wikipedia google amazon ebay
itinerary itineraries booking bookings reservation reservations flight flights airfare hotel hotels hostel rental
rentals carpool rideshare parking commute geocode geocoding geolocation latitude longitude elevation directions gps
weather forecast forecasts humidity uv pollen aqi horoscope horoscopes zodiac tarot astrology numerology recipe
recipes calorie calories nutrition nutrient nutrients vegan vegetarian gluten workout workouts fitness yoga meditation
mindfulness bmi symptom symptoms diagnose diagnosis prescription prescriptions dosage vaccine vaccines appointment
appointments reschedule scheduler scheduling calendar calendars resume resumes resumé cv recruiter recruiting
freelancer freelance internship internships quiz quizzes flashcard flashcards tutor tutoring homework worksheet
worksheets essay essays citation citations bibliography emoji emojis gif gifs meme memes avatar avatars wallpaper
sudoku crossword trivia riddle puzzle puzzles dice yoyo sort sorting sorted filter filtering rename renaming append
concatenate regex substring lowercase uppercase uuid hash hashing checksum random randomize shuffle factorial
fibonacci permutation permutations quadratic polynomial derivative derivatives integral integrals matrix matrices
transpose eigenvalue determinant hypotenuse trigonometry arithmetic multiply multiplication subtract subtraction
divide percentage percentages median variance deviation correlation probability rounding kilometers kilograms
fahrenheit celsius currency currencies converter converters conversion"""


def model_vectors(model: MiniLM, rows: Sequence[Sequence[int]]) -> np.ndarray:
    """What the model makes of some texts, each given by its pieces."""
    out = np.zeros((len(rows), 384), np.float32)
    by_length: dict[int, list[int]] = {}
    for n, row in enumerate(rows):
        by_length.setdefault(len(row), []).append(n)
    for _, same in sorted(by_length.items()):
        for start in range(0, len(same), 64):
            block = same[start : start + 64]
            out[block] = model.read(np.array([rows[n] for n in block], np.int64))
    return out


def pieces(word: str, vocabulary: dict[str, int]) -> list[int]:
    """The pieces of a word, the longest first, as the model's tokenizer cuts it."""
    found, start = [], 0
    while start < len(word):
        mark = "##" if start else ""
        end = next(end for end in range(len(word), start, -1) if mark + word[start:end] in vocabulary)
        found.append(vocabulary[mark + word[start:end]])
        start = end
    return found


def nearest(vectors: np.ndarray, words: list[str]) -> tuple[np.ndarray, np.ndarray]:
    """The most similar other words of each, leaving out forms of the same word and of one already there."""
    stem = Stemmer.Stemmer("english").stemWord
    stems = [stem(word) for word in words]
    near = np.zeros((len(words), NEIGHBOURS), np.uint16)
    like = np.zeros((len(words), NEIGHBOURS), np.uint8)
    for start in range(0, len(words), 1024):
        block = vectors[start : start + 1024] @ vectors.T
        for row, sims in enumerate(block, start):
            seen, place = {stems[row]}, 0
            for other in np.argsort(-sims)[:40]:
                if sims[other] < LEAST or place == NEIGHBOURS:
                    break
                if stems[other] not in seen and len(words[other]) > 2:
                    seen.add(stems[other])
                    near[row, place], like[row, place] = other, min(255, round(float(sims[other]) * 255))
                    place += 1
    return near, like


def taught(lexicon: Lexicon, raw: np.ndarray, texts: list[str], wanted: np.ndarray) -> np.ndarray:
    """Vectors whose sums over the words of a text point where `wanted` does; `raw` has what they begin with."""
    from scipy.sparse import csr_matrix

    counted: list[tuple[int, int, float]] = []
    for n, text in enumerate(texts):
        rows, counts = lexicon.pieces([plain for _, plain in informative_words(normalised(text), 200)])
        counted += zip([n] * len(rows), rows, (1 / np.maximum(counts, 1)).repeat(counts).tolist(), strict=True)
    row, column, weight = map(np.array, zip(*counted, strict=True))
    words = csr_matrix((weight.astype(np.float32), (row, column)), (len(texts), len(raw)))
    enough = np.diff(words.indptr) > 1
    words, wanted = words[enough], wanted[enough] - wanted[enough].mean(0)
    axes = np.linalg.eigh(wanted.T @ wanted)[1][:, ::-1][:, :SIZE]
    wanted, first = unit(wanted @ axes), unit(unit(raw) @ axes) * lexicon.weights[:, None]
    later = np.arange(len(wanted)) % SEEN_LATER == 0
    seen, goal, back = words[~later], wanted[~later], words[~later].T.tocsr()
    found, mean_slope, size = first.copy(), np.zeros_like(first), np.zeros_like(first)
    for step in range(1, ROUNDS + 1):
        made = seen @ found
        length = np.linalg.norm(made, axis=1, keepdims=True) + 1e-6
        made /= length
        slope = back @ (((made * goal).sum(1, keepdims=True) * made - goal) / length) + HOLD * (found - first)
        mean_slope, size = 0.9 * mean_slope + 0.1 * slope, 0.99 * size + 0.01 * slope**2
        found -= STEP * (mean_slope / (1 - 0.9**step)) / (np.sqrt(size / (1 - 0.99**step)) + 1e-6)
        if step % 10 == 0:
            alike = [float((unit(words[some] @ found) * wanted[some]).sum(1).mean()) for some in (~later, later)]
            print(f"round {step}: likeness {alike[0]:.3f} to texts learnt from, {alike[1]:.3f} to others", flush=True)
    return found.astype(np.float32)


def unit(rows: np.ndarray) -> np.ndarray:
    return rows / (np.linalg.norm(rows, axis=1, keepdims=True) + 1e-9)


def main(texts_file: str, model_file: str | None, out: Path) -> None:
    model, tokenizer = MiniLM(model_file, threads=2), WordPiece()
    vocabulary = tokenizer.numbers
    ordered = sorted(vocabulary, key=vocabulary.__getitem__)
    whole = [word for word in ordered if re.fullmatch("[a-z]+", word) and len(word) > 1]
    parts = [word for word in ordered if re.fullmatch("##[a-z]+", word)] + [chr(97 + n) for n in range(26)]
    whole += sorted({word for word in MORE.split() if word.isascii()} - set(whole))
    kept = [*whole, *parts]
    first, last = vocabulary["[CLS]"], vocabulary["[SEP]"]
    alone = [[vocabulary[w]] if w in vocabulary else pieces(w, vocabulary) for w in kept]
    raw = model_vectors(model, [[first, *row, last] for row in alone])
    raw -= raw.mean(0)
    near, like = nearest(unit(raw[: len(whole)]), whole)
    table: dict[str, Any] = {"words": np.frombuffer("\n".join(kept).encode(), np.uint8), "near": near, "like": like}
    blank = {"vectors": np.zeros((len(kept), SIZE), np.int8), "lengths": np.zeros(len(kept), np.float16)}
    texts = Path(texts_file).read_text("utf-8").splitlines()
    place = {text: n for n, text in enumerate(dict.fromkeys(texts))}
    read = unit(model_vectors(model, [tokenizer(text, LONGEST) for text in place]))
    wanted = read[[place[text] for text in texts]]
    print(f"{len(texts)} texts read", flush=True)
    vectors = taught(Lexicon({**table, **blank}), raw, texts, wanted)
    lengths = np.linalg.norm(vectors, axis=1)
    small = unit(vectors)
    np.savez(
        out,
        **table,
        vectors=np.round(small * 127 / np.abs(small).max()).astype(np.int8),
        lengths=lengths.astype(np.float16),
    )
    print(f"{len(whole)} words and {len(parts)} parts, {out.stat().st_size / 1e6:.1f} MB -> {out}")


if __name__ == "__main__":
    default = Path(__file__).parents[1] / "src/ropewalk/select/words.npz"
    given = dict(enumerate(sys.argv))
    main(given[1], given.get(2) or None, Path(given.get(3, default)))
